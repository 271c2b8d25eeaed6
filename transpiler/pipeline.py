"""From a function and its arguments' types to Core for printing, through the passes in order.

interpretation (with the passes of the transformations that are called on the way) -> dead code;
for ``jit`` the schedule of loops over scalars; ``texts`` writes what comes of it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import calque.transpiler.primitives
import calque.transpiler.transformations.failing_factors  # noqa: F401  (fills a table)
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.codegen.text.signature import name_parameters
from calque.transpiler.frontend.control.float_errors import hidden_errors
from calque.transpiler.frontend.function_copies import CopiedFunction
from calque.transpiler.frontend.trace import Traced, trace
from calque.transpiler.ir import core, debug
from calque.transpiler.ir.pass_manager import Work, run_passes
from calque.transpiler.ir.remarks import remark_lines
from calque.transpiler.ir.rewrite import inlined
from calque.transpiler.ir.target import Target
from calque.transpiler.ir.types import ArrayType, Dim
from calque.transpiler.ir.verify import verify
from calque.transpiler.late import Late
from calque.transpiler.memory.escaping_views import copy_escaping_views
from calque.transpiler.outlining.part_forms import assume_alike
from calque.transpiler.passes import CHECKED, CORE_PASSES
from calque.transpiler.primitives.called import Called

if TYPE_CHECKING:
    from calque.transpiler import kernel_passes
    from calque.transpiler.loops import size_specialization
else:
    size_specialization = Late("calque.transpiler.loops.size_specialization")
    kernel_passes = Late("calque.transpiler.kernel_passes")


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call: a type or a value for each leaf, and how to build them."""

    types: tuple[ArrayType | None, ...]
    values: tuple[Any, ...]
    build: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]]
    contiguous: frozenset[int] = frozenset()  # leaves known to be C-contiguous
    compiled: bool = False  # kernels are to be made
    varying: frozenset[Any] = frozenset()  # places of captured numbers that are inputs too
    memory: frozenset[int] = frozenset()  # leaves of which is known where they lie
    grid: bool = False  # for a grid of threads
    copy: CopiedFunction | None = None  # of the function that the program is of
    saves_within: int | None = None  # bytes for the values that a reverse sweep saves


def to_core(
    function: Any,
    arguments: Arguments,
    pinned: dict[str, int] | None = None,
    checked: bool = False,
) -> Traced:
    """Interpret, transform, and drop what is not needed; ``checked`` looks for NaN everywhere."""
    with hidden_errors():
        traced = trace(
            function,
            arguments.types,
            arguments.values,
            arguments.build,
            pinned,
            arguments.contiguous,
            arguments.compiled,
            arguments.varying,
            arguments.memory,
            arguments.grid,
            arguments.copy,
            arguments.saves_within,
        )
    applied = [s.primitive for s in core.walk(traced.function.body) if isinstance(s, core.Apply)]
    if any(isinstance(primitive, Called) for primitive in applied):
        body = inlined(traced.builder, traced.function.body, {})
        traced.with_calls = replace(traced.function, body=body)
    work = Work(traced.function, traced.builder, Target())
    run_passes(CORE_PASSES + CHECKED * checked, work)
    copy_escaping_views(traced.function, _is_transformed(function))
    verify(traced.function)
    return traced


def _is_transformed(function: Any) -> bool:
    """True if a function is transformed otherwise than by ``jit``."""
    while getattr(function, "kind", None) in ("jit", "identity", "observed"):
        function = function.function
    return isinstance(getattr(function, "kind", None), str)


def to_kernels(
    traced: Traced,
    options: dict[str, Any] | None = None,
    sizes: dict[str, int] | None = None,
    comparing: bool = True,
    target: Target = NUMBA,
    few: dict[str, int] | None = None,
    remarks: bool = False,
) -> Traced:
    """Write the arrays' statements as loops over scalars, for kernels with these options.

    ``traced`` stays as it is, for other variants. ``sizes`` are those of the arguments' axes in the
    call at hand, by their symbols; ``few`` are written into the program. Without ``comparing``,
    NumPy does in loops, too, what depends on sizes that only a run knows. With ``remarks``, or
    under ``CALQUE_REMARKS=1``, the builder keeps what each pass did with each loop, and why.
    """
    traced = traced.copied(few or {})
    traced.builder.remarks = {} if remarks or debug.shows_remarks() else None
    traced.builder.dims.actual = dict(sizes or {})
    traced.function.kernel_options = dict(options or {})
    name_parameters(traced.function)
    work = Work(traced.function, traced.builder, target, comparing)
    callees, renamings = ([], []) if target.grid else kernel_passes.share_functions(work)
    with np.errstate(all="ignore"):
        for each in [*callees, work]:
            run_passes(kernel_passes.KERNEL_PASSES, each)
            verify(each.function)
    assume_alike(traced.builder.dims, renamings)
    traced.compares = any(each.compares for each in [*callees, work])
    traced.assumptions = [d for d in traced.builder.dims.assumptions if isinstance(d, Dim)]
    traced.choices = dict(traced.builder.dims.choices)
    traced.inner = size_specialization.inner_sizes(
        [each.function for each in [*callees, work]], traced.builder
    )
    traced.target = target
    if debug.shows_remarks():
        debug.show_text("\n".join(remark_lines(traced.builder)), always=True)
    return traced
