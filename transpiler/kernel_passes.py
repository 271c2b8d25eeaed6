"""The passes that write kernels, in order, each with what it needs, keeps and comes after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calque.transpiler.algebra.common_subexpressions import merge_common_subexpressions
from calque.transpiler.algebra.last_elements import carry_last_elements
from calque.transpiler.algebra.scalar_factoring import factor_out_scalars
from calque.transpiler.algebra.triangular_solves import solve_by_substitution
from calque.transpiler.algebra.value_numbering import value_numbering
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.pass_manager import Pass, Work
from calque.transpiler.ir.phases import spread_phases
from calque.transpiler.late import Late
from calque.transpiler.loops.array_lowering import lower_to_loops
from calque.transpiler.loops.bounds import mark_in_bounds
from calque.transpiler.loops.bounds_checks import check_arrays, check_indices
from calque.transpiler.loops.capacity_strips import strip_by_capacity
from calque.transpiler.loops.definite_initialization import initialize_before_loop
from calque.transpiler.loops.hoisted_checks import hoist_checks
from calque.transpiler.loops.index_set_splitting import split_index_set
from calque.transpiler.loops.integer_checks import check_integers
from calque.transpiler.loops.invariant_phis import remove_invariant_phis
from calque.transpiler.loops.parallelize import (
    demote_parallel_to_serial,
    estimate_parallel_work,
    mark_parallel,
)
from calque.transpiler.loops.policies.array_contraction import contract
from calque.transpiler.loops.policies.crossing_splitting import split_at_crossing
from calque.transpiler.loops.policies.distribution import distribute
from calque.transpiler.loops.policies.interchange import interchange
from calque.transpiler.loops.policies.outward_interchange import interchange_outward
from calque.transpiler.loops.products.raised_products import raise_products
from calque.transpiler.loops.recurrence_strips import strip_recurrences
from calque.transpiler.loops.scalar_replacement import scalar_replacement
from calque.transpiler.loops.scatter_to_gather import gather
from calque.transpiler.loops.shape_guards import insert_shape_guards
from calque.transpiler.loops.trip_count_guards import guard_trip_count
from calque.transpiler.memory.buffer_reuse import reuse_memory
from calque.transpiler.memory.data_layout import choose_data_layout
from calque.transpiler.memory.hoisted_allocation import (
    hoist_allocations,
    hoist_constants,
    hoist_creations,
)
from calque.transpiler.outlining import shared_functions
from calque.transpiler.outlining.callees import within
from calque.transpiler.outlining.part_forms import Renaming
from calque.transpiler.outlining.sharing_policy import to_compile
from calque.transpiler.passes import ELEMENTS, INDEPENDENT, INSIDE, OWN_PHIS, PHASES

if TYPE_CHECKING:  # what serves a grid of threads is imported where there is one
    from calque.transpiler.loops import (
        array_expansion,
        double_buffering,
        forwarded_terms,
        online_sums,
        scans_in_parts,
        skipped_initialization,
        sorted_scatters,
        sums_in_parts,
    )
    from calque.transpiler.loops.policies import row_fusion, scan_fusion, thread_mapping
    from calque.transpiler.memory import made_sizes
else:
    row_fusion = Late("calque.transpiler.loops.policies.row_fusion")
    made_sizes = Late("calque.transpiler.memory.made_sizes")
    sorted_scatters = Late("calque.transpiler.loops.sorted_scatters")
    thread_mapping = Late("calque.transpiler.loops.policies.thread_mapping")
    scan_fusion = Late("calque.transpiler.loops.policies.scan_fusion")
    forwarded_terms = Late("calque.transpiler.loops.forwarded_terms")
    double_buffering = Late("calque.transpiler.loops.double_buffering")
    skipped_initialization = Late("calque.transpiler.loops.skipped_initialization")
    online_sums = Late("calque.transpiler.loops.online_sums")
    scans_in_parts = Late("calque.transpiler.loops.scans_in_parts")
    sums_in_parts = Late("calque.transpiler.loops.sums_in_parts")
    array_expansion = Late("calque.transpiler.loops.array_expansion")


def _insert_shape_guards(w: Work) -> None:
    w.compares = insert_shape_guards(w.function, w.builder)


def _gather(w: Work) -> None:
    w.edges = gather(w.function, w.builder, w.target.grid)


def _strip_by_capacity(w: Work) -> None:
    strip_by_capacity(w.function, w.builder, w.target.can_compile)


def _strip_recurrences(w: Work) -> None:
    target = w.target
    strip_recurrences(
        w.function, w.builder, target.can_compile, target.may_raise, target.may_divide_by_zero
    )


def _bounds_are_ours(w: Work) -> bool:
    """True if kernels' own code checks indices: else Numba checks them, or nothing does."""
    return w.option("boundscheck") is None or w.target.grid


def _on_cores(w: Work) -> bool:
    """True if the target is a CPU, for passes about caches, vectors or a few threads."""
    return not w.target.grid


def _on_grid(w: Work) -> bool:
    return w.target.grid


def share_functions(w: Work) -> tuple[list[Work], list[Renaming]]:
    """Make functions of what repeats, before all passes: the programs that they are.

    What is assumed of sizes of the first part of each kind is to be assumed of the others', too,
    which the renamings give.
    """
    plan = shared_functions.plan_functions(w.function, w.builder, to_compile(w.builder))
    callees = shared_functions.share_functions(w.function, w.builder, plan)
    made = []
    for callee in callees:
        callee.function.kernel_options = w.function.kernel_options
        own = within(w.builder, callee.function)
        made.append(Work(callee.function, own, w.target, w.comparing))
    return made, [names for callee in callees for names in callee.renamings]


def _remove_invariant_phis() -> Pass:
    name = "remove_invariant_phis"
    return Pass(name, lambda w: remove_invariant_phis(w.function), makes=[OWN_PHIS])


KERNEL_PASSES = (
    Pass("value_numbering", lambda w: value_numbering(w.function), optional=True),
    Pass(
        *("factor_out_scalars", lambda w: factor_out_scalars(w.function, w.builder)),
        optional=True,
        reorders=True,
    ),
    Pass(
        *("carry_last_elements", lambda w: carry_last_elements(w.function.body, w.builder)),
        optional=True,
    ),
    _remove_invariant_phis(),  # values that iterations leave unchanged are those before the loop
    Pass(
        *("raise_products", lambda w: raise_products(w.function, w.builder)),
        needs=[OWN_PHIS],
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        *("solve_by_substitution", lambda w: solve_by_substitution(w.function, w.builder)),
        when=_on_cores,
        optional=True,
        reorders=True,
    ),
    Pass("hoist_constants", lambda w: hoist_constants(w.function), optional=True),
    Pass("initialize_before_loop", lambda w: initialize_before_loop(w.function, w.builder)),
    Pass("insert_shape_guards", _insert_shape_guards, when=lambda w: w.comparing, optional=True),
    Pass(
        "lower_to_loops",
        lambda w: lower_to_loops(w.function, w.builder, w.target.can_be_scalar, w.target.grid),
        keeps=frozenset(),
        after=["insert_shape_guards"],
        makes=[ELEMENTS],
    ),
    Pass(
        *("hoist_creations", lambda w: hoist_creations(w.function, w.target.can_compile)),
        needs=[ELEMENTS],
        when=_on_cores,
        optional=True,
    ),
    Pass(
        *("strip_by_capacity", _strip_by_capacity),
        needs=[ELEMENTS],
        when=_on_cores,
        optional=True,
        explains=True,
    ),
    Pass(
        "guard_trip_count",
        lambda w: guard_trip_count(w.function, w.builder, w.target.can_compile),
        needs=[ELEMENTS],
    ),
    Pass("mark_in_bounds", lambda w: mark_in_bounds(w.function.body, w.builder), makes=[INSIDE]),
    Pass(
        *("check_integers", lambda w: check_integers(w.function.body, w.builder)),
        needs=[ELEMENTS],
        keeps=frozenset([ELEMENTS, INSIDE, PHASES, OWN_PHIS]),
    ),
    Pass("spread_phases", lambda w: spread_phases(w.function), makes=[PHASES]),
    Pass(
        *("fuse_rows", lambda w: row_fusion.fuse_rows(w.function, w.builder)),
        needs=[ELEMENTS],
        after=["mark_in_bounds"],
        when=_on_grid,
        optional=True,
        explains=True,
    ),
    _remove_invariant_phis(),  # a loop that is turned around must make all that it carries
    Pass(
        "interchange_outward",
        lambda w: interchange_outward(
            w.function, w.builder, w.target.may_raise, w.target.may_divide_by_zero
        ),
        needs=[ELEMENTS, INSIDE, OWN_PHIS],
        when=_on_cores,
        optional=True,
        explains=True,
    ),
    Pass(
        "interchange",
        lambda w: interchange(w.function, w.builder, w.target.may_divide_by_zero),
        needs=[ELEMENTS, INSIDE, OWN_PHIS],
        when=_on_cores,
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass("remove_dead_code", lambda w: remove_dead_code(w.function), optional=True),
    Pass(
        *("check_indices", lambda w: check_indices(w.function, w.builder, w.target.can_compile)),
        needs=[ELEMENTS, INSIDE],
        when=_bounds_are_ours,
    ),
    Pass(
        *("check_arrays", lambda w: check_arrays(w.function, w.builder, w.target.can_compile)),
        needs=[ELEMENTS],
        after=["check_indices"],
        when=_on_grid,
    ),
    Pass(
        "split_at_crossing",
        lambda w: split_at_crossing(w.function, w.builder, w.target.can_compile),
        needs=[ELEMENTS],
        when=_on_cores,
        optional=True,
        explains=True,
    ),
    Pass(
        *("scalar_replacement", lambda w: scalar_replacement(w.function, w.builder)),
        needs=[ELEMENTS, PHASES],
        keeps=frozenset([ELEMENTS, INSIDE, PHASES]),
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        *("name_sizes", lambda w: made_sizes.name_sizes(w.function)),
        needs=[ELEMENTS],
        when=_on_grid,
        optional=True,
    ),
    _remove_invariant_phis(),
    Pass(
        *("gather", _gather),
        needs=[ELEMENTS, PHASES, OWN_PHIS],
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        "hoist_checks",
        lambda w: hoist_checks(w.function, w.builder, w.target.can_compile, w.target.may_raise),
        needs=[ELEMENTS, OWN_PHIS],
        after=["check_indices", "gather"],
        when=_on_cores,
        optional=True,
        explains=True,
    ),
    Pass(
        *("strip_recurrences", _strip_recurrences),
        needs=[ELEMENTS, OWN_PHIS],
        after=["gather", "hoist_checks"],
        when=_on_cores,
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        *("distribute", lambda w: distribute(w.function, w.builder, w.edges)),
        needs=[ELEMENTS, OWN_PHIS],
        after=["gather"],
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        "split_index_set",
        lambda w: split_index_set(
            w.function, w.builder, w.target.can_compile, w.target.may_divide_by_zero
        ),
        needs=[ELEMENTS],
        when=_on_cores,
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        "mark_parallel",
        lambda w: mark_parallel(w.function.body, w.builder, bool(w.option("explained"))),
        needs=[ELEMENTS, OWN_PHIS],
        makes=[INDEPENDENT],
        when=_on_cores,
        optional=True,
        explains=True,
    ),
    Pass(
        *("sort_scatters", lambda w: sorted_scatters.sort_scatters(w.function, w.builder)),
        needs=[ELEMENTS, OWN_PHIS],
        when=lambda w: w.target.grid and bool(w.option("deterministic")),
        optional=True,
    ),
    Pass(
        "map_to_threads",
        lambda w: thread_mapping.map_to_threads(
            w.function, w.builder, bool(w.option("deterministic"))
        ),
        needs=[ELEMENTS, INSIDE, OWN_PHIS],
        makes=[INDEPENDENT],
        when=_on_grid,
        explains=True,
    ),
    Pass(
        *("fuse_scans", lambda w: scan_fusion.fuse_scans(w.function, w.builder)),
        needs=[ELEMENTS, INSIDE],
        after=["map_to_threads"],
        when=_on_grid,
        optional=True,
        explains=True,
    ),
    Pass(
        *("forward_terms", lambda w: forwarded_terms.forward_terms(w.function, w.builder)),
        needs=[ELEMENTS, INSIDE],
        after=["map_to_threads"],
        when=_on_grid,
        optional=True,
    ),
    Pass(
        *("double_buffer", lambda w: double_buffering.double_buffer(w.function, w.builder)),
        needs=[ELEMENTS, INSIDE],
        after=["map_to_threads"],
        when=_on_grid,
        optional=True,
        explains=True,
    ),
    Pass(
        "skip_initialization",
        lambda w: skipped_initialization.skip_initialization(w.function, w.builder),
        needs=[ELEMENTS],
        after=["map_to_threads"],
        when=_on_grid,
        optional=True,
    ),
    Pass(
        *("sum_online", lambda w: online_sums.sum_online(w.function, w.builder)),
        needs=[INDEPENDENT],
        after=["map_to_threads"],
        when=_on_grid,
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        *("scan_in_parts", lambda w: scans_in_parts.scan_in_parts(w.function, w.builder)),
        needs=[INDEPENDENT],
        after=["map_to_threads"],
        when=_on_grid,
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        *("sum_in_parts", lambda w: sums_in_parts.sum_in_parts(w.function, w.builder)),
        needs=[INDEPENDENT],
        after=["map_to_threads", "sum_online"],
        when=_on_grid,
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        *("expand_arrays", lambda w: array_expansion.expand_arrays(w.function, w.builder)),
        needs=[INDEPENDENT],
        after=["map_to_threads"],
        when=_on_grid,
        optional=True,
        reorders=True,
        explains=True,
    ),
    Pass(
        "demote_parallel_to_serial",
        lambda w: demote_parallel_to_serial(
            w.function.body,
            *(w.target.can_compile, w.target.may_raise, w.target.may_divide_by_zero),
        ),
        needs=[INDEPENDENT],
        after=["check_indices"],
        when=_on_cores,
    ),
    Pass(
        "estimate_parallel_work",
        lambda w: estimate_parallel_work(w.function.body, w.target.can_compile),
        needs=[INDEPENDENT],
        when=lambda w: bool(w.option("explained")),
        optional=True,
    ),
    Pass(
        *("choose_data_layout", lambda w: choose_data_layout(w.function, w.builder)),
        needs=[ELEMENTS],
        when=_on_cores,
        optional=True,
    ),
    Pass(
        *("contract", lambda w: contract(w.function, w.builder, w.target.can_compile)),
        needs=[ELEMENTS],
        when=lambda w: w.target.allocates,
        optional=True,
        explains=True,
    ),
    Pass(
        *("reuse_memory", lambda w: reuse_memory(w.function, w.builder, w.target.can_compile)),
        needs=[ELEMENTS, INDEPENDENT],
        when=_on_cores,
        optional=True,
    ),
    Pass("hoist_allocations", lambda w: hoist_allocations(w.function), optional=True),
    Pass(
        *("merge_common_subexpressions", lambda w: merge_common_subexpressions(w.function)),
        when=_on_grid,
        optional=True,
    ),
    Pass("spread_phases", lambda w: spread_phases(w.function), makes=[PHASES]),
)
