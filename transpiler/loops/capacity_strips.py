"""Strip-mine a ``while`` that fills growing arrays: an inner loop runs until they are full.

Before::

    while t < end:
        if iterations == x_saved.shape[0]:
            x_saved = np.concatenate((x_saved, np.empty_like(x_saved)))
        x_saved[iterations] = x
        ...

After::

    while t < end:
        if iterations == x_saved.shape[0]:
            x_saved = np.concatenate((x_saved, np.empty_like(x_saved)))
        while t < end and iterations < x_saved.shape[0]:
            x_saved[iterations] = x
            ...

The inner loop does not reallocate: no iteration counts references to the arrays, or reads their
addresses and sizes again.
"""

from __future__ import annotations

from collections.abc import Callable

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, If, Statement, Var, While
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.rewrite import cloned, derived
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.growing import room
from calque.transpiler.primitives.logic import and_, less
from calque.transpiler.primitives.shapes import size_of_axis

LONGEST_TEST = 6  # statements that are written twice


def strip_by_capacity(
    function: Function, builder: Builder, compiles: Callable[[Statement], bool]
) -> None:
    """Strip-mine such loops of kernels, in place."""
    _visit(function.body, builder, compiles, False)


def _visit(
    block: Block, builder: Builder, compiles: Callable[[Statement], bool], compiled: bool
) -> None:
    for s in block.statements:
        inside = compiled or (isinstance(s, (For, While)) and compiles(s))
        for inner in core.blocks_of(s):
            _visit(inner, builder, compiles, inside)
        if inside and isinstance(s, While):
            refused = _strip(s, builder)
            if refused is None:
                applied(builder, "strip_by_capacity", s)
            else:
                missed(builder, "strip_by_capacity", s, refused)


def _are_numbers(statements: list[Statement]) -> bool:
    return all(isinstance(s, Apply) and not s.out.type.ndim for s in statements)


def _grown(s: Statement) -> list[Apply]:
    """The operations by which a statement lets arrays grow; none for other statements."""
    if isinstance(s, If) and not s.orelse.statements:
        rooms = [t for t in s.then.statements if isinstance(t, Apply) and t.params.get("full")]
        return rooms if len(rooms) == len(s.then.statements) else []
    several = isinstance(s, Apply) and s.params.get("several")
    return [s] if isinstance(s, Apply) and s.primitive is room and not several else []


def _strip(loop: While, builder: Builder) -> Refused | None:
    """Move the growth of arrays into a new loop around ``loop``; the reason if it stays."""
    body, growths = loop.body, [t for t in loop.body.statements if _grown(t)]
    if not growths:
        return Refused("it lets no array grow")
    if len(growths) > 1:
        origins = tuple(s.origin for s in growths[:2])
        return Refused("{0} and {1} let arrays grow, one after the other", origins)
    if not _are_numbers(loop.test.statements) or len(loop.test.statements) > LONGEST_TEST:
        return Refused(f"its test does more than compute {LONGEST_TEST} numbers")
    (growth,) = growths
    rooms = _grown(growth)
    arrays, count = [s.args[0] for s in rooms], rooms[0].args[1]
    before = body.statements[: body.statements.index(growth)]
    asking = _needed({*core.operands(growth), count}, before)
    early = core.free_vars(Block([s for s in before if s not in asking]))
    if not _are_numbers(asking) or not set(arrays) <= set(loop.phis) or early.keys() & set(arrays):
        return Refused("an iteration uses the array before {0} lets it grow", (growth.origin,))
    phis = tuple(phi.again() for phi in loop.phis)  # values at the start of a strip
    outside: dict[Var, Atom] = dict(zip(loop.phis, phis, strict=True))
    test = cloned(builder, loop.test, dict(outside))
    start = cloned(builder, Block([*asking, growth], [*growth.outs]), outside)
    inits: list[Atom] = [*phis]
    for array, grown in zip(arrays, start.results, strict=True):
        inits[loop.phis.index(array)] = grown
    body.statements.remove(growth)
    core.substitute(body, dict(zip(growth.outs, arrays, strict=True)))
    _while_there_is_room(loop.test, _needed({count}, before), rooms[0], builder)
    outs = tuple(out.again() for out in loop.outs)
    block = derived(loop, outs=outs, inits=tuple(inits), body=body)
    loop.phis, loop.test = phis, test
    loop.body = Block([*start.statements, block], [*outs])
    for each in (block, loop):
        builder.note(each)
    return None


def _needed(values: set[Atom], statements: list[Statement]) -> list[Statement]:
    """The statements that compute some values, in order."""
    found: list[Statement] = []
    for s in reversed(statements):
        if not values.isdisjoint(s.outs):
            found.insert(0, s)
            values = values.union(core.operands(s), core.free_vars(Block([s])))
    return found


def _while_there_is_room(
    test: Block, counting: list[Statement], grown: Apply, builder: Builder
) -> None:
    """Let a loop's test also ask whether the array has room for the next iteration."""
    array, count = grown.args
    counted = cloned(builder, Block([*counting], [count]), {})
    with builder.active(), builder.block() as asked:
        size = apply(size_of_axis, Array(array), axis=grown.params.get("axis", 0))
        going = apply(and_, wrap(test.results[0]), apply(less, wrap(counted.results[0]), size))
    test.statements += [*counted.statements, *asked.statements]
    test.results = [going.atom]
