"""Systems of affine inequalities over integers: can they hold at once?

Loop counters and sizes are the unknowns. Fourier-Motzkin elimination over the rationals decides:
what has no rational solution has no integer one. A system that grows too large counts as solvable.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import gcd

# unknown -> coefficient; the constant stands under CONSTANT
Affine = dict[Hashable, int]
CONSTANT = "1"
_LIMIT = 300


def combined(left: Affine, right: Affine, factor: int = 1) -> Affine:
    """``left + factor * right``.

    >>> combined({"i": 1, CONSTANT: 2}, {"i": 1, "j": 1}, -1)
    {'1': 2, 'j': -1}
    """
    total = dict(left)
    for name, coefficient in right.items():
        total[name] = total.get(name, 0) + factor * coefficient
    return {name: c for name, c in total.items() if c}


def solvable(constraints: Iterable[Affine]) -> bool:
    """False only if no rational values of the unknowns make all expressions nonnegative.

    >>> solvable([{"i": 1}, {"n": 1, "i": -1, CONSTANT: -1}])  # 0 <= i <= n - 1
    True
    >>> solvable([{"i": 1, "j": -1, CONSTANT: -1}, {"j": 1, "i": -1}])  # i > j and j >= i
    False
    """
    system = {_reduced(c) for c in constraints}
    while True:
        if any(not names and const < 0 for names, const in map(_split, system)):
            return False
        counts: dict[Hashable, list[int]] = {}
        for constraint in system:
            for name, coefficient in constraint:
                if name != CONSTANT:
                    counts.setdefault(name, [0, 0])[coefficient > 0] += 1
        if not counts:
            return True
        chosen = min(counts, key=lambda name: counts[name][0] * counts[name][1])
        system = _without(system, chosen)
        if len(system) > _LIMIT:
            return True


Reduced = frozenset[tuple[Hashable, int]]


def _reduced(constraint: Affine) -> Reduced:
    """An inequality divided by its coefficients' common factor, the constant rounded down."""
    factor = gcd(*(c for name, c in constraint.items() if name != CONSTANT))
    if factor > 1:
        constraint = {name: c // factor for name, c in constraint.items()}
    return frozenset((name, c) for name, c in constraint.items() if c)


def _split(constraint: Reduced) -> tuple[list[Hashable], int]:
    values = dict(constraint)
    return [name for name in values if name != CONSTANT], values.get(CONSTANT, 0)


def _without(system: set[Reduced], name: Hashable) -> set[Reduced]:
    """The system's shadow: every lower bound of an unknown against every upper one."""
    lower, upper, rest = [], [], set()
    for constraint in system:
        coefficient = dict(constraint).get(name, 0)
        if coefficient > 0:
            lower.append((coefficient, dict(constraint)))
        elif coefficient < 0:
            upper.append((-coefficient, dict(constraint)))
        else:
            rest.add(constraint)
    for a, low in lower:
        for b, high in upper:
            rest.add(_reduced(combined(combined({}, low, b), high, a)))
    return rest
