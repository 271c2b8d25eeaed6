"""A kernel's instructions, as Numba writes them, less the counting of references to memory.

A kernel reads and stores elements of arrays that its caller holds: it makes no array, and keeps
none. Numba counts references to each array all the same, in more instructions than the kernel's
own.
"""

from __future__ import annotations

import functools
from typing import Any

from numba.core import ir, types
from numba.core.cgutils import alloca_once
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.ir_utils import check_and_legalize_ir
from numba.core.lowering import Lower

from calque.runtime.kernels.trimmed_accesses import ShortLowering, is_plain


@register_pass(mutates_CFG=False, analysis_only=True)
class References(AnalysisPass):
    """Has references counted where a kernel makes something that is to be let go of."""

    _name = "calque_references"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Look at all that is assigned, and at what is returned."""
        blocks = state.func_ir.blocks.values()
        if is_plain(state.return_type) and all(_keeps_none(b, state.typemap) for b in blocks):
            state.targetctx.enable_nrt = False  # a context of this kernel alone
        else:
            check_and_legalize_ir(state.func_ir, state.flags)  # says where each reference ends
        state.type_annotation = ""
        return False


def _keeps_none(block: Any, typemap: dict[str, Any]) -> bool:
    for s in block.body:
        if isinstance(s, ir.DynamicRaise):
            return False  # its message is an object
        if isinstance(s, ir.Assign):
            t = typemap[s.target.name]
            if not is_plain(t) and not (isinstance(t, types.Array) and _is_held(s.value, typemap)):
                return False
    return True


def _is_held(value: Any, typemap: dict[str, Any]) -> bool:
    """True if another variable holds the memory of an array: an argument, or part of one."""
    if not isinstance(value, ir.Expr):
        return isinstance(value, (ir.Arg, ir.Var))
    if value.op == "getitem":
        return is_plain(typemap[value.index.name])  # not chosen by an array
    return value.op in ("static_getitem", "cast", "phi")


@functools.cache
def lowering(plain: type, part: bool = False) -> type:
    """A pass that writes instructions as another one, with a memory; of a part, to be linked."""

    class Lowering(plain):
        _name = "calque_quick_lowering"

        def run_pass(self, state: Any) -> bool:
            """Write them; what only kernels call has no address."""
            state.flags.no_compile = part
            super().run_pass(state)
            if part:
                made = state.cr._replace(cfunc=[].append)  # one of its own: Numba knows it by that
                state.targetctx.insert_user_function(made.cfunc, made.fndesc, [state.library])
                state.cr = made
            return True

        @property
        def lowering_class(self) -> type:
            return _remembering(super().lowering_class)

    return register_pass(mutates_CFG=True, analysis_only=False)(Lowering)


@functools.cache
def _remembering(plain: type) -> type:
    bases = (ShortLowering,) if plain is Lower else (plain, ShortLowering)

    class Remembering(*bases):  # type: ignore[misc]
        """Looks up once what an operator is for operands of some types."""

        def init(self) -> None:
            super().init()
            self.known: dict[Any, Any] = {}

        def lower_inst(self, inst: Any) -> None:
            assigns = isinstance(inst, ir.Assign) and not isinstance(inst.value, ir.Arg)
            if not assigns or self.context.enable_debuginfo:
                super().lower_inst(inst)
                return
            if self.is_short(inst):
                return
            # the same without the statement's text, which only debugging prints
            self.notify_loc(self.loc)
            value = self.lower_assign(self.typeof(inst.target.name), inst)
            self.storevar(value, inst.target.name)

        def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
            """Space for a variable, of a size that is asked of LLVM for debugging only."""
            if self.context.enable_debuginfo:
                return super().alloca_lltype(name, lltype, datamodel)
            return alloca_once(self.builder, lltype, name=name)

        def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
            if expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED:
                return super().lower_binop(resty, expr, op)
            context, signature = self.context, self.fndesc.calltypes[expr]
            if (op, signature.args) not in self.known:
                kind = context.typing_context.resolve_value_type(op)
                found = kind.get_call_type(context.typing_context, signature.args, {})
                self.known[op, signature.args] = context.get_function(kind, found)
            operands = [
                context.cast(self.builder, self.loadvar(v.name), self.typeof(v.name), t)
                for v, t in zip((expr.lhs, expr.rhs), signature.args, strict=True)
            ]
            value = self.known[op, signature.args](self.builder, operands)
            return context.cast(self.builder, value, signature.return_type, resty)

    return Remembering
