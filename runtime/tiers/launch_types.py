"""The types by which Numba will know what a launcher gives to its kernels, before it has run.

What the launcher makes lies in memory in order; of arguments and captured arrays it is seen how
they lie. Where that is wrong, the first launch says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.runtime.call.dispatch import Dispatcher
from calque.runtime.call.fallback import is_of_compiler
from calque.runtime.call.loading import Program
from calque.runtime.call.machine_code import KernelCache
from calque.transpiler.ir.types import ArrayType


def expected_launches(
    program: Program, leaves: list[Any], function: Any
) -> list[tuple[KernelCache, tuple[Any, ...]]]:
    """The kernels that a program launches for these leaves, on one thread, and their types."""
    by_name = {k.kernel: k for k in program.kernels if k.version == "serial"}
    given = _given(program, leaves, function)
    found = {}
    for launch in program.traced.function.launches:
        types = tuple([_numba_type(kind, given.get(place)) for kind, place in launch.given])
        if launch.kernel in by_name:  # else one that does the same stands for it
            found[launch.kernel, types] = by_name[launch.kernel], types
    return list(found.values())


def tried(dispatcher: Dispatcher, args: tuple[Any, ...]) -> Program:
    """The program that calls of these types run: where a compiler refuses kernels, it has none.

    They are compiled, as the first call would.
    """
    program, leaves = dispatcher.find(args, {})
    if program.tried or not program.traced.compiled or program.traced.target.grid:
        return program
    try:
        for cache, types in expected_launches(program, leaves, dispatcher.root):
            if not cache.is_ready(types):
                cache.dispatcher.compile(types)
    except Exception as error:
        if not is_of_compiler(error):
            raise
        dispatcher.refuse(program, type(error).__name__, str(error))
        program, _ = dispatcher.find(args, {})
    return program


def _given(program: Program, leaves: list[Any], function: Any) -> dict[int | None, Any]:
    """The arrays that parameters of the text are, by the places of these."""
    traced = program.traced
    captured = {c.var: c.path for c in traced.captures}
    found: dict[int | None, Any] = {}
    for place, var in enumerate(traced.function.params):
        if var in captured:
            found[place] = captured[var].read(function)
        elif var in traced.builder.leaf_of_param:
            found[place] = leaves[traced.builder.leaf_of_param[var]]
    return found


def _numba_type(kind: ArrayType, value: Any) -> Any:
    from numba import from_dtype, typeof, types

    if isinstance(value, np.ndarray) and kind.ndim:
        return typeof(value)
    number = from_dtype(kind.dtype)
    return types.Array(number, kind.ndim, "C") if kind.ndim else number
