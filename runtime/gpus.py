"""The GPUs of this machine, through CuPy, which is imported when somebody asks for them."""

from __future__ import annotations

from types import ModuleType

from calque.transpiler.errors import NoSuchDevice

EXTRAS = 'the extras cuda12 and cuda13 bring CuPy: pip install "calque[cuda12]"'


def cupy() -> ModuleType:
    """CuPy; raises NoSuchDevice where it is not installed, with what brings it."""
    try:
        import cupy as found
    except ImportError as error:
        raise NoSuchDevice(f"GPUs are reached through CuPy: {error}.", hint=EXTRAS) from None
    return found


def gpu_count() -> int:
    """The number of GPUs; 0 without CuPy, or without a driver.

    >>> gpu_count() >= 0
    True
    """
    try:
        return int(cupy().cuda.runtime.getDeviceCount())
    except NoSuchDevice:
        return 0
    except Exception as error:  # CuPy's own class: there is no driver, or no card
        if type(error).__name__ != "CUDARuntimeError":
            raise
        return 0
