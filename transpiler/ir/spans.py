"""Intervals of integers: the least and the largest value that an integer may have."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]  # the least and the largest value
ANY = (-(1 << 63), (1 << 63) - 1)
SIZE = (0, 1 << 48)  # no memory holds a longer axis


def fits(span: Span) -> bool:
    """True if 64 bits hold every integer of an interval.

    >>> fits((0, 2**63 - 1)), fits((0, 2**63))
    (True, False)
    """
    return ANY[0] <= span[0] and span[1] <= ANY[1]


def hull(spans: Iterable[Span]) -> Span:
    """The smallest interval that contains several intervals.

    >>> hull([(1, 3), (-2, 2)])
    (-2, 3)
    """
    lows, highs = zip(*spans, strict=True)
    return min(lows), max(highs)
