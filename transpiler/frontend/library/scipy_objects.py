"""What is SciPy's among what programs call, and what to write in the place of what has no rule."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, function_name

# a module of SciPy -> where NumPy has functions of the same names that do the same
_IN_NUMPY = {
    "scipy.linalg": (np.linalg, np),
    "scipy.fft": (np.fft,),
    "scipy.fftpack": (np.fft,),
    "scipy.special": (np,),
    "scipy.signal": (np,),
    "scipy.integrate": (np,),
}


def is_scipys(function: Any) -> bool:
    """Whether a function, or the class of a callable object, is SciPy's."""
    modules = getattr(function, "__module__", None), type(function).__module__
    return any((m or "").startswith("scipy") for m in modules)


def is_frozen(owner: Any) -> bool:
    """A distribution with its parameters: its methods call those of the distribution."""
    return is_scipys(owner) and type(owner).__name__ == "rv_continuous_frozen"


def is_public(value: Any) -> bool:
    """A distribution as ``scipy.stats`` has it: what it is follows from its name."""
    name = getattr(value, "name", None) if is_scipys(value) else None
    return isinstance(name, str) and getattr(sys.modules.get("scipy.stats"), name, None) is value


def _numpys(name: str) -> str | None:
    """NumPy's name of a function of SciPy, where calque knows it."""
    module, _, own = name.rpartition(".")
    for place in _IN_NUMPY.get(module, ()):
        found = getattr(place, own, None)
        if callable(found) and found in FUNCTIONS:
            return function_name(found)
    return None


def instead_of(function: Any, name: str) -> str:
    """The hint for a function without a rule: another one, or the declaration that admits it."""
    if not name.startswith("scipy."):
        return "write it in NumPy, or declare a primitive for it"
    if not hasattr(function, "__name__"):
        return f"call a method of {name} with its parameters"
    other = _numpys(name)
    write = f"write {other}" if other else "write it in NumPy"
    return f"{write}, or give its derivative: calque.opaque({name}, result=..., jvp=..., vjp=...)"
