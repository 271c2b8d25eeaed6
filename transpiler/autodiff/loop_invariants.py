"""Loop-invariant code motion for arrays: compute them once, before the loop.

Before::

    for t in range(100):
        B = np.eye(n) + 0.01 * A
        x = B @ x

After::

    B = np.eye(n) + 0.01 * A
    for t in range(100):
        x = B @ x

So the reverse sweep sums the contributions of all iterations to the adjoint of ``B``, and computes
that of ``A`` from the sum, once. Statements that may raise or warn stay in a loop that may have no
iterations. So do arrays that are stored into, and those that take no computation (zeros, a
transpose): a loop over elements writes them where it needs them.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.primitives.axes import transpose

_KINDS = ("elementwise", "linear", "bilinear", "creation", "size")
_WORK = ("elementwise", "bilinear")


def hoist_loop_invariants(body: Block, builder: Builder) -> None:
    """Move invariant statements out of all loops of a block, in place, as far out as possible."""
    read = {*body.results}
    for s in core.walk(body):
        read.update(core.operands(s))
        if not isinstance(s, (For, While)):
            read.update(r for b in core.blocks_of(s) for r in b.results)
    _visit(body, builder, read)


def _visit(block: Block, builder: Builder, read: set[Atom]) -> None:
    made: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _visit(inner, builder, read)
        if isinstance(s, (For, While)):
            made += _taken_out(s, builder, read)
        made.append(s)
    block.statements[:] = made


def _taken_out(loop: For | While, builder: Builder, read: set[Atom]) -> list[Statement]:
    """Remove the invariant statements from a loop's body, and return them in order."""
    inside = {*core.bound_vars(loop)}.union(*map(core.defined_vars, core.blocks_of(loop)))
    bound = {e.where for e in builder.equal_dims}
    same: dict[Var, Apply] = {}
    for s in loop.body.statements:
        if isinstance(s, Apply) and _may_be_early(s, loop, bound):
            if all(a in same or a not in inside for a in _vars(s)):
                same.update(dict.fromkeys(s.outs, s))
    if not same:
        return []
    kept = _stored_or_given_on(loop, read)
    wanted: dict[int, Apply] = {}
    for s in reversed(loop.body.statements):
        if not isinstance(s, Apply) or s.outs[0] not in same or not kept.isdisjoint(s.outs):
            continue
        if _is_work(s, same):
            _with_operands(s, same, wanted)
    taken = [s for s in loop.body.statements if id(s) in wanted]
    loop.body.statements[:] = [s for s in loop.body.statements if id(s) not in wanted]
    return taken


def _may_be_early(s: Apply, loop: For | While, bound: set[Var | None]) -> bool:
    """True if a statement may run before a loop, even if the loop has no iterations."""
    if len(s.outs) != 1 or s.primitive.kind not in _KINDS:
        return False
    if isinstance(loop, For) and _has_iterations(loop):
        return True
    known = s.primitive.total or s.primitive.kind == "size" or s.primitive is transpose
    return known and s.outs[0] not in bound


def _has_iterations(loop: For) -> bool:
    ends = loop.start, loop.stop, loop.step
    return all(isinstance(e, int) for e in ends) and len(range(*ends)) > 0


def _is_work(s: Apply, same: dict[Var, Apply]) -> bool:
    """True if a statement computes a float array from others, not all of them constant fills."""
    if s.primitive.kind not in _WORK or not s.out.type.ndim or not s.out.type.is_float:
        return False
    arrays = [a for a in _vars(s) if a.type.ndim]
    return any(a not in same or same[a].primitive.kind != "creation" for a in arrays)


def _with_operands(s: Apply, same: dict[Var, Apply], wanted: dict[int, Apply]) -> None:
    pending = [s]
    while pending:
        now = pending.pop()
        if id(now) not in wanted:
            wanted[id(now)] = now
            pending += [same[a] for a in _vars(now) if a in same]


def _stored_or_given_on(loop: For | While, read: set[Atom]) -> set[Atom]:
    """The values that a loop stores into, carries for a reader, or returns from its branches."""
    found: set[Atom] = set()
    for s in core.walk(Block([loop])):
        match s:
            case For(body=body) | While(body=body):
                found.update(s.inits)
                carried = zip(s.phis, s.outs, body.results, strict=True)
                found.update(r for phi, out, r in carried if not read.isdisjoint((phi, out)))
            case Apply() if s.primitive.kind == "store":
                found.update(s.args[:1])
            case If(then=then, orelse=orelse):
                found.update((*then.results, *orelse.results))
    return found


def _vars(s: Apply) -> list[Var]:
    return [a for a in s.args if isinstance(a, Var)]
