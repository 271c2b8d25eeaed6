"""The types of a kernel's variables, as Numba finds them, each question asked of it once.

A long function asks what ``float64 * float64`` is a thousand times, and again in each round until
no type changes; Numba goes through all that it knows of ``*`` each time.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import (  # type: ignore[attr-defined]
    NumbaWarning,
    WarningsFixer,
)
from numba.core.typeinfer import ConstraintNetwork, TypeInferer


class _Network(ConstraintNetwork):
    """Constraints whose warnings are caught together."""

    def propagate(self, typeinfer: Any) -> list[Any]:
        """What Numba's does: but only what fails is run with its place for warnings."""
        again = []
        for constraint in self.constraints:
            try:
                constraint(typeinfer)
            except Exception:  # Numba's own way finds it again, and says where it stands
                again.append(constraint)
        rest = ConstraintNetwork()
        rest.constraints = again
        return rest.propagate(typeinfer)


class _Inferer(TypeInferer):
    """Numba's inference with a memory."""

    def __init__(self, context: Any, func_ir: Any, warnings: Any):
        super().__init__(context, func_ir, warnings)
        self.constraints = _Network()
        self.known: dict[Any, Any] = {}

    def resolve_call(self, fnty: Any, pos_args: Any, kw_args: Any) -> Any:
        """The signature of a call."""
        if kw_args or not isinstance(fnty, types.Function):
            return super().resolve_call(fnty, pos_args, kw_args)
        key = fnty, pos_args
        if key not in self.known:
            self.known[key] = super().resolve_call(fnty, pos_args, kw_args)
        return self.known[key]


@register_pass(mutates_CFG=True, analysis_only=False)
class QuickTypes(FunctionPass):
    """Finds the types."""

    _name = "calque_types"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Note the types of variables, of calls and of the result."""
        warnings = WarningsFixer(NumbaWarning)
        infer = _Inferer(state.typingctx, state.func_ir, warnings)
        calls = state.typingctx.callstack
        with calls.register(state.targetctx.target, infer, state.func_id, state.args), warnings:
            for k, (name, t) in enumerate(zip(state.func_ir.arg_names, state.args, strict=True)):
                infer.seed_argument(name, k, t)
            infer.build_constraint()
            infer.propagate()
            state.typemap, state.return_type, state.calltypes = infer.unify()
        return True
