"""Calls that draw random numbers, read files, run text, or ask for what surrounds the process."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from calque.transpiler.builder import function_name
from calque.transpiler.errors import ImpureFunction, UnsupportedSyntax
from calque.transpiler.frontend.callables import is_in
from calque.transpiler.frontend.surroundings import reads_surroundings

_EVALUATE = {exec, eval, compile}
_FILES = {open, input, np.load, np.save, np.savez, np.savez_compressed, np.loadtxt, np.savetxt}
_FILES |= {np.genfromtxt, np.fromfile}


def refuse_impure(machine: Any, function: Any, node: Any) -> None:
    """Refuse a call that reads or changes what is outside of the program."""
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__name__", "")
    random = (
        isinstance(owner, (np.random.RandomState, np.random.Generator)) or module == "random"
    )
    random = random or type(owner).__module__ == "random"
    if random or (module.startswith("numpy.random") and not isinstance(function, type)):
        machine.fail(
            ImpureFunction,
            node,
            f"{name} draws from a hidden state: generated code would not be a function.",
            "draw the numbers outside and pass them in",
        )
    if is_in(function, _EVALUATE):
        machine.fail(
            UnsupportedSyntax,
            node,
            f"`{name}` runs text.",
            "write the code itself, in a function",
        )
    files = is_in(function, _FILES) or isinstance(owner, io.IOBase)
    if files or reads_surroundings(function):
        machine.fail(
            ImpureFunction,
            node,
            f"{function_name(function)} reads or writes outside the function.",
            "do it outside, and pass the values in",
        )
