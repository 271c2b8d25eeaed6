"""One directional derivative, three ways: forward mode, reverse mode and differences.

Forward and reverse mode are compared by the dot-product test, ``<w, J v> = <J' w, v>`` for random
v and w, which needs no step size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.call.arguments import FLOAT0
from calque.transpiler.errors import NotDifferentiable

Leaves = Sequence[Any]


@dataclass(frozen=True)
class Modes:
    """A function and its derivatives, on flat leaves."""

    value: Callable[[list[Any]], Leaves]
    push: Callable[[list[Any], list[Any]], tuple[Leaves, Leaves]]  # values and their tangents
    pull: Callable[[list[Any], list[Any]], Leaves]  # the arguments' cotangents


@dataclass(frozen=True)
class Comparison:
    """The three numbers; ``left`` and ``right`` are one-sided differences.

    ``forward`` is None where forward mode is refused, as it is beside a ``custom_vjp``.
    """

    forward: float | None
    reverse: float
    differences: float
    left: float
    right: float
    scale: float
    single: bool
    jumps: bool = False  # the function jumps at this point: differences are of the jump

    @property
    def is_finite(self) -> bool:
        """True if no number is a NaN or an infinity."""
        return bool(np.all(np.isfinite([self.forward or 0.0, self.reverse, self.differences])))

    @property
    def is_zero(self) -> bool:
        """True if the function did not change at all, and no derivative says that it does."""
        return not any((self.forward, self.reverse, self.left, self.right))

    @property
    def error(self) -> float:
        """The worst disagreement, as a multiple of what rounding explains."""
        slope = self.reverse if self.forward is None else self.forward
        worst = max(self._modes(self.reverse), self._steps(slope))
        return worst if np.isfinite(worst) else np.inf

    def _modes(self, reverse: float) -> float:
        if self.forward is None:
            return 0.0
        return abs(self.forward - reverse) / (1e-4 if self.single else 1e-9) / self.scale

    def _steps(self, slope: float) -> float:
        """The distance of a slope from differences: at a kink, from the slopes at its sides."""
        kink = abs(self.left - self.right) > _kink(self.single) * self.scale
        low, high = sorted((self.left, self.right)) if kink else (self.differences,) * 2
        return max(low - slope, slope - high, 0.0) / (2e-2 if self.single else 1e-5) / self.scale

    @property
    def verdict(self) -> str:
        """The mode that is wrong, in words; empty if none is."""
        if self.error <= 1.0:
            return ""
        if self.forward is None:
            return "reverse mode disagrees with differences"
        forward, reverse = (self._steps(x) <= 1.0 for x in (self.forward, self.reverse))
        if forward == reverse:
            others = [] if self._modes(self.reverse) <= 1.0 else ["each other"]
            others += [] if forward else ["differences"]
            return f"forward and reverse mode disagree with {' and with '.join(others)}"
        wrong, right = ("reverse", "forward") if forward else ("forward", "reverse")
        return f"{wrong} mode disagrees with {right} mode and with differences"


def compare(
    modes: Modes, leaves: list[Any], moving: set[int], rng: Any, symmetric: bool = False
) -> Comparison:
    """Move along a random direction of the leaves in ``moving``, weighted by a random cotangent.

    ``symmetric``: a matrix that is symmetric moves to symmetric ones only, as functions mean it
    that read one of its triangles.
    """
    dots = [direction(x, rng if k in moving else None, symmetric) for k, x in enumerate(leaves)]

    def moved(step: float) -> Leaves:
        steps = _copies(leaves)
        for k in moving:
            steps[k] = _step(steps[k], dots[k], step)
        return modes.value(steps)

    with np.errstate(all="ignore"):
        outs, out_dots = _pushed(modes, leaves, dots)
        single = any(np.asarray(x).dtype.itemsize < 8 for x in (*leaves, *outs) if is_float(x))
        step = 5e-3 if single else 6e-6
        weights = [direction(y, rng) for y in outs]
        bars = modes.pull(_copies(leaves), weights)
        below, here, above = (_dot(weights, moved(k * step)) for k in (-1.0, 0.0, 1.0))
    forward = None if out_dots is None else _dot(weights, out_dots)
    reverse = _dot([dots[k] for k in sorted(moving)], [bars[k] for k in sorted(moving)])
    slope, size = (reverse, 0.0) if forward is None else (forward, _norm(out_dots or ()))
    scale = 1.0 + abs(slope) + _norm(weights) * size
    left, right = (here - below) / step, (above - here) / step
    jumps = abs(left - right) > _kink(single) * scale and _is_jump(
        lambda step: _dot(weights, moved(step)) - here, abs(left - right), step / 8
    )
    middle = (above - below) / (2 * step)
    return Comparison(forward, reverse, middle, left, right, scale, single, jumps)


def _kink(single: bool) -> float:
    """The difference of two one-sided slopes, in units of their scale, from which it is a kink."""
    return 0.3 if single else 1e-3


def _is_jump(change: Callable[[float], float], difference: float, step: float) -> bool:
    """True if one-sided slopes differ by a multiple of ``difference`` with a shorter step.

    At a kink the difference of the slopes stays the same; at a jump it is the jump by the step.
    """
    with np.errstate(all="ignore"):
        return abs(change(step) + change(-step)) / step > 4.0 * difference


def _pushed(modes: Modes, leaves: list[Any], dots: list[Any]) -> tuple[Leaves, Leaves | None]:
    """The values and their tangents; no tangents where forward mode is refused."""
    try:
        return modes.push(_copies(leaves), dots)
    except NotDifferentiable:
        return modes.value(_copies(leaves)), None


def is_float(leaf: Any) -> bool:
    """True if a leaf has a derivative: it is a float, complex, or an array of these."""
    kinds = np.ndarray | np.generic | float | complex
    return isinstance(leaf, kinds) and np.asarray(leaf).dtype.kind in "fc"


def direction(leaf: Any, rng: Any, symmetric: bool = False) -> Any:
    """A random tangent of a leaf, zero without ``rng``; integers have JAX's trivial one, float0."""
    shape, dtype = np.shape(leaf), np.asarray(leaf).dtype
    if not is_float(leaf):
        return np.zeros(shape, FLOAT0)
    if rng is None:
        return np.zeros(shape, dtype)[()]
    value = np.asarray(rng.normal(size=shape))
    if dtype.kind == "c":
        value = value + 1j * rng.normal(size=shape)
    if symmetric and is_symmetric(leaf):
        value = (value + np.conj(np.swapaxes(value, -1, -2))) / 2
    return value.astype(dtype)[()]


def is_symmetric(leaf: Any) -> bool:
    """True if a leaf is a symmetric, or Hermitian, matrix, or a stack of them."""
    value = np.asarray(leaf)
    square = value.ndim >= 2 and value.shape[-1] == value.shape[-2] > 1
    return square and np.array_equal(value, np.conj(np.swapaxes(value, -1, -2)))


def _step(leaf: Any, dot: Any, step: float) -> Any:
    return leaf + np.asarray(step * dot, np.asarray(leaf).dtype)[()]


def _copies(leaves: Leaves) -> list[Any]:
    return [x.copy() if isinstance(x, np.ndarray) else x for x in leaves]


def _dot(weights: Leaves, values: Leaves) -> float:
    """JAX's pairing of cotangents with tangents: the real part, nothing conjugated; None is 0."""
    pairs = zip(weights, values, strict=True)
    terms = (np.sum(np.asarray(w) * v).real for w, v in pairs if is_float(w) and v is not None)
    return float(sum(terms))


def _norm(values: Leaves) -> float:
    return float(np.sqrt(sum(np.sum(np.abs(v) ** 2) for v in values if is_float(v))))
