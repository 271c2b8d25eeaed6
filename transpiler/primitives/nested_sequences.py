"""Nested lists as NumPy makes arrays of them: their shape, their leaves, their text."""

from __future__ import annotations

from typing import Any

from calque.transpiler.errors import ShapeError


def nested_text(shape: tuple[int, ...], first: int) -> tuple[str, int]:
    """The text of nested lists with numbered slots for leaves, and the number after the last.

    >>> nested_text((2, 1), 0)
    ('[[{0}], [{1}]]', 2)
    """
    if not shape:
        return f"{{{first}}}", first + 1
    parts = []
    for _ in range(shape[0]):
        part, first = nested_text(shape[1:], first)
        parts.append(part)
    return f"[{', '.join(parts)}]", first


def shape_of_nest(value: Any) -> tuple[int, ...]:
    """The lengths of nested lists, outermost first, as their first items have them."""
    if isinstance(value, (list, tuple)) and value:
        return (len(value), *shape_of_nest(value[0]))
    return ()


def leaves_of_nest(value: Any, shape: tuple[int, ...]) -> list[Any]:
    """The leaves of nested lists in order; ShapeError where they are not regular."""
    if not shape:
        if isinstance(value, (list, tuple)):
            raise ShapeError("setting an array element with a sequence: the nesting is not regular")
        return [value]
    if not isinstance(value, (list, tuple)) or len(value) != shape[0]:
        raise ShapeError("setting an array element with a sequence: the nesting is not regular")
    return [leaf for item in value for leaf in leaves_of_nest(item, shape[1:])]
