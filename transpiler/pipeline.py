"""From a function and the types of its arguments to generated source: this file knows the order.

interpretation (with the passes of the transformations that are called on the way) -> dead code
-> text; for ``jit`` the schedule of loops over scalars comes before the text
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import calque.transpiler.primitives  # noqa: F401  (fills the tables)
from calque.transpiler.algebra.scalar_factoring import take_factors_out
from calque.transpiler.algebra.triangular_solves import solve_by_substitution
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.codegen.numpy.emit import Support, emit_function, emit_module
from calque.transpiler.codegen.text.signature import name_parameters
from calque.transpiler.diagnostics.finite_checks import add_checks
from calque.transpiler.frontend.trace import Traced, trace
from calque.transpiler.ir import core
from calque.transpiler.ir.core import spread_phases
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.debug import watched
from calque.transpiler.ir.target import Target
from calque.transpiler.ir.text import show
from calque.transpiler.ir.types import ArrayType, Dim
from calque.transpiler.ir.verify import verify
from calque.transpiler.loops.array_contraction import contract
from calque.transpiler.loops.bounds import mark_inside
from calque.transpiler.loops.bounds_checks import check_indices
from calque.transpiler.loops.crossing_splitting import split_meetings
from calque.transpiler.loops.definite_initialization import set_before_first_rounds
from calque.transpiler.loops.distribution import distribute
from calque.transpiler.loops.hoisted_products import products_ahead
from calque.transpiler.loops.index_set_splitting import split_bands
from calque.transpiler.loops.interchange import interchange
from calque.transpiler.loops.invariant_phis import drop_unchanged
from calque.transpiler.loops.lowering import schedule
from calque.transpiler.loops.outward_interchange import move_outward
from calque.transpiler.loops.parallelize import keep_off_threads, mark_parallel, weigh
from calque.transpiler.loops.scalar_replacement import fewer_accesses
from calque.transpiler.loops.scatter_to_gather import gather
from calque.transpiler.loops.shape_guards import compare_sizes
from calque.transpiler.loops.size_specialization import inner_sizes
from calque.transpiler.loops.sunk_products import products_after
from calque.transpiler.loops.trip_count_guards import hold_spans
from calque.transpiler.memory.buffer_reuse import reuse_memory
from calque.transpiler.memory.data_layout import order_axes
from calque.transpiler.memory.hoisted_allocation import (
    allocate_first,
    constants_first,
    creations_first,
)
from calque.transpiler.primitives.called import Called, copied, inline_calls


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


def to_core(
    function: Any,
    arguments: Arguments,
    pinned: dict[str, int] | None = None,
    checked: bool = False,
) -> Traced:
    """Interpret, transform, and drop what is not needed; ``checked`` looks for NaN everywhere."""
    with np.errstate(all="ignore"):
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
        )
    applied = [s.primitive for s in core.walk(traced.function.body) if isinstance(s, core.Apply)]
    if any(isinstance(primitive, Called) for primitive in applied):
        body = copied(traced.builder, traced.function.body, {})
        traced.with_calls = replace(traced.function, body=body)
    inline_calls(traced.function, traced.builder)
    remove_dead_code(traced.function)
    verify(traced.function)
    spread_phases(traced.function)
    if checked:
        add_checks(traced.function, traced.builder)
        verify(traced.function)
    return traced


def to_kernels(
    traced: Traced,
    options: dict[str, Any] | None = None,
    sizes: dict[str, int] | None = None,
    comparing: bool = True,
    target: Target = NUMBA,
) -> Traced:
    """Write the arrays' statements as loops over scalars, for kernels with these options.

    ``sizes`` are those of the arguments' axes in the call at hand, by their symbols. Without
    ``comparing``, NumPy does in loops, too, what depends on sizes that only a run knows.
    """
    traced.builder.dims.actual = dict(sizes or {})
    traced.function.kernel_options = dict(options or {})
    name_parameters(traced.function)
    with np.errstate(all="ignore"):
        take_factors_out(traced.function, traced.builder)
        _products_of_rounds(traced)
        solve_by_substitution(traced.function, traced.builder)
        constants_first(traced.function)
        set_before_first_rounds(traced.function, traced.builder)
        traced.compares = comparing and compare_sizes(traced.function, traced.builder)
        watched(
            "schedule",
            traced.function,
            lambda: schedule(traced.function, traced.builder, target.can_be_scalar),
        )
    creations_first(traced.function, target.can_compile)
    hold_spans(traced.function, traced.builder, target.can_compile)
    mark_inside(traced.function.body, traced.builder)
    spread_phases(traced.function)
    drop_unchanged(traced.function)  # a loop that is turned around must make all that it carries
    move_outward(traced.function, traced.builder, target.may_raise, target.may_divide_by_zero)
    interchange(traced.function, traced.builder, target.may_divide_by_zero)
    remove_dead_code(traced.function)
    if traced.function.kernel_options.get("boundscheck") is None:
        check_indices(traced.function, traced.builder, target.can_compile)
    split_meetings(traced.function, traced.builder, target.can_compile)
    fewer_accesses(traced.function, traced.builder)
    drop_unchanged(traced.function)
    edges = gather(traced.function, traced.builder)
    distribute(traced.function, traced.builder, edges)
    split_bands(traced.function, traced.builder, target.can_compile, target.may_divide_by_zero)
    explained = bool(traced.function.kernel_options.get("explained"))
    mark_parallel(traced.function.body, traced.builder, explained)
    raising = target.may_raise, target.may_divide_by_zero
    keep_off_threads(traced.function.body, target.can_compile, *raising)
    if explained:
        weigh(traced.function.body, target.can_compile)
    order_axes(traced.function, traced.builder)
    if target.allocates:
        contract(traced.function, traced.builder, target.can_compile)
    reuse_memory(traced.function, traced.builder, target.can_compile)
    allocate_first(traced.function)
    verify(traced.function)
    spread_phases(traced.function)
    traced.assumptions = [d for d in traced.builder.dims.assumptions if isinstance(d, Dim)]
    traced.choices = dict(traced.builder.dims.choices)
    traced.inner = inner_sizes(traced.function, traced.builder)
    traced.target = target
    return traced


def _products_of_rounds(traced: Traced) -> None:
    """Make one product of matrices of what the rounds of a loop do row by row."""
    function, builder = traced.function, traced.builder
    drop_unchanged(function)  # what rounds leave alone is the same before the loop
    watched("products_ahead", function, lambda: products_ahead(function, builder))
    watched("products_after", function, lambda: products_after(function, builder))


def function_text(traced: Traced, name: str) -> str:
    """The ``def`` of the generated function."""
    traced.function.name = name
    return emit_function(traced.function, kernels=traced.target)


def module_text(
    traced: Traced,
    name: str,
    title: str,
    provenance: Sequence[str],
    support: Support | None = None,
    asking: bool = False,
) -> str:
    """A whole module, with a docstring that says where it comes from.

    ``support`` writes out what kernels call, which else is imported. A module ``asking`` refuses
    arguments of other sizes than its kernels are written for: nobody else will.
    """
    traced.function.name = name
    return emit_module(
        traced.function,
        title=title,
        provenance=list(provenance),
        kernels=traced.target,
        support=support,
        asking=traced.builder.dims if asking and traced.compiled else None,
    )


def core_text(traced: Traced, name: str) -> str:
    """The Core program, for reading."""
    traced.function.name = name
    return show(traced.function)
