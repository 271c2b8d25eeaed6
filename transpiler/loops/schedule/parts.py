"""Parts of a loop's iterations: strips, and the iterations before and after a given one.

``split_at`` and ``strip_mine`` keep the order of iterations, so they are legal for every loop. The
caller knows that the iteration is in the loop's range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.ir.builder import FUNCTIONS, Array, Builder, atom, loop_index, wrap
from calque.transpiler.ir.core import Atom, Block, For, Statement, Var
from calque.transpiler.ir.rewrite import cloned, derived, renewed
from calque.transpiler.ir.types import DimLike, dim_symbols
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add, floor_divide, multiply
from calque.transpiler.primitives.scalars import smaller_integer


@dataclass(frozen=True, eq=False)
class Strips:
    """The strips of a range: their number, their counter, and the bounds of the counter's strip."""

    count: Atom
    counter: Var
    bounds: list[Statement]  # compute the ends, in each strip
    ends: tuple[Atom, Atom]


def strip_mine(start: Any, stop: Any, size: int, name: str, builder: Builder) -> Strips:
    """The strips of ``size`` counts of a range; the statements of their number are emitted."""
    first, last = wrap(start), wrap(stop)
    count = (last - first + (size - 1)) // size
    counter = loop_index(0, builder.dim_of(count) - 1, name)
    with builder.block() as bounds:
        low = counter * size + first
        high = FUNCTIONS[smaller_integer](low + size, last)
    ends = atom(low), atom(high)
    for end, word in zip(ends, ("first", "last"), strict=True):
        if isinstance(end, Var):
            end.name = word
    return Strips(atom(count), counter.atom, bounds.statements, ends)


def bounds_of_part(part: Any, iterations: Any, parts: Any) -> tuple[Any, Any]:
    """The first iteration of part number ``part``, and the first one after it."""
    first = apply(floor_divide, apply(multiply, part, iterations), parts)
    last = apply(floor_divide, apply(multiply, apply(add, part, 1), iterations), parts)
    first.atom.name, last.atom.name = "first", "last"
    return first.atom, last.atom


def split_at(loop: For, where: Var, builder: Builder) -> list[Statement]:
    """The loop before an iteration in its range, the iteration itself, and the loop after it."""
    step: int = loop.step
    start, stop = builder.dim_of(wrap(loop.start)), builder.dim_of(wrap(loop.stop))
    here = builder.dim_of(wrap(where))
    with builder.block() as bounds, builder.at(loop.origin):
        after = apply(add, Array(where), step)
    below, above = ((start, here - 1), (here + 1, stop - 1))
    if step == -1:
        below, above = ((here + 1, start), (stop + 1, here - 1))
    first = _part(loop, (loop.start, where), below, loop.inits, builder)
    mapping: dict[Var, Atom] = {loop.index: where, **dict(zip(loop.phis, first.outs, strict=True))}
    middle = cloned(builder, loop.body, mapping, _counters(loop, here, builder))
    last = _part(loop, (atom(after), loop.stop), above, middle.results, builder)
    ends_loop(loop, last, builder)
    return [first, *middle.statements, *bounds.statements, last]


def ends_loop(loop: For, last: For, builder: Builder) -> None:
    """Let the results of a loop be those of its last part."""
    last.outs = loop.outs
    builder.definitions.update(dict.fromkeys(loop.outs, last))


def part(
    loop: For,
    counter: Var,
    ends: tuple[Atom, Atom],
    inits: Sequence[Atom],
    write: Callable[[dict[Var, Atom]], Block],
    builder: Builder,
    counters: Mapping[str, DimLike] | None = None,
) -> For:
    """The loop over a part of its iterations, which begins with ``inits``.

    ``write`` gives the body, from a map of the loop's counter and carried values to the new ones;
    ``counters`` is that of ``copy_facts``.
    """
    mapping: dict[Var, Atom] = {loop.index: counter}
    phis = renewed(builder, loop.phis, mapping, counters)
    outs = tuple(out.again() for out in loop.outs)  # values after a part of the iterations
    span = {"index": counter, "start": ends[0], "stop": ends[1], "body": write(mapping)}
    made = derived(loop, outs=outs, phis=phis, inits=tuple(inits), **span)
    builder.note(made)
    return made


def _part(
    loop: For,
    ends: tuple[Atom, Atom],
    reach: tuple[DimLike, DimLike],
    inits: Sequence[Atom],
    builder: Builder,
) -> For:
    """The loop over a part of its iterations; its counter is known to be within ``reach``."""
    counter = loop_index(*reach, loop.index.name)
    counters = _counters(loop, builder.dim_of(counter), builder)

    def write(mapping: dict[Var, Atom]) -> Block:
        return cloned(builder, loop.body, mapping, counters)

    return part(loop, counter.atom, ends, inits, write, builder, counters)


def _counters(loop: For, counter: DimLike, builder: Builder) -> dict[str, DimLike]:
    (own,) = dim_symbols(builder.dims.resolve(builder.dim_values[loop.index]))
    return {own: counter}
