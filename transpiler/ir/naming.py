"""Names for values that the user did not name, from the operation and its operands.

A name must not say what is false: ``exp_x`` is of ``x`` and of nothing else, ``x_over_y`` a
quotient of these two. What is made of more is a ``x_product``, ``x_sum``, ``x_quotient``: one in
which ``x`` occurs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from calque.transpiler.ir.core import Apply, Atom, Slot, Statement, Var
from calque.transpiler.ir.effects import is_size

Word = Callable[[Atom], "str | None"]  # what to call an operand inside a longer name
Definitions = Mapping[Var, Statement]

LONGEST = 28
_LARGE = 1000  # numbers in names are smaller
# of more than two names, by the word that stands between two
_OF_MORE = {
    "plus": "sum",
    "minus": "difference",
    "times": "product",
    "dot": "product",
    "over": "quotient",
    "power": "power",
}
_TIMES = {2.0: "twice", 0.5: "half", -1.0: "minus"}
_OF_ONE = ("elementwise", "linear", "opaque")  # kinds of functions whose name is word enough
_AXES = {0: "rows", 1: "columns"}
_WHOLE = slice(None)
_SWAPPED = {"above": "below", "below": "above", "at_least": "at_most", "at_most": "at_least"}
ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
    *("tenth", "eleventh", "twelfth"),
)


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


def described(s: Apply, word: Word, named: Word, definitions: Definitions) -> str:
    """A name for what an operation makes: ``x_times_y``, ``exp_x``, ``x_first``.

    ``named`` gives the name of an operand that is written as one, ``word`` also one within it.
    """
    operand = first_word(s, word)
    if operand is None:
        return _without_operand(s)
    name = _of_named(s, named) or _of_operand(s, operand, word, named, definitions)
    return name if len(name) <= LONGEST else f"{operand}_{_OF_MORE.get(s.primitive.infix, 'term')}"


def told(s: Apply, named: Word, definitions: Definitions, depth: int = 4) -> str | None:
    """A name that describes a value completely: ``x_times_y``, ``exp_minus_z``; else None."""
    p = s.primitive
    if p.infix:
        found = _of_named(s, named)
        return None if found and found.endswith(("_scaled", "_shifted")) else found
    if len(s.args) != 1 or not isinstance(s.args[0], Var) or p.kind not in _OF_ONE or p.suffix:
        return None
    inner, made = named(s.args[0]), definitions.get(s.args[0])
    if inner is None and depth and isinstance(made, Apply):
        inner = told(made, named, definitions, depth - 1)
    stem = "minus" if p.arithmetic == "negative" else p.word or p.name.split(".")[-1]
    return f"{stem}_{inner}" if inner and stem.isidentifier() else None


def _without_operand(s: Apply) -> str:
    p = s.primitive
    if p.word and (p.arithmetic in ("and", "or") or p.kind == "creation"):
        return str(p.word)
    return p.name.split(".")[-1] if p.name.startswith("np.") else "value"


def _of_named(s: Apply, named: Word) -> str | None:
    """A name for arithmetic on named operands and numbers; None for other operations."""
    infix = s.primitive.infix
    if not infix:
        return None
    left, right = (named(a) for a in s.args[:2])
    if left and right:
        if s.args[0] is s.args[1] and infix in ("times", "dot"):
            return f"{left}_squared" if infix == "times" else f"{left}_dot_{left}"
        return f"{left}_{infix}_{right}" if left != right else None
    number, found = (s.args[0], right) if right else (s.args[1], left)
    if not found or isinstance(number, Var) or not isinstance(number, (int, float)):
        return None
    if infix == "power":
        return f"{found}_squared" if left and number == 2 else None
    if infix == "times":
        return f"{_TIMES[number]}_{found}" if number in _TIMES else f"{found}_scaled"
    if infix == "over":
        return f"{found}_scaled" if left else f"inverse_{found}" if number == 1 else None
    if right and number == 1:
        return f"one_{infix}_{found}"
    return f"{found}_shifted" if left or infix == "plus" else None


def _of_operand(s: Apply, operand: str, word: Word, named: Word, definitions: Definitions) -> str:
    p = s.primitive
    if p.arithmetic in ("and", "or") and p.word:
        return str(p.word)
    if p.infix in _OF_MORE:
        return f"{operand}_{_OF_MORE[p.infix]}"
    if p.suffix and "{1}" in p.suffix:
        stem, right = p.suffix.removesuffix("_{1}"), s.args[1]
        if word(s.args[0]) is None:  # 0.0 > x
            stem, right = _SWAPPED.get(stem, stem), s.args[0]
        beside = word(right) or _number_word(right)
        return f"{operand}_{stem}" + (f"_{beside}" if beside and beside != operand else "")
    if p.kind == "size" and not p.suffix:
        return f"{operand}_{_AXES.get(s.params['axis'], 'length')}"
    if p.kind == "indexing" and not p.suffix:
        index = index_word(s, word, definitions)
        array = named(s.args[0]) or operand
        array = array.removesuffix("_lanes") if index.startswith("lanes") else array
        return f"{array if len(array + index) < LONGEST else operand}_{index}"
    inner = _within(s, operand, word, named, definitions)
    if p.suffix:
        return f"{inner}_{p.suffix}"
    if p.arithmetic == "negative":
        return f"minus_{inner}"
    stem = p.word or p.name.split(".")[-1]
    return f"{stem}_{inner}" if stem.isidentifier() else f"{operand}_value"


def _number_word(value: Atom) -> str | None:
    """``5`` for 5.0, ``minus_0_2`` for -0.2; None for a number that no name can hold."""
    if isinstance(value, Var) or not isinstance(value, (int, float)) or not abs(value) < _LARGE:
        return None
    digits = f"{abs(value):g}".replace(".", "_")
    return f"{'minus_' * bool(value < 0)}{digits}" if digits.replace("_", "").isdigit() else None


def _within(s: Apply, operand: str, word: Word, named: Word, definitions: Definitions) -> str:
    """A word for the operand of a function: its name, or a description of how it is made."""
    first = s.args[0]
    if len(s.args) > 1 or not isinstance(first, Var):
        return operand
    if found := named(first):
        return found
    made = definitions.get(first)
    if not isinstance(made, Apply):
        return operand
    return described(made, word, named, definitions)


def index_word(s: Apply, word: Word, definitions: Definitions) -> str:
    """``ij`` for a read or a store at [i, j], ``im1_j`` at [i - 1, j], ``but_last`` for [:-1]."""
    parts = index_parts(s, word, definitions)
    return joined(parts) if parts else "slice" if s.out.type.ndim else "element"


def joined(parts: Sequence[str]) -> str:
    """The words of an index as one: ``ij``, ``im1_j``."""
    return ("" if all(len(p) == 1 for p in parts) else "_").join(parts)


def index_parts(s: Apply, word: Word, definitions: Definitions) -> list[str]:
    """The words of the axes of an index; none if one has no word.

    The only place of an axis of size 1 is left out, and so are whole axes after the others.
    """
    items = [item for item in s.params["index"] if item is not None]
    dims = s.args[0].type.dims if isinstance(s.args[0], Var) else ()
    while len(items) > 1 and items[-1] in (_WHOLE, Ellipsis):
        items.pop()
    parts: list[str] = []
    ahead = 0
    for axis, item in enumerate(items):
        if item == _WHOLE and not parts:
            ahead += 1
            continue
        if item == 0 and len(items) > 1 and dims[axis : axis + 1] == (1,):
            continue
        found = _item_word(item, s.args[s.primitive.first_index :], word, definitions)
        if not found or ahead > 1:
            return []
        parts.append(found)
    if not ahead or not parts:
        return parts
    column = joined(parts)
    return [f"column_{column}" if isinstance(items[ahead], Slot) else f"{column}_column"]


def _item_word(
    item: Any, operands: Sequence[Atom], word: Word, definitions: Definitions
) -> str | None:
    """The word for one item of an index."""
    if isinstance(item, Slot):
        index = operands[item.position]
        if isinstance(index, Var) and index.type.ndim:
            found = word(index) or ""
            if found.startswith(("lanes", "rows")):
                return found
            return f"at_{found}" if found else "gathered"
        return _place_word(index, word, definitions)
    if isinstance(item, slice):
        ends = (item.start, item.stop)
        if any(isinstance(end, Slot) for end in (*ends, item.step)):
            return _span_word(item, operands, word, definitions)
        if item.step in (None, 1) and all(end is None or type(end) is int for end in ends):
            return _known_span_word(*ends)
        return "reversed" if (*ends, item.step) == (None, None, -1) else None
    return _ordinal_word(item) if type(item) is int else None


def _ordinal_word(place: int) -> str | None:
    """``first``, ``second``, ``last``, ``second_last``; None far from both ends."""
    if place < 0:
        return {-1: "last", -2: "second_last", -3: "third_last"}.get(place)
    return ORDINALS[place] if place < len(ORDINALS) else None


def _known_span_word(start: int | None, stop: int | None) -> str | None:
    """``but_first`` for [1:], ``inner`` for [1:-1], ``first_to_third`` for [:3]."""
    match start, stop:
        case (None | 0), -1:
            return "but_last"
        case 1, None:
            return "but_first"
        case 1, -1:
            return "inner"
    first, last = _ordinal_word(start or 0), "last" if stop is None else _ordinal_word(stop - 1)
    if not first or not last or stop == 0:
        return None
    return f"{first}_to_{last}" if first != last else first


def _span_word(
    item: slice, operands: Sequence[Atom], word: Word, definitions: Definitions
) -> str | None:
    """``up_to_count`` for [:count], ``from_i`` for [i:]."""
    if item.step not in (None, 1):
        return None
    start, stop = (_item_word(e, operands, word, definitions) for e in (item.start, item.stop))
    if item.stop is None and start:
        return f"from_{start}"
    return f"up_to_{stop}" if item.start in (None, 0) and stop else None


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
    if is_size(of_size):
        return _ordinal_word(-step) if kind == "subtract" and type(step) is int and step else None
    letter = "p" if kind == "add" else "m"
    found = word(base)
    return f"{found}{letter}{step}" if found and base is made.args[0] else None


def tell_apart(values: Iterable[Var]) -> None:
    """``w_0``, ``w_1`` for several values that one name of the user's went through: in a loop."""
    named = [v for v in values if v.name is not None]
    for name, count in Counter(v.name for v in named).items():
        if count > 1:
            for place, value in enumerate(v for v in named if v.name == name):
                value.name = f"{name}_{place}"


def apart(taken: Iterable[str], wishes: Iterable[str]) -> list[str]:
    """Names that are all different: the wishes, or like them.

    >>> apart({"x"}, ["x", "y", "y"])
    ['x_2', 'y', 'y_2']
    """
    used, made = set(taken), list[str]()
    for wish in wishes:
        stem = wish if wish.isidentifier() else "value"
        name, k = stem, 2
        while name in used:
            name, k = f"{stem}_{k}", k + 1
        used.add(name)
        made.append(name)
    return made
