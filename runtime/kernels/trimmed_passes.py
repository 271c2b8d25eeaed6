"""Passes of Numba's compiler for plain loops, less the analyses for other passes.

After most of its passes Numba asks again which variables live where, for generators, `with` and
references to memory: for a long function that takes longer than the passes do.
"""

from __future__ import annotations

from typing import Any

from numba.core import interpreter
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.rewrites import rewrite_registry
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import PreLowerStripPhis
from numba.core.untyped_passes import (
    GenericRewrites,
    IRProcessing,
    TranslateByteCode,
)


class _Interpreter(interpreter.Interpreter):
    """Bytecode in Numba's words, where no ``with`` is."""

    def post_process(self, peepholes: list[Any], func_ir: Any) -> Any:
        """Tidy up."""
        plain = [p for p in peepholes if p is not interpreter.peep_hole_delete_with_exit]
        return super().post_process(plain, func_ir)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translated(FunctionPass):
    """Translates bytecode."""

    _name = "calque_translated"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Make Numba's form of the function."""
        state["func_ir"] = _Interpreter(state["func_id"]).interpret(state["bc"])
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Processed(FunctionPass):
    """Gives each loop one way back to its head."""

    _name = "calque_processed"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Change the blocks."""
        state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)
        state.func_ir.generator_info = None
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Rewritten(FunctionPass):
    """Writes what is known by its value: ``x[0]``, ``x ** 2``, what is raised."""

    _name = "calque_rewritten"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Rewrite block by block, until nothing is found."""
        blocks = state.func_ir.blocks
        for kind in rewrite_registry.rewrites["before-inference"]:
            rewrite = kind(state)
            for label in list(blocks):
                while rewrite.match(state.func_ir, blocks[label], state.typemap, state.calltypes):
                    blocks[label] = rewrite.apply()
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _NoPhis(PreLowerStripPhis):
    """Assigns in each block what the next one takes for a name's value."""

    _name = "calque_no_phis"

    def run_pass(self, state: Any) -> bool:
        """Put assignments in the place of phis."""
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


PASSES = {
    TranslateByteCode: _Translated,
    IRProcessing: _Processed,
    GenericRewrites: _Rewritten,
    PreLowerStripPhis: _NoPhis,
}
