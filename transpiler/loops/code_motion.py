"""Hoist operations that every iteration of a loop does on the same operands out of the loop.

Only operations that may raise are hoisted, since threads cannot raise; zero-trip loops do none::

    for k in range(levels):                    inverse = 1.0 / dt if levels > 0 else 0.0
        if k == 0:                             for k in range(levels):
            x += a * (1.0 / dt)        ->          if k == 0:
        else:                                          x += a * inverse
            x += b * (1.0 / dt)                    else: ...

An operation that an earlier loop with the same trip count has hoisted is not done again; so the
loops of a reverse pass reuse results. These are very busy expressions: Nielson, Nielson and Hankin,
Principles of Program Analysis, 1999, section 2.1.3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, atom, wrap
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var
from calque.transpiler.ir.types import DimLike
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.logic import greater, less


@dataclass(frozen=True)
class Done:
    """An operation hoisted out of a loop of ``iterations`` iterations: done unless these are 0."""

    key: Hashable
    iterations: DimLike
    result: Var


def done_before(
    loop: For, builder: Builder, raises: Callable[[Statement], bool], known: list[Done]
) -> list[Statement]:
    """Hoist such operations out of a loop; return the statements to insert before it.

    ``known``: the operations that earlier loops have hoisted; those of this loop are added.
    """
    if loop.step not in (1, -1):
        return []
    inside = {*core.bound_vars(loop)}
    inside.update(v for s in core.walk(loop.body) for v in (*s.outs, *core.bound_vars(s)))
    found: dict[Hashable, list[Apply]] = {}
    for s in core.walk(loop.body):
        if isinstance(s, Apply) and raises(s) and inside.isdisjoint(_vars(s)):
            found.setdefault(_key(s), []).append(s)
    start, stop = builder.dim_of(wrap(loop.start)), builder.dim_of(wrap(loop.stop))
    iterations = builder.dims.resolve(loop.step * (stop - start))
    same = {done.key: done.result for done in known if done.iterations == iterations}
    with builder.block() as made, builder.at(loop.origin):
        for key, several in list(found.items()):
            if key not in same and not _in_each_iteration(loop.body, key):
                del found[key]
                continue
            if key not in same:
                same[key] = once(several[0], loop, builder)
                known.append(Done(key, iterations, same[key]))
            core.substitute(loop.body, {s.out: same[key] for s in several})
    gone = {s for several in found.values() for s in several}
    for block in core.every_block(loop.body):
        block.statements[:] = [s for s in block.statements if s not in gone]
    return made.statements


def once(s: Apply, loop: For, builder: Builder) -> Var:
    """Emit an operation and return its result, which is 0 if the loop has no iteration."""
    name = s.out.name or builder.described(s.out)
    value, result = Var(s.out.type, name, s.origin), Var(s.out.type, name, s.origin)
    done = Apply((value,), s.primitive, s.args, s.params, s.origin)
    ahead = less if loop.step == 1 else greater
    test = atom(apply(ahead, wrap(loop.start), wrap(loop.stop)))
    zero: Atom = s.out.type.dtype.type(0).item()
    choice = If((result,), test, Block([done], [value]), Block([], [zero]), s.origin)
    sure = not isinstance(test, Var) and bool(test)
    builder.emit(done if sure else choice)
    builder.definitions[value] = done
    if not sure:
        builder.definitions[result] = choice
    return value if sure else result


def _vars(s: Apply) -> list[Var]:
    return [a for a in s.args if isinstance(a, Var)]


def _key(s: Apply) -> Hashable:
    args = tuple(a if isinstance(a, Var) else (type(a), repr(a)) for a in s.args)  # -0.0 is not 0.0
    return s.primitive.name, args, s.out.type.dtype


def _in_each_iteration(block: Block, key: Hashable) -> bool:
    """True if all paths through a block do the operation ``key``."""
    for s in block.statements:
        match s:
            case Apply():
                if _key_of_scalar(s) == key:
                    return True
            case If():
                if _in_each_iteration(s.then, key) and _in_each_iteration(s.orelse, key):
                    return True
            case _:
                pass
    return False


def _key_of_scalar(s: Apply) -> Hashable:
    return None if not s.outs or s.out.type.ndim or len(s.outs) > 1 else _key(s)
