"""Python twins of functions of ``math`` on integers, and of ``fsum``: interpreted where used."""

from __future__ import annotations

import math
from typing import Any

from calque.transpiler.primitives.pythons_math import rounded_off


def summed(values: Any) -> Any:
    """``math.fsum``: the sum, and beside it what each addition loses (Knuth's two-sum)."""
    total, lost = 0.0, 0.0
    for value in values:
        added = total + value
        lost = lost + rounded_off(total, value, added)
        total = added
    return total + lost if lost == lost else total


def greatest_common_divisor(*values: Any) -> Any:
    """``math.gcd``, by Euclid's algorithm."""
    found = 0
    for value in values:
        rest = abs(value)
        while rest:
            found, rest = rest, found % rest
    return found


def least_common_multiple(*values: Any) -> Any:
    """``math.lcm``."""
    found = 1
    for value in values:
        divisor = greatest_common_divisor(found, value)
        found = abs(value) // max(divisor, 1) * found
    return found


def arrangements(n: Any, k: Any = None) -> Any:
    """``math.perm``."""
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    count = n if k is None else k
    if count < 0:
        raise ValueError("k must be a non-negative integer")
    found = 1 if count <= n else 0
    for i in range(min(count, n)):
        found = found * (n - i)
    return found


def selections(n: Any, k: Any) -> Any:
    """``math.comb``."""
    if n < 0:
        raise ValueError("n must be a non-negative integer")
    if k < 0:
        raise ValueError("k must be a non-negative integer")
    found = 1 if k <= n else 0
    for i in range(min(k, n - k)):
        found = found * (n - i) // (i + 1)
    return found


def factorial(n: Any) -> Any:
    """``math.factorial``."""
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    found = 1
    for i in range(2, n + 1):
        found = found * i
    return found


def integer_root(n: Any) -> Any:
    """``math.isqrt``: the root of the float, and a step where that was rounded."""
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    found = int(math.sqrt(n))
    if found > n // max(found, 1):
        found = found - 1
    elif found + 1 <= n // (found + 1):
        found = found + 1
    return found
