"""Sequences that occur several times in a sequence, those that shorten it most first.

The longest common prefixes of all suffixes in order give every sequence that occurs twice. See
Manber and Myers, Suffix arrays: a new method for on-line string searches, 1993, and Kasai and
others, Linear-time longest-common-prefix computation in suffix arrays, 2001. What is kept is chosen
greedily, as compilers do that outline machine code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np


class Repeat(NamedTuple):
    """A sequence of ``length`` items that occurs at each of ``starts``; these do not overlap."""

    length: int
    starts: tuple[int, ...]

    @property
    def saved(self) -> int:
        """The number of items that only the first occurrence needs."""
        return self.length * (len(self.starts) - 1)


def repeats(items: Sequence[int], least: int) -> list[Repeat]:
    """The sequences of ``least`` items or more that occur twice or more often; may overlap.

    Those that save most come first; of those that save as much, the one that starts first.

    >>> repeats([1, 2, 3, 1, 2, 3, 1, 2, 3, 4], 3)[0]
    Repeat(length=3, starts=(0, 3, 6))
    """
    found: dict[Repeat, None] = {}
    order, common = _suffixes(items)
    for length, occurrences in _intervals(order, common, least):
        gaps = np.diff(occurrences)
        tried = {length, *(int(g) for g in gaps if least <= g < length)}
        for each in tried:
            starts = _apart(occurrences, each)
            if len(starts) > 1:
                found[Repeat(each, tuple(starts))] = None
    return sorted(found, key=lambda r: (-r.saved, r.starts, -r.length))


def has_period(items: Sequence[int], share: float = 0.6) -> bool:
    """True if a sequence repeats a shorter one itself, of at most this share of its length.

    >>> has_period([1, 2, 3, 1, 2, 3]), has_period([1, 2, 3, 4, 1, 2, 3]), has_period([1, 2, 3])
    (True, True, False)
    """
    border, borders = 0, [0]
    for k in range(1, len(items)):
        while border and items[k] != items[border]:
            border = borders[border - 1]
        border += items[k] == items[border]
        borders.append(border)
    return len(items) - border <= share * len(items)


def _apart(occurrences: Sequence[int], length: int) -> list[int]:
    """The occurrences, from the first on, that do not overlap one that is kept."""
    starts: list[int] = []
    for at in occurrences:
        if not starts or at >= starts[-1] + length:
            starts.append(int(at))
    return starts


def _suffixes(items: Sequence[int]) -> tuple[list[int], list[int]]:
    """The starts of all suffixes in order, and how much each has in common with the one before."""
    count = len(items)
    rank = np.unique(np.asarray(items, dtype=np.int64), return_inverse=True)[1].astype(np.int64)
    order, step = np.argsort(rank, kind="stable"), 1
    while step < max(count, 1):
        second = np.full(count, -1, dtype=np.int64)
        second[: count - step] = rank[step:]
        order = np.lexsort((second, rank))
        firsts, seconds = rank[order], second[order]
        new = (firsts[1:] != firsts[:-1]) | (seconds[1:] != seconds[:-1])
        rank = np.empty(count, dtype=np.int64)
        rank[order] = np.concatenate([[0], np.cumsum(new)])
        if rank.max() == count - 1:
            break
        step *= 2
    return order.tolist(), _common(items, order.tolist(), rank.tolist())


def _common(items: Sequence[int], order: list[int], rank: list[int]) -> list[int]:
    """For each suffix in order, the length of its longest common prefix with the one before."""
    common, length, count = [0] * len(items), 0, len(items)
    for at in range(count):
        if rank[at] == 0:
            length = 0
            continue
        before = order[rank[at] - 1]
        while max(at, before) + length < count and items[at + length] == items[before + length]:
            length += 1
        common[rank[at]] = length
        length = max(length - 1, 0)
    return common


def _intervals(
    order: list[int], common: list[int], least: int
) -> Iterator[tuple[int, list[int]]]:
    """Yield each length, with the starts in order of all suffixes that have so much in common."""
    open_: list[tuple[int, int]] = []  # lengths, and the first suffix of each
    for k, length in enumerate([*common, 0]):
        first = k - 1
        while open_ and open_[-1][0] > length:
            held, first = open_.pop()
            if held >= least:
                yield held, sorted(order[first:k])
        if length and (not open_ or open_[-1][0] < length):
            open_.append((length, first))
