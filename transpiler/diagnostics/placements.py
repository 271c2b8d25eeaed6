"""Report where each line of a jitted function runs: in kernels, NumPy calls or Python loops.

The report uses ``can_compile``, by which the printer puts loops into kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.codegen.numba.scalar_text import has_numbers_of
from calque.transpiler.errors import Origin
from calque.transpiler.ir.core import (
    Apply,
    Block,
    Effect,
    For,
    Function,
    Statement,
    Var,
    While,
    blocks_of,
)
from calque.transpiler.ir.target import Target
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
from calque.transpiler.primitives.function_calls import is_call, program_functions
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
    """The place where a part of a line runs; ``why`` names what keeps a loop in Python."""

    origin: Origin | None
    where: str
    what: str = ""
    why: tuple[tuple[str, Origin | None], ...] = ()


def placements(function: Function, target: Target = NUMBA) -> list[Placement]:
    """Each line once for each place where a part of it runs, in the order of the program."""
    parts = (p for f in program_functions(function) for p in _placed(f.body, False, target))
    return list(dict.fromkeys(parts))


def _placed(block: Block, looping: bool, target: Target) -> Iterator[Placement]:
    for s in block.statements:
        if _has_loop(s) and target.can_compile(s, looping):
            for line in dict.fromkeys(_lines(s)):
                yield Placement(line, KERNEL)
        elif isinstance(s, (For, While)):
            why = dict.fromkeys(map(_told, _obstacles(s, target)))
            yield Placement(s.origin, LOOP, why=tuple(why))
            for inner in blocks_of(s):
                yield from _placed(inner, True, target)
        elif isinstance(s, Apply):
            if is_call(s):
                continue  # its statements are placed themselves
            if any(o.type.ndim for o in s.outs) or _reads_arrays(s):
                if s.primitive.kind != "size" and s.primitive not in _NO_WORK:
                    yield Placement(s.origin, CALL, _called(s))
        else:
            for inner in blocks_of(s):
                yield from _placed(inner, looping, target)


def _called(s: Apply) -> str:
    """The name of the called function, or a description of an operation without a name."""
    return _WORDS.get(s.primitive, s.primitive.name.partition(" of ")[0])


def _reads_arrays(s: Apply) -> bool:
    types = [getattr(a, "type", None) for a in s.args]
    return any(t is not None and t.ndim for t in types)


def _has_loop(s: Statement) -> bool:
    inner = (t for b in blocks_of(s) for t in b.statements)
    return isinstance(s, (For, While)) or any(map(_has_loop, inner))


def _lines(s: Statement) -> Iterator[Origin | None]:
    """The lines of a kernel's innermost statements, without its loops and branches."""
    inner = [t for b in blocks_of(s) for t in b.statements]
    if not inner:
        yield s.origin
    for t in inner:
        yield from _lines(t)


def _obstacles(loop: Statement, target: Target) -> Iterator[Statement]:
    """The innermost statements of a loop that no kernel can hold."""
    for t in (t for b in blocks_of(loop) for t in b.statements):
        if not target.can_compile(t, True):
            inner = list(_obstacles(t, target))
            yield from inner or [t]


def _told(s: Statement) -> tuple[str, Origin | None]:
    """The part of a statement that no kernel can hold, and its line."""
    if isinstance(s, Apply):
        return numbers_of_no_kernel(s) or _called(s), s.origin
    if isinstance(s, Effect):
        return s.template.strip().partition("(")[0].partition(" ")[0], s.origin
    return "names that are not set on all paths", s.origin


def numbers_of_no_kernel(s: Apply) -> str:
    """A description of operands that no kernel can hold, as ``numbers of float16``; else empty."""
    if any(type(a) is int and a.bit_length() > 63 for a in s.args):
        return "integers of more than 63 bits"
    types = [v.type for v in (*s.args, *s.outs) if isinstance(v, Var)]
    return next((f"numbers of {t.dtype}" for t in types if not has_numbers_of(t)), "")


_HINTS = {
    "numbers": "compute with float64, or with float32",
    "effect": "keep the values, and do it after the loop",
    "names": "give them a value before the loop",
}


def _hint(s: Statement) -> str | None:
    """Advice for a statement that no kernel can hold."""
    if isinstance(s, Apply):
        return _HINTS["numbers"] if numbers_of_no_kernel(s).startswith("numbers") else None
    return _HINTS["effect" if isinstance(s, Effect) else "names"]


@dataclass(frozen=True)
class Fallback:
    """Work suited to kernels that no kernel can hold, with the reason and the line."""

    why: str
    origin: Origin | None
    hint: str | None = None  # what to write instead
    whole: bool = False  # no part of the function is compiled


def fallbacks(function: Function, target: Target) -> tuple[Fallback, ...]:
    """The parts of a jitted function that are as slow as they are without ``jit``.

    Loops around calls on arrays, such as factorizations, are not: the calls take the time.
    """
    parts = [p for f in program_functions(function) for p in _fallbacks(f.body, False, target)]
    found = {f.why: f for f in reversed(parts)}
    return tuple(reversed(found.values()))


def _fallbacks(block: Block, looping: bool, target: Target) -> Iterator[Fallback]:
    for s in block.statements:
        if isinstance(s, Apply):
            if s.primitive.kind == "elementwise" and (numbers := numbers_of_no_kernel(s)):
                yield Fallback(f"No kernel has {numbers}.", s.origin, _HINTS["numbers"])
            continue
        loop = isinstance(s, (For, While)) and not target.can_compile(s, looping)
        if loop and any(_computes_numbers(b, target) for b in blocks_of(s)):
            found = list(_obstacles(s, target))
            if found and not any(map(_is_call_on_arrays, found)):
                why, origin = _told(found[0])
                yield Fallback(f"No kernel has {why}.", origin, _hint(found[0]))
        for inner in blocks_of(s):
            yield from _fallbacks(inner, looping or loop, target)


def _computes_numbers(block: Block, target: Target) -> bool:
    """True if Python computes number by number in a block of one of its loops."""
    for s in block.statements:
        if isinstance(s, Apply):
            real = s.outs[0].type.dtype.kind in "fc" and not s.outs[0].type.ndim
            if real and s.primitive.kind == "elementwise":
                return True
        elif not (_has_loop(s) and target.can_compile(s, True)):
            if any(_computes_numbers(b, target) for b in blocks_of(s)):
                return True
    return False


def _is_call_on_arrays(s: Statement) -> bool:
    """True if a statement is a NumPy call on whole arrays, which dominates a loop's time."""
    if not isinstance(s, Apply) or numbers_of_no_kernel(s):
        return False
    return any(o.type.ndim for o in s.outs) or _reads_arrays(s)
