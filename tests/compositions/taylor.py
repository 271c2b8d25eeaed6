"""Truncated Taylor series in several variables as numbers, and a NumPy of arrays of them.

A ``Series`` is a polynomial of at most ``DEGREE`` in the deviations from a point. A function run on
them gives its own Taylor polynomial, branches taken as at the point: every derivative up to
``DEGREE``, to rounding. This shares nothing with calque: no rule, no pass, no graph.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

DEGREE = 6


class Space:
    """The monomials of ``count`` variables up to ``DEGREE``, and how they multiply."""

    def __init__(self, count: int):
        self.monomials = [
            m
            for degree in range(DEGREE + 1)
            for m in itertools.combinations_with_replacement(range(count), degree)
        ]
        place = {m: k for k, m in enumerate(self.monomials)}
        pairs = [
            (i, j, place[tuple(sorted(a + b))])
            for i, a in enumerate(self.monomials)
            for j, b in enumerate(self.monomials)
            if len(a) + len(b) <= DEGREE
        ]
        self.left, self.right, self.out = np.array(pairs).T
        self.size = len(self.monomials)

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.bincount(self.out, a[self.left] * b[self.right], self.size)


space = functools.cache(Space)


class Series:
    """A number with its Taylor polynomial."""

    def __init__(self, space: Space, terms: np.ndarray):
        self.space, self.terms = space, terms

    @property
    def value(self) -> float:
        return float(self.terms[0])

    def of(self, coefficients: list[float]) -> Series:
        """A function of this number, from the function's own Taylor coefficients at its value."""
        step = self.terms.copy()
        step[0] = 0.0
        found = np.zeros_like(step)
        for c in reversed(coefficients):
            found = self.space.product(found, step)
            found[0] += c
        return Series(self.space, found)

    def _with(self, other: Any) -> Any:
        if isinstance(other, Series):
            return other
        if not isinstance(other, (int, float, np.number)):
            return None
        terms = np.zeros_like(self.terms)
        terms[0] = other
        return Series(self.space, terms)

    def __add__(self, other: Any) -> Any:
        other = self._with(other)
        return NotImplemented if other is None else Series(self.space, self.terms + other.terms)

    __radd__ = __add__

    def __neg__(self) -> Series:
        return Series(self.space, -self.terms)

    def __pos__(self) -> Series:
        return self

    def __sub__(self, other: Any) -> Any:
        other = self._with(other)
        return NotImplemented if other is None else Series(self.space, self.terms - other.terms)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        other = self._with(other)
        if other is None:
            return NotImplemented
        return Series(self.space, self.space.product(self.terms, other.terms))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        other = self._with(other)
        return NotImplemented if other is None else self * other.power(-1.0)

    def __rtruediv__(self, other: Any) -> Any:
        return self.power(-1.0) * other

    def power(self, p: float) -> Series:
        """A constant power, by the binomial series."""
        found, c = [], 1.0
        for k in range(DEGREE + 1):
            found.append(c * self.value ** (p - k) if c else 0.0)
            c *= (p - k) / (k + 1)
        return self.of(found)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, Series):
            return (self.log() * other).exp()
        return self.power(other)

    def __rpow__(self, other: Any) -> Any:
        return (self * math.log(other)).exp()

    def __abs__(self) -> Series:
        return -self if self.value < 0 else self

    def __lt__(self, other: Any) -> bool:
        return self.value < _value(other)

    def __le__(self, other: Any) -> bool:
        return self.value <= _value(other)

    def __gt__(self, other: Any) -> bool:
        return self.value > _value(other)

    def __ge__(self, other: Any) -> bool:
        return self.value >= _value(other)

    def __eq__(self, other: Any) -> bool:
        return self.value == _value(other)

    __hash__ = None  # type: ignore[assignment]

    # NumPy's functions of arrays of objects call these

    def exp(self) -> Series:
        e = math.exp(self.value)
        return self.of([e / math.factorial(k) for k in range(DEGREE + 1)])

    def log(self) -> Series:
        a = self.value
        tail = [(-1.0) ** (k + 1) / (k * a**k) for k in range(1, DEGREE + 1)]
        return self.of([math.log(a), *tail])

    def sqrt(self) -> Series:
        return self.power(0.5)

    def sin(self, shift: int = 0) -> Series:
        turns = [math.sin, math.cos, lambda a: -math.sin(a), lambda a: -math.cos(a)]
        return self.of([
            turns[(k + shift) % 4](self.value) / math.factorial(k) for k in range(DEGREE + 1)
        ])

    def cos(self) -> Series:
        return self.sin(1)

    def tanh(self) -> Series:
        y = [math.tanh(self.value)]
        for k in range(DEGREE):  # y' = 1 - y^2
            square = math.fsum(y[i] * y[k - i] for i in range(k + 1))
            y.append(((k == 0) - square) / (k + 1))
        return self.of(y)

    def arctan(self) -> Series:
        a = self.value
        slope: list[float] = []
        for k in range(DEGREE):  # (1 + (a + t)^2) y' = 1
            rest = (k == 0) - 2 * a * (slope[k - 1] if k > 0 else 0.0)
            rest -= slope[k - 2] if k > 1 else 0.0
            slope.append(rest / (1 + a * a))
        return self.of([math.atan(a), *(s / (k + 1) for k, s in enumerate(slope))])


def _value(x: Any) -> float:
    return x.value if isinstance(x, Series) else x


def _objects(name: str) -> Any:
    made = getattr(np, name)
    return lambda shape, dtype=None: made(shape, object) * 1.0


class _Linalg:
    @staticmethod
    def solve(a: Any, b: Any) -> Any:
        """Elimination without pivoting."""
        a, b = np.array(a, object), np.array(b, object)
        for i in range(len(b)):
            for j in range(len(b)):
                if i != j:
                    factor = a[j, i] / a[i, i]
                    a[j], b[j] = a[j] - factor * a[i], b[j] - factor * b[i]
        return b / np.diag(a)


class TaylorNumPy:
    """NumPy, with new arrays that can hold series."""

    linalg = _Linalg
    zeros, ones = staticmethod(_objects("zeros")), staticmethod(_objects("ones"))

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: Any) -> Any:
        return np.zeros(shape, object)

    @staticmethod
    def where(test: Any, a: Any, b: Any) -> Any:
        return np.where(np.asarray(test, bool), a, b)

    @staticmethod
    def einsum(text: str, *arrays: Any) -> Any:
        return np.einsum(text, *arrays, optimize=False)
