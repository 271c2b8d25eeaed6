"""The names that passes had before, which ``CALQUE_PRINT_AFTER`` still takes.

The next release removes this file: from then on only the names of ``transpiler/passes.py`` work.
"""

from __future__ import annotations

OLD_NAMES = {
    "allocate_first": "hoist_allocations",
    "batch_iterations": "raise_products",
    "batch_rounds": "raise_products",
    "compare_sizes": "insert_shape_guards",
    "constants_first": "hoist_constants",
    "creations_first": "hoist_creations",
    "drop_unchanged": "remove_invariant_phis",
    "fewer_accesses": "scalar_replacement",
    "grow_together": "unify_capacity_checks",
    "hoist_products": "raise_products",
    "hold_spans": "guard_trip_count",
    "keep_off_threads": "demote_parallel_to_serial",
    "leave_unfilled": "skip_initialization",
    "mark_inside": "mark_in_bounds",
    "merge_dear_terms": "value_numbering",
    "move_outward": "interchange_outward",
    "multiply_rows": "raise_products",
    "order_axes": "choose_data_layout",
    "products_after": "raise_products",
    "products_ahead": "raise_products",
    "rounds_in_blocks": "strip_by_capacity",
    "schedule": "lower_to_loops",
    "set_before_first_rounds": "initialize_before_loop",
    "sink_products": "raise_products",
    "split_bands": "split_index_set",
    "split_meetings": "split_at_crossing",
    "swap_buffers": "double_buffer",
    "take_factors_out": "factor_out_scalars",
    "weigh": "estimate_parallel_work",
}
