"""The function around a device's program: it splits the arguments and joins the results.

The text uses NumPy's idioms: ``np.split(x, 4)[k]`` for a device's block, ``np.stack`` and
``np.concatenate`` for the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.core import Function, Slot
from calque.transpiler.ir.pytrees import Field, children, flatten, is_object

CoordinateText = Callable[[Hashable], str]  # the text of a device's number along an axis


@dataclass(frozen=True)
class Cut:
    """The partition of one leaf: by ``element`` along an axis that parts lack, or in blocks."""

    element: tuple[Hashable, int] | None = None  # the name of the devices' axis; the leaf's axis
    blocks: tuple[tuple[Hashable, ...], ...] = ()

    @property
    def names(self) -> frozenset[Hashable]:
        """The device axes along which the leaf is split."""
        named = frozenset(n for names in self.blocks for n in names)
        return named | ({self.element[0]} if self.element else frozenset())


def part_text(path: str, cut: Cut, sizes: dict[Hashable, int], place: CoordinateText) -> str:
    """A device's part of an array.

    >>> part_text("x", Cut(("i", 1)), {"i": 4}, lambda name: "k")
    'x[:, k]'
    >>> part_text("x", Cut(blocks=(("a",), ("b",))), {"a": 2, "b": 3}, str)
    'np.split(np.split(x, 2)[a], 3, axis=1)[b]'
    """
    if cut.element:
        name, axis = cut.element
        return f"{path}[{':, ' * axis}{place(name)}]"
    for axis, names in enumerate(cut.blocks):
        if names:
            count = math.prod(sizes[n] for n in names)
            along = f", axis={axis}" if axis else ""
            path = f"np.split({path}, {count}{along})[{_number(names, sizes, place)}]"
    return path


def _number(names: Sequence[Hashable], sizes: dict[Hashable, int], place: CoordinateText) -> str:
    """A device's number along several axes, the last running fastest."""
    text = ""
    for name in names:
        text = place(name) if not text else f"{sizes[name]} * {_grouped(text)} + {place(name)}"
    return text


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text


def whole_text(leaf: Callable[[CoordinateText], str], cut: Cut, sizes: dict[Hashable, int]) -> str:
    """The whole array, joined from the devices' parts; ``leaf`` gives the text of one part.

    >>> whole_text(lambda place: f"y[{place('i')}]", Cut(("i", 0)), {"i": 4})
    'np.stack([y[k] for k in range(4)])'
    """
    letters = dict(zip(sizes, _letters(len(sizes))))

    def place(name: Hashable) -> str:
        return letters[name] if name in cut.names else "0"

    text = leaf(place)
    if cut.element:
        name, axis = cut.element
        along = f", axis={axis}" if axis else ""
        return f"np.stack([{text} for {letters[name]} in range({sizes[name]})]{along})"
    for axis in reversed(range(len(cut.blocks))):
        for name in reversed(cut.blocks[axis]):
            along = f", axis={axis}" if axis else ""
            clauses = f"for {letters[name]} in range({sizes[name]})"
            text = f"np.concatenate([{text} {clauses}]{along})"
    return text


def _letters(count: int) -> list[str]:
    return ["k"] if count == 1 else ["i", "j", "k", "l", "m", "n"][:count]


def place_letters(sizes: dict[Hashable, int]) -> dict[Hashable, str]:
    """The names of a device's indices along the mesh axes in the launcher's text."""
    return dict(zip(sizes, _letters(len(sizes))))


def given_text(value: Any, path: str, cuts: list[Cut], part: Callable[[str, Cut], str]) -> str:
    """An argument with each leaf replaced by a device's part; consumes ``cuts`` from the front."""
    if is_object(value):
        return _object_text(value, path, cuts)
    if value is None:
        return path
    if not children(value):
        return part(path, cuts.pop(0)) if not isinstance(value, (tuple, list, dict)) else path
    items = {key: given_text(v, _step(path, key), cuts, part) for key, v in _in_order(value)}
    if all(text == _step(path, key) for key, text in items.items()):
        return path
    return _display(value, items)


def _in_order(value: Any) -> list[tuple[Any, Any]]:
    """The children of a pytree node in the order of leaves: a dict's keys are sorted."""
    found = children(value)
    return sorted(found, key=lambda p: str(p[0])) if isinstance(value, dict) else found


def _object_text(value: Any, path: str, cuts: list[Cut]) -> str:
    for _ in flatten(value)[0]:
        if cuts.pop(0).names:
            raise UnsupportedFunction(
                f"{path} is an instance of {type(value).__name__}, of which each device has a "
                "part: a program that stands alone cannot cut it.",
                hint="pass its arrays in a dict or a tuple",
            )
    return path


def _step(path: str, key: Any) -> str:
    return f"{path}.{key}" if isinstance(key, Field) else f"{path}[{key!r}]"


def _display(value: Any, items: dict[Any, str]) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {items[k]}" for k in value) + "}"
    texts = [items[key] for key, _ in children(value)]
    if isinstance(value, list):
        return f"[{', '.join(texts)}]"
    if hasattr(value, "_fields"):
        raise UnsupportedFunction(
            f"{type(value).__name__} is a namedtuple, which a program that stands alone does not "
            "have.",
            hint="use a plain tuple or a dict",
        )
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def result_text(function: Function, cuts: Sequence[Cut], leaf: Callable[[str, Cut], str]) -> str:
    """The whole result; ``leaf(path, cut)`` gives a leaf's text, whose path is ``[0]['a']``."""
    left = list(cuts)

    def visit(node: Any, path: str) -> str:
        if isinstance(node, Slot):
            return leaf(path, left.pop(0))
        parts = children(node)
        if not parts:
            return repr(node)
        return _display(node, {key: visit(v, _step(path, key)) for key, v in _in_order(node)})

    return visit(function.result, "")
