"""The passes of the pipeline that all programs take, in order, with their facts.

``kernel_passes`` has those that write loops over scalars, for ``jit``.
"""

from __future__ import annotations

from calque.transpiler.diagnostics.finite_checks import add_checks
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.pass_manager import Pass
from calque.transpiler.ir.phases import spread_phases
from calque.transpiler.memory.capacity_checks import unify_capacity_checks
from calque.transpiler.primitives.called import inline_calls

# facts
ELEMENTS = "what is done to arrays is loops over elements"
NO_CALLS = "calls of functions with rules are inlined"
PHASES = "each statement within a phase says so"
OWN_PHIS = "a loop carries nothing that it leaves alone"
INSIDE = "indices that are proven to be inside are marked"
INDEPENDENT = "loops whose iterations are independent are marked"

CORE_PASSES = (
    Pass("inline_calls", lambda w: inline_calls(w.function, w.builder), makes=[NO_CALLS]),
    Pass("remove_dead_code", lambda w: remove_dead_code(w.function), optional=True),
    Pass(
        *("spread_phases", lambda w: spread_phases(w.function)),
        after=["inline_calls"],
        makes=[PHASES],
    ),
    Pass(
        *("unify_capacity_checks", lambda w: unify_capacity_checks(w.function, w.builder)),
        optional=True,
    ),
)
CHECKED = (
    # its effects are seen by no other
    Pass("add_checks", lambda w: add_checks(w.function, w.builder), needs=[NO_CALLS, PHASES]),
)
