"""Letters for the internal symbols of sizes, where a user reads them."""

from __future__ import annotations

import re

_LETTERS = ("n", "m", "k", "p", "q", "r", "s", "t", *"abcdefghijlouvwxyz")


def letters(names: list[str]) -> dict[str, str]:
    """A letter for each internal symbol, in order; the user's own names stay.

    >>> letters(["d0_0", "m", "d1_0"])
    {'d0_0': 'n', 'm': 'm', 'd1_0': 'k'}
    """
    names = list(dict.fromkeys(names))
    own = {n for n in names if not _internal(n)}
    free = [letter for letter in _LETTERS if letter not in own]
    free += [a + b for a in _LETTERS for b in _LETTERS]
    given = iter(free)
    return {n: n if n in own else next(given) for n in names}


def _internal(name: str) -> bool:
    return re.fullmatch(r"d\d+_\d+|_\d+|.*\.\d+", name) is not None


def readable(message: str) -> str:
    """An error's text with letters for the internal symbols."""
    pattern = r"\bd\d+_\d+\b|(?<!\w)_\d+\b"
    table = letters(re.findall(pattern, message))
    return re.sub(pattern, lambda found: table[found[0]], message)
