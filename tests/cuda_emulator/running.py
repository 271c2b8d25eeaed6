"""Transformed functions as a GPU would run them: their launchers on a stand-in for CuPy.

Every text is compiled by NVRTC, too, where that is installed. With ``CALQUE_TESTS_ON=card`` the
same tests run on a GPU, through CuPy itself: `CALQUE_TESTS_ON=card pytest -m gpu`.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from calque.runtime.cuda import captured_products, launching, raise_if_outside
from calque.runtime.transformed import Transformed
from calque.transpiler.ir import pytrees
from cuda_emulator import building, cublas, nvrtc, standin

_CODE = re.compile(r'^code = r"""(\n.*?)^"""', re.S | re.M)
_INDEX = ("-DIndex=int",)
_checked: set[str] = set()
ON_CARD = os.environ.get("CALQUE_TESTS_ON") == "card"  # there nothing counts launches and bytes


library: ModuleType = importlib.import_module("cupy") if ON_CARD else standin
counts = standin  # which has the lists of launches, transfers and waits


@contextmanager
def installed() -> Iterator[ModuleType]:
    """Within the context, ``import cupy`` imports the stand-in, or CuPy if tests run on a card."""
    if ON_CARD:
        yield library
    else:
        with standin.installed(), patch.object(captured_products, "_cublas", lambda: cublas):
            yield library


def cuda_text(fn: Any, *args: Any) -> str:
    """The launcher and the kernels for arguments of these types."""
    return _programs(fn).find(args, {})[0].text


def on_cuda(fn: Any, *args: Any, order: int = 0) -> Any:
    """Run a function on the emulated GPU; return its results as NumPy's arrays and numbers.

    ``order`` is that of a kernel's threads: 0 as numbered, 1 backward, else the seed of a shuffle.
    """
    programs = _programs(fn)
    program = programs.find(args, {})[0]
    check_with_nvrtc(program.text)
    with installed():
        given = pytrees.tree_map(to_device, args)
        captured = program.hidden(programs.root)
        hidden = {name: to_device(value) for name, value in captured.items()}
        before, standin.order = standin.order, order
        try:
            result = program.call(*given, **hidden)
            wait()
            raise_if_outside()  # as whatever waits does
        finally:
            standin.order = before
        return pytrees.tree_map(to_host, result)


@contextmanager
def few_blocks(most: int = 2) -> Iterator[None]:
    """Grids of so many blocks along each axis: what they share goes around several times, as it
    does from thousands of blocks on.
    """
    kept = [f.__kwdefaults__ for f in (launching.blocks, launching.tiles, launching.row_blocks)]
    with ExitStack() as stack:
        for defaults in kept:
            stack.enter_context(patch.dict(defaults, most=most))
        yield


def wait() -> None:
    """Until a card has done all; the stand-in does it at once."""
    if ON_CARD:
        library.cuda.Device().synchronize()


def _programs(fn: Any) -> Any:
    transformed = fn if isinstance(fn, Transformed) else Transformed("jit", fn)
    return transformed.cuda_programs()


def to_device(value: Any) -> Any:
    """Arrays go there, numbers stay."""
    if not isinstance(value, np.ndarray):
        return value
    return _to_card(value) if ON_CARD else standin.asarray(value)


def to_host(value: Any) -> Any:
    """Arrays come back."""
    return value.get() if hasattr(value, "__cuda_array_interface__") else value


def _to_card(value: np.ndarray) -> Any:
    """With its strides, which CuPy would not keep: of reversed and of repeated parts, too."""
    if value.flags.c_contiguous:
        return library.asarray(value)
    low, high = np.lib.array_utils.byte_bounds(value)
    whole = np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8)
    start = value.__array_interface__["data"][0] - low
    memory = library.asarray(whole).data + start
    return library.ndarray(value.shape, value.dtype, memory, value.strides)


def check_with_nvrtc(text: str) -> None:
    """Compile the CUDA C of a module; warnings are errors."""
    code = code_of(text)
    if ON_CARD:  # CuPy compiles it there
        return
    if code and nvrtc.nvrtc() is not None and code not in _checked:
        nvrtc.compiled(code, "sm_80", _INDEX)
        _checked.add(code)


def code_of(text: str) -> str:
    """The CUDA C in a module; nothing where it has none."""
    found = _CODE.search(text)
    return found[1] if found else ""


def prepare(texts: Iterable[str]) -> None:
    """Compile the CUDA C of many modules at once, which is several times faster than one by one.

    What NVRTC or g++ refuse is left to the call of the function, which raises then.
    """
    codes = [code for code in dict.fromkeys(map(code_of, texts)) if code]
    if ON_CARD:
        return
    building.build(codes, _INDEX)
    if nvrtc.nvrtc() is None:
        return
    new = [code for code in codes if code not in _checked]
    for k in range(0, len(new), 25):
        unit = new[k : k + 25]
        own = building.OVERLOADED
        spaces = (f"namespace text_{n} {{\n{own}\n{code}}}" for n, code in enumerate(unit))
        try:
            nvrtc.compiled("\n".join(spaces).replace('extern "C"', ""), "compute_80", _INDEX)
        except ValueError:
            continue
        _checked.update(unit)
