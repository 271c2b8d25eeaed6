"""Compiles kernels: serial code for little work, parallel code for much."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import ir as numba_ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, get_definition, guard, mk_unique_var
from numba.core.types import Float, Integer, float64, uintp
from numba.core.untyped_passes import ReconstructSSA
from numba.extending import intrinsic, overload

# elements of the largest array from which threads give more than they cost, also on a busy machine
PARALLEL_FROM, PARALLEL_FROM_IF_HEAVY = 1 << 21, 1 << 14
FLAGS = {"contract", "reassoc"}


def kernel(
    function: Callable[..., Any] | None = None, *, boundscheck: bool = False, heavy: bool = False
) -> Any:
    """A function of loops over scalars, compiled by Numba on its first call.

    ``heavy``: each round of its parallel loop runs loops of its own. ``boundscheck``: an index out of range is an IndexError; without it, all are proven to be inside.
    With ``CALQUE_JIT=0`` in the environment it runs as it is, for a debugger to step through.
    """
    if function is None:
        return functools.partial(kernel, boundscheck=boundscheck, heavy=heavy)
    if os.environ.get("CALQUE_JIT") == "0":
        return function
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "boundscheck": boundscheck}
    if not boundscheck:
        options["pipeline_class"] = _Proven
    serial = numba.njit(fastmath=FLAGS, **options)(function)
    if boundscheck or "prange" not in function.__code__.co_names:
        return serial
    parallel = numba.njit(parallel={"prange": True}, fastmath=FLAGS, **options)(function)

    limit = PARALLEL_FROM_IF_HEAVY if heavy else PARALLEL_FROM
    arrays: list[int] = []  # the places of the arguments that are arrays

    @functools.wraps(function)
    def launch(*args: Any) -> Any:
        if not arrays:
            arrays.extend(k for k, a in enumerate(args) if isinstance(a, np.ndarray))
        for k in arrays:
            if args[k].size >= limit:
                return parallel(*args)
        return serial(*args)

    return launch


@intrinsic
def _from_start(typingctx, index):  # type: ignore[no-untyped-def]
    if isinstance(index, Integer) and index.signed:
        signature = uintp(index)

        def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return context.cast(builder, args[0], signature.args[0], uintp)

        return signature, code

    def same(context, builder, signature, args):  # type: ignore[no-untyped-def]
        context.nrt.incref(builder, signature.return_type, args[0])
        return args[0]

    return index(index), same


@register_pass(mutates_CFG=False, analysis_only=False)
class _CountFromStart(FunctionPass):
    """Makes every computed index unsigned, so that none is taken from the end if negative.

    Numba chooses between ``i`` and ``i + n`` at each access, which keeps LLVM from seeing that a
    loop goes over memory in order; a loop that counts down ran ten times slower.
    """

    _name = "calque_count_from_start"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Rewrite the indices of all reads and stores."""
        for block in state.func_ir.blocks.values():
            body: list[Any] = []
            for s in block.body:
                value = getattr(s, "value", None)
                if isinstance(s, numba_ir.SetItem):
                    s.index = self._unsigned(state.func_ir, block.scope, s.index, body)
                elif isinstance(value, numba_ir.Expr) and value.op == "getitem":
                    value.index = self._unsigned(state.func_ir, block.scope, value.index, body)
                body.append(s)
            block.body = body
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True

    def _unsigned(self, function: Any, scope: Any, index: Any, body: list[Any]) -> Any:
        made = guard(get_definition, function, index)
        if isinstance(made, (numba_ir.Const, numba_ir.Global, numba_ir.FreeVar)):
            return index  # written as a number: it may be negative
        where = index.loc
        if isinstance(made, numba_ir.Expr) and made.op == "build_tuple":
            items = [self._unsigned(function, scope, item, body) for item in made.items]
            value = numba_ir.Expr.build_tuple(items, where)
        else:
            cast = numba_ir.Var(scope, mk_unique_var("$from_start"), where)
            body.append(numba_ir.Assign(numba_ir.Global("_from_start", _from_start, where), cast, where))
            value = numba_ir.Expr.call(cast, [index], (), where)
        out = numba_ir.Var(scope, mk_unique_var("$place"), where)
        body.append(numba_ir.Assign(value, out, where))
        return out


class _Proven(CompilerBase):
    """Numba's compiler for functions whose computed indices are all proven to be inside."""

    def define_pipelines(self) -> list[Any]:
        """Numba's own passes and one more."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_CountFromStart, ReconstructSSA)
        passes.finalize()
        return [passes]


def maximum(a, b):  # type: ignore[no-untyped-def]
    """The larger number; NaN if one is NaN."""
    return np.maximum(a, b)


def minimum(a, b):  # type: ignore[no-untyped-def]
    """The smaller number; NaN if one is NaN."""
    return np.minimum(a, b)


def heaviside(x, middle):  # type: ignore[no-untyped-def]
    """1 right of zero, 0 left of it, ``middle`` at it."""
    return np.heaviside(x, middle)


@overload(heaviside)
def _heaviside(x, middle):  # type: ignore[no-untyped-def]
    kind = x if isinstance(x, Float) else float64
    return lambda x, middle: (
        kind(0) if x < 0 else kind(1) if x > 0 else kind(middle) if x == 0 else kind(x)
    )


def sign(x):  # type: ignore[no-untyped-def]
    """-1, 0 or 1; NaN for NaN."""
    return np.sign(x)


@overload(sign)
def _sign(x):  # type: ignore[no-untyped-def]
    kind = x
    if isinstance(x, Float):
        return lambda x: kind(1) if x > 0 else kind(-1) if x < 0 else kind(0) if x == 0 else x
    return lambda x: np.sign(x)


def _extremum(name: str) -> Any:
    @intrinsic
    def found(typingctx, a, b):  # type: ignore[no-untyped-def]
        def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
            kind = args[0].type
            two = ir.FunctionType(kind, [kind, kind])
            function = builder.module.declare_intrinsic(f"llvm.{name}", [kind], two)
            return builder.call(function, args)

        return a(a, b), code

    return found


_largest, _smallest = _extremum("maximum"), _extremum("minimum")


@overload(maximum)
def _maximum(a, b):  # type: ignore[no-untyped-def]
    if isinstance(a, Float) and a == b:
        return lambda a, b: _largest(a, b)
    if isinstance(a, Integer) and isinstance(b, Integer):
        return lambda a, b: a if a > b else b
    return lambda a, b: np.maximum(a, b)


@overload(minimum)
def _minimum(a, b):  # type: ignore[no-untyped-def]
    if isinstance(a, Float) and a == b:
        return lambda a, b: _smallest(a, b)
    if isinstance(a, Integer) and isinstance(b, Integer):
        return lambda a, b: a if a < b else b
    return lambda a, b: np.minimum(a, b)


__all__ = ["heaviside", "kernel", "maximum", "minimum", "sign"]
