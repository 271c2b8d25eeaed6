"""Trip counts and reversed ranges of loops."""

from __future__ import annotations

from typing import Any

from calque.transpiler.ir.builder import OPERATORS, Array, Builder, atom
from calque.transpiler.ir.core import Apply, Atom, For, Var, While
from calque.transpiler.primitives.elementwise import add


def own_counter(s: While) -> tuple[Var, Var] | None:
    """A carried counter of iterations from 0 and its last value; None if the loop has none."""
    definitions = {o: t for t in s.body.statements for o in t.outs}
    for phi, init, result, out in zip(s.phis, s.inits, s.body.results, s.outs, strict=True):
        made = definitions.get(result) if isinstance(result, Var) else None
        if type(init) is not int or init != 0 or not isinstance(made, Apply):
            continue
        if made.primitive is add and made.args[0] is phi and made.args[1] == 1:
            return phi, out
    return None


def reversed_range(builder: Builder, s: For | While) -> tuple[Atom, Atom, Atom]:
    """The bounds and step of a for that runs backwards."""
    assert isinstance(s, For)
    start, stop, step = wrap_atom(s.start), wrap_atom(s.stop), s.step
    if step == 1:
        return atom(stop - 1), atom(start - 1), -1
    if step == -1:
        return atom(stop + 1), atom(start + 1), 1
    one = 1 if step > 0 else -1
    last = start + ((stop - start - one) // step) * step
    return atom(last), atom(start - step), -step


def is_small(value: Atom) -> bool:
    return isinstance(value, int) and 0 <= value <= 8


def apply_operator(name: str, left: Any, right: Any) -> Any:
    """``left op right`` on recorded integers."""
    return OPERATORS[name](left, right)


def wrap_atom(value: Atom) -> Any:
    return Array(value) if isinstance(value, Var) else value
