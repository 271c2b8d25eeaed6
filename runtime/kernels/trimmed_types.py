"""The types of a kernel's variables, as Numba infers them, each question asked once.

A long function asks a thousand times for the type of ``float64 * float64``, and again in each
iteration until no type changes; Numba searches all signatures of ``*`` each time.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import (  # type: ignore[attr-defined]
    NumbaWarning,
    WarningsFixer,
)
from numba.core.typeinfer import (
    CallConstraint,
    ConstraintNetwork,
    IntrinsicCallConstraint,
    TypeInferer,
)


class _Network(ConstraintNetwork):
    """Constraints; a call is looked at again only when types that it reads have changed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, tuple[Any, ...]] = {}  # a call -> the types of its arguments

    def propagate(self, typeinfer: Any) -> list[Any]:
        """Propagate as Numba does, but rerun only failures with their locations for warnings."""
        again = []
        for constraint in self.constraints:
            reads = _read_by(constraint, typeinfer)
            if reads is not None and self.seen.get(id(constraint)) == reads:
                continue
            try:
                constraint(typeinfer)
            except Exception:  # Numba's own way finds it again, and says where it stands
                again.append(constraint)
            else:
                if reads is not None:
                    self.seen[id(constraint)] = reads
        rest = ConstraintNetwork()
        rest.constraints = again
        return rest.propagate(typeinfer)


def _read_by(constraint: Any, typeinfer: Any) -> tuple[Any, ...] | None:
    """The types of a call's arguments; None where some are not known, or it is another thing."""
    if not isinstance(constraint, CallConstraint) or constraint.kws or constraint.vararg:
        return None
    variables = typeinfer.typevars
    found = [variables[a.name].type for a in constraint.args]
    if not isinstance(constraint, IntrinsicCallConstraint):  # that has no variable for its function
        found.append(variables[constraint.func].type)
    return None if None in found else tuple(found)


class _Inferer(TypeInferer):
    """Numba's inference with a memory."""

    def __init__(self, context: Any, func_ir: Any, warnings: Any):
        super().__init__(context, func_ir, warnings)
        self.constraints = _Network()
        self.known: dict[Any, Any] = {}

    def resolve_value_type(self, inst: Any, val: Any) -> Any:
        """The type of an operator, or of a known value."""
        if inst is not None:
            return super().resolve_value_type(inst, val)
        if val not in self.known:
            self.known[val] = super().resolve_value_type(inst, val)
        return self.known[val]

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
