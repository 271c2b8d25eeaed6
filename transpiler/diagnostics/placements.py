"""Where each line of a jitted function runs: in kernels, in NumPy's calls, or in loops of Python.

The answer is that of ``can_compile``, which the printer asks when it puts loops into kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.errors import Origin
from calque.transpiler.ir.core import (
    Apply,
    Block,
    Effect,
    For,
    Function,
    Statement,
    While,
    blocks_of,
)
from calque.transpiler.primitives.axes import expand_dims, squeeze, transpose
from calque.transpiler.primitives.creation import (
    constant,
    empty,
    empty_like,
    full,
    ones,
    ones_like,
    space,
    zeros,
    zeros_like,
)
from calque.transpiler.primitives.growing import room, widened
from calque.transpiler.primitives.indexing import add_at, copy, getitem, update, update_add
from calque.transpiler.primitives.shapes import broadcast_to, flat, reshape

KERNEL, CALL, LOOP = "kernel", "call", "loop"
_NO_WORK = (
    empty, zeros, ones, full, empty_like, zeros_like, ones_like, constant,
    space, room, widened, flat, transpose, reshape, squeeze, expand_dims,
    broadcast_to, getitem, update, update_add, copy,
)
_WORDS = {
    getitem: "an index list or a mask",
    update: "a store through an index list or a mask",
    update_add: "an addition through an index list or a mask",
    add_at: "np.add.at",
    room: "memory that grows",
    widened: "memory that grows",
    constant: "a constant array",
}


@dataclass(frozen=True)
class Placement:
    """What of a line runs where; ``why`` names what keeps a loop in Python, with its line."""

    origin: Origin | None
    where: str
    what: str = ""
    why: tuple[tuple[str, Origin | None], ...] = ()


def placements(function: Function) -> list[Placement]:
    """Each line once for each place where a part of it runs, in the order of the program."""
    return list(dict.fromkeys(_placed(function.body, False)))


def _placed(block: Block, looping: bool) -> Iterator[Placement]:
    for s in block.statements:
        if _has_loop(s) and NUMBA.can_compile(s, looping):
            for line in dict.fromkeys(_lines(s)):
                yield Placement(line, KERNEL)
        elif isinstance(s, (For, While)):
            why = dict.fromkeys(_obstacles(s))
            yield Placement(s.origin, LOOP, why=tuple(why))
            for inner in blocks_of(s):
                yield from _placed(inner, True)
        elif isinstance(s, Apply):
            if any(o.type.ndim for o in s.outs) or _reads_arrays(s):
                if s.primitive.kind != "size" and s.primitive not in _NO_WORK:
                    yield Placement(s.origin, CALL, _called(s))
        else:
            for inner in blocks_of(s):
                yield from _placed(inner, looping)


def _called(s: Apply) -> str:
    """The function's name, or words for what has none."""
    return _WORDS.get(s.primitive, s.primitive.name.partition(" of ")[0])


def _reads_arrays(s: Apply) -> bool:
    types = [getattr(a, "type", None) for a in s.args]
    return any(t is not None and t.ndim for t in types)


def _has_loop(s: Statement) -> bool:
    inner = (t for b in blocks_of(s) for t in b.statements)
    return isinstance(s, (For, While)) or any(map(_has_loop, inner))


def _lines(s: Statement) -> Iterator[Origin | None]:
    """The lines of what a kernel does, but for the loops over elements, which no line asks for."""
    inner = [t for b in blocks_of(s) for t in b.statements]
    if not inner:
        yield s.origin
    for t in inner:
        yield from _lines(t)


def _obstacles(loop: Statement) -> Iterator[tuple[str, Origin | None]]:
    """What a loop has that no kernel takes, innermost."""
    for t in (t for b in blocks_of(loop) for t in b.statements):
        if NUMBA.can_compile(t, True):
            continue
        inner = list(_obstacles(t))
        if inner:
            yield from inner
        elif isinstance(t, Apply):
            yield _called(t), t.origin
        elif isinstance(t, Effect):
            yield t.template.strip().partition("(")[0].partition(" ")[0], t.origin
        else:
            yield "names that are not set on all paths", t.origin
