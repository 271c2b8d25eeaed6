"""Words for values that have no name of the user's: what an operation makes, of what."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from calque.transpiler.ir.core import Apply, Atom, Slot, Statement, Var

Word = Callable[[Atom], "str | None"]  # what to call an operand inside a longer name
Definitions = Mapping[Var, Statement]

_LONGEST = 28
_AXES = {0: "rows", 1: "columns"}


def first_word(s: Apply, word: Word) -> str | None:
    """The word of the first operand that has one."""
    return next((found for a in s.args if (found := word(a))), None)


def word_within(value: Var, known: Word, definitions: Definitions) -> str | None:
    """The first word among what a value is made of, from the left; chains may be of any length."""
    pending: list[Atom] = [value]
    seen: set[Var] = set()
    while pending:
        var = pending.pop()
        if not isinstance(var, Var) or var in seen:
            continue
        if found := known(var):
            return found
        seen.add(var)
        made = definitions.get(var)
        pending += reversed(made.args) if isinstance(made, Apply) else ()
    return None


def described(s: Apply, word: Word, definitions: Definitions) -> str:
    """A name for what an operation makes: ``x_times_y``, ``exp_x``, ``x_first``."""
    operand = first_word(s, word)
    if operand is None:
        return _without_operand(s)
    name = _of_operand(s, operand, word, definitions)
    return name if len(name) <= _LONGEST else f"{operand}_term"


def _without_operand(s: Apply) -> str:
    p = s.primitive
    if p.arithmetic in ("and", "or") and p.word:
        return str(p.word)
    return p.name.split(".")[-1] if p.name.startswith("np.") else "value"


def _of_operand(s: Apply, operand: str, word: Word, definitions: Definitions) -> str:
    p, kind = s.primitive, s.primitive.arithmetic
    if kind in ("and", "or") and p.word:
        return str(p.word)
    if kind == "power" and not isinstance(s.args[1], Var) and s.args[1] == 2:
        return f"{operand}_squared"
    if p.infix:
        left, right = word(s.args[0]), word(s.args[1])
        if s.args[0] is s.args[1] and kind == "multiply":
            return f"{operand}_squared"
        if left and right and left != right:
            return f"{left}_{p.infix}_{right}"
        if kind == "divide" and not left:
            return f"inverse_{operand}"
        return f"{operand}_{'shifted' if kind in ('add', 'subtract') else 'scaled'}"
    if p.suffix:
        right = word(s.args[1]) if "{1}" in p.suffix else ""
        beside = f"_{right}" if right and right != operand else ""
        return f"{operand}_{p.suffix.removesuffix('_{1}')}{beside}"
    if p.kind == "size":
        return f"{operand}_{_AXES.get(s.params['axis'], 'length')}"
    if p.kind == "indexing":
        return f"{operand}_{index_word(s, word, definitions)}"
    if kind == "negative":
        return f"minus_{operand}"
    stem = p.word or p.name.split(".")[-1]
    return f"{stem}_{operand}" if stem.isidentifier() else f"{operand}_value"


def index_word(s: Apply, word: Word, definitions: Definitions) -> str:
    """``ij`` for a read or a store at [i, j], ``im1_j`` at [i - 1, j], else ``part``."""
    first = s.primitive.first_index
    parts = []
    for item in s.params["index"]:
        found: str | None = None
        if isinstance(item, Slot):
            found = _place_word(s.args[first + item.position], word, definitions)
        elif isinstance(item, int):
            found = {0: "first", -1: "last", 1: "second", 2: "third"}.get(item)
        if not found:
            return "part"
        parts.append(found)
    if not parts:
        return "part"
    return ("" if all(len(p) == 1 for p in parts) else "_").join(parts)


def _place_word(index: Atom, word: Word, definitions: Definitions) -> str | None:
    """``i``, ``ip1`` for i + 1, ``last`` for one less than a size."""
    made = definitions.get(index) if isinstance(index, Var) and index.name is None else None
    if not isinstance(made, Apply):
        return word(index)
    if made.primitive.kind == "size":
        return None
    kind = made.primitive.arithmetic
    if kind not in ("add", "subtract"):
        return word(index) if made.primitive.kind == "indexing" or kind == "index" else None
    base, step = made.args
    if type(base) is int:
        base, step = step, base
    if isinstance(step, Var):
        left, right = word(made.args[0]), word(step)
        return f"{left}_{made.primitive.infix}_{right}" if left and right else None
    of_size = definitions.get(base) if isinstance(base, Var) else None
    if isinstance(of_size, Apply) and of_size.primitive.kind == "size":
        return "last" if kind == "subtract" and step == 1 else None
    letter = "p" if kind == "add" else "m"
    found = word(base)
    return f"{found}{letter}{step}" if found and base is made.args[0] else None
