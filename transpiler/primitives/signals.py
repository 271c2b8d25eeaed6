"""Convolution, correlation and interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS, current, type_of
from calque.transpiler.ir.types import ArrayType, DimLike, elementwise_dtype, promote
from calque.transpiler.primitives.base import apply, bilinear, implements, opaque, operand

Samples = list[tuple[tuple[Any, ...], dict[str, Any]]]


def _first_is_longer(n: DimLike, m: DimLike) -> bool:
    """True if the first operand is at least as long; sizes that leave it open are asked for."""
    dims = current().dims
    if dims.nonnegative(n - m):
        return True
    if dims.nonnegative(m - n):
        return False
    raise current().needs_dims([n, m], "Which operand of a convolution is longer")


def _infer_convolve(a: Any, v: Any, mode: str) -> ArrayType:
    dtype, _ = promote([type_of(a), type_of(v)])
    (n,), (m,) = type_of(a).dims, type_of(v).dims
    if mode == "full":
        return ArrayType(dtype, (n + m - 1,))
    long, short = (n, m) if _first_is_longer(n, m) else (m, n)
    return ArrayType(dtype, (long if mode == "same" else long - short + 1,))


def _convolve_samples(rng: np.random.Generator) -> Samples:
    sizes = [(6, 3), (6, 4), (5, 2), (3, 6), (4, 4), (1, 1), (5, 1)]
    return [
        ((rng.normal(size=n), rng.normal(size=m)), {"mode": mode})
        for mode in ("full", "same", "valid")
        for n, m in sizes
    ]


@bilinear(
    "np.convolve",
    np.convolve,
    _infer_convolve,
    lambda args, p: "np.convolve({0}, {1}" + (")" if p["mode"] == "full" else f", {p['mode']!r})"),
    fresh=True,
    samples=_convolve_samples,
)
def convolve(y_bar: Any, a: Any, v: Any, mode: str) -> tuple[Any, Any]:
    """Correlations with the other operand."""
    if mode != "full" and not _first_is_longer(a.dims[0], v.dims[0]):
        v_bar, a_bar = convolve_transpose(y_bar, v, a, mode)
        return a_bar, v_bar
    return convolve_transpose(y_bar, a, v, mode)


def convolve_transpose(y_bar: Any, long: Any, short: Any, mode: str) -> tuple[Any, Any]:
    """Both cotangents, the longer operand's first."""
    if mode == "valid":
        return np.convolve(y_bar, short[::-1]), np.convolve(long[::-1], y_bar, "valid")
    if mode == "same":
        size = short.shape[0]
        left = (size - 1) // 2
        y_bar = np.pad(y_bar, (left, size - 1 - left))
    return np.convolve(y_bar, short[::-1], "valid"), np.convolve(y_bar, long[::-1], "valid")


@implements(np.convolve)
def np_convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """``np.convolve``."""
    a, v = (np.atleast_1d(FUNCTIONS[np.asarray](operand(x))) for x in (a, v))
    return apply(convolve, a, v, mode=_mode(mode))


def _mode(mode: Any) -> str:
    names = {"v": "valid", "s": "same", "f": "full"}
    if str(mode)[:1] not in names:
        raise UnsupportedFunction(f"convolution with mode={mode!r}.", current().origin)
    return names[str(mode)[:1]]


@implements(np.correlate)
def np_correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """``np.correlate``: a convolution with the reversed, conjugated second operand."""
    a, v = FUNCTIONS[np.asarray](operand(a)), FUNCTIONS[np.asarray](operand(v))
    if _mode(mode) != "full" and not _first_is_longer(a.dims[0], v.dims[0]):
        return np.conj(np_correlate(v, a, mode))[::-1]
    return np_convolve(a, np.conj(v)[::-1], mode)


# interpolation


def _segments(x: Any, xp: Any, fp: Any) -> tuple[Any, Any, Any, Any]:
    """The right end of each segment, its slope and width, and where in it x lies, from 0 to 1."""
    i = np.clip(np.searchsorted(xp, x, side="right"), 1, xp.shape[0] - 1)
    width = xp[i] - xp[i - 1]
    return i, (fp[i] - fp[i - 1]) / width, width, np.clip((x - xp[i - 1]) / width, 0.0, 1.0)


def _interp_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x, xp, fp), (x_dot, xp_dot, fp_dot) = args, tangents
    i, slope, _, t = _segments(x, xp, fp)
    slope = ((x >= xp[0]) & (x <= xp[-1])) * slope
    terms = []
    if x_dot is not None:
        terms.append(slope * x_dot)
    if xp_dot is not None:
        terms.append(-slope * ((1.0 - t) * xp_dot[i - 1] + t * xp_dot[i]))
    if fp_dot is not None:
        terms.append((1.0 - t) * fp_dot[i - 1] + t * fp_dot[i])
    return (sum(terms[1:], terms[0]),)


def _interp_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    x, xp, fp = args
    y_bar = cotangents[0]
    i, slope, _, t = _segments(x, xp, fp)
    x_bar = ((x >= xp[0]) & (x <= xp[-1])) * slope * y_bar
    xp_bar, fp_bar = np.zeros_like(xp), np.zeros_like(fp)
    np.add.at(xp_bar, i - 1, (t - 1.0) * x_bar)
    np.add.at(xp_bar, i, -t * x_bar)
    np.add.at(fp_bar, i - 1, (1.0 - t) * y_bar)
    np.add.at(fp_bar, i, t * y_bar)
    return x_bar, xp_bar, fp_bar


def _interp_samples(rng: np.random.Generator) -> Samples:
    xp, fp = np.array([-1.0, 0.2, 0.7, 2.0]), rng.normal(size=4)
    shapes: list[tuple[int, ...]] = [(6,), (2, 3), (), (0,)]
    return [((np.asarray(rng.uniform(-1.5, 2.5, s)), xp, fp), {}) for s in shapes]


interp = opaque(
    "np.interp",
    np.interp,
    lambda x, xp, fp: ArrayType(
        elementwise_dtype(np.true_divide, [type_of(fp), type_of(np.float64(1))]), type_of(x).dims
    ),
    "np.interp({0}, {1}, {2})",
    _interp_jvp,
    _interp_vjp,
    fresh=True,
    samples=_interp_samples,
)


@implements(np.interp)
def np_interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """``np.interp``; ``left`` and ``right`` are chosen outside."""
    x, xp, fp = (FUNCTIONS[np.asarray](operand(v)) for v in (x, xp, fp))
    if period is not None:
        x, xp, left, right = x % period, xp % period, None, None
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
    result = apply(interp, x, xp, fp)
    if left is not None:
        result = np.where(x < xp[0], left, result)
    if right is not None:
        result = np.where(x > xp[-1], right, result)
    return result
