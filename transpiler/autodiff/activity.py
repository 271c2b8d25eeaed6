"""Activity analysis: the floating-point values that depend on differentiated inputs."""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler.ir.core import Apply, Block, Effect, For, If, Var, While


def varied(block: Block, inputs: Iterable[Var]) -> set[Var]:
    """The floating-point Vars that are computed from ``inputs``, and change smoothly with them."""
    active = set(inputs)
    while True:
        before = len(active)
        _visit(block, active)
        if len(active) == before:
            return active


def _visit(block: Block, active: set[Var]) -> None:
    for s in block.statements:
        match s:
            case Apply(primitive=primitive, args=args, outs=outs):
                if not primitive.nondifferentiable and any(_is_active(a, active) for a in args):
                    _mark(outs, active)
            case If(then=then, orelse=orelse, outs=outs):
                _visit(then, active)
                _visit(orelse, active)
                for out, a, b in zip(outs, then.results, orelse.results, strict=True):
                    if _is_active(a, active) or _is_active(b, active):
                        _mark([out], active)
            case For(body=body) | While(body=body):
                while True:
                    before = len(active)
                    for phi, init, after in zip(s.phis, s.inits, body.results, strict=True):
                        if _is_active(init, active) or _is_active(after, active):
                            _mark([phi], active)
                    _visit(body, active)
                    if len(active) == before:
                        break
                for out, phi in zip(s.outs, s.phis, strict=True):
                    if phi in active:
                        _mark([out], active)
            case Effect():
                pass


def _is_active(atom: object, active: set[Var]) -> bool:
    return isinstance(atom, Var) and atom in active


def _mark(vars: Iterable[Var], active: set[Var]) -> None:
    active.update(v for v in vars if v.type.is_float)
