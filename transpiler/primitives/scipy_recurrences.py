"""``scipy.signal``: linear recurrences of given coefficients, in a row too, and their states.

``y = lfilter(b, a, x)`` is ``A y = B x`` with polynomials of the shift: its derivatives by ``x``,
``b`` and ``a`` are recurrences with the same ``a``, and the transpose runs from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current, type_of
from calque.transpiler.ir.types import ArrayType, promote
from calque.transpiler.primitives.base import apply, opaque, operand
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scans import along
from calque.transpiler.primitives.scipy_convolutions import by_loop, turned
from calque.transpiler.primitives.scipy_modules import Lazy, means
from calque.transpiler.primitives.shapes import normalize_axis


def _text(args: Any, params: dict[str, Any]) -> str:
    axis = params["axis"]
    usual = axis == type_of(args[2]).ndim - 1
    return (
        "signal.lfilter({0}, {1}, {2})" if usual else f"signal.lfilter({{0}}, {{1}}, {{2}}, {axis})"
    )


def _padded(z: Any, count: Any, axis: int, at_end: bool = True) -> Any:
    shape = list(z.shape)
    shape[axis] = count
    zeros = FUNCTIONS[np.zeros](tuple(shape), z.dtype)
    return np.concatenate([z, zeros] if at_end else [zeros, z], axis=axis)


def _jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (b_dot, a_dot, x_dot), (b, a, x), (y,) = tangents, args, outs
    terms = []
    if x_dot is not None:
        terms.append(apply(lfilter, b, a, x_dot, **params))
    if b_dot is not None:
        terms.append(apply(lfilter, b_dot, a, x, **params))
    if a_dot is not None:
        terms.append(-apply(lfilter, a_dot, a, y, **params))
    return (sum(terms[1:], terms[0]),)


def _moved_products(y_bar: Any, u: Any, like: Any, axis: int) -> Any:
    """For each ``k`` below the size of ``like``, the sum of ``y_bar[k:] * u[:n - k]``.

    All rows are one after the other, with zeros between them.
    """
    count = like.shape[0]
    rows = [np.moveaxis(_padded(z, count, axis), axis, -1).reshape(-1) for z in (y_bar, u)]
    return np.correlate(_padded(rows[0], count, 0), rows[1], "valid")[:count]


def _vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (y_bar,), (b, a, x), (y,) = cotangents, args, outs
    axis = params["axis"]
    back = turned(apply(lfilter, b, a, turned(y_bar, (axis,)), **params), (axis,))
    one = FUNCTIONS[np.ones](1, a.dtype)
    found = [back]
    for z, like in ((x, b), (y, a)):
        u = apply(lfilter, one, a, z, **params)
        found.append(_moved_products(y_bar, u, like, axis))
    return found[1], -found[2], back


lfilter = opaque(
    "signal.lfilter",
    Lazy("scipy.signal", "lfilter"),
    lambda b, a, x, axis: ArrayType(promote([type_of(v) for v in (b, a, x)])[0], x.dims),
    _text,
    _jvp,
    _vjp,
    fresh=True,
    samples=cases(
        *(
            case((2,), Drawn((3,), shift=lambda a: 0.2 * a + np.eye(3)[0]), shape, axis=axis)
            for shape, axis in (((6,), 0), ((3, 4), 0), ((2, 3), 1), ((2,), 0))
        ),
        case((3,), Drawn((1,), shift=lambda a: a + 3.0), (2, 4), axis=1),
    ),
)


def _batch(args: Sequence[Any], batched: Sequence[bool], params: dict[str, Any]) -> Any:
    if batched[0] or batched[1]:
        return by_loop(lfilter)(args, batched, params)
    return apply(lfilter, *args, axis=params["axis"] + 1)


lfilter.batch = _batch


def _coefficients(value: Any, name: str) -> Array:
    value = np.atleast_1d(FUNCTIONS[np.asarray](operand(value)))
    if value.ndim != 1:
        raise ValueError(
            f"Parameter {name} is not a non-empty 1d array, since {name}.ndim={value.ndim}!"
        )
    return value


def _longer_size(b: Array, a: Array) -> int:
    sizes = [current().dims.resolve(v.dims[0]) for v in (b, a)]
    first, second = sizes
    if not isinstance(first, int) or not isinstance(second, int):
        raise current().needs_dims(sizes, "The size of the state of a filter")
    return max(first, second)


def _from_state(b: Array, a: Array, x: Array, zi: Array, axis: int) -> tuple[Any, Any]:
    """The recurrence from a state, and the state at its end.

    A state is what the past adds to the next terms of ``B x``; the one at the end is what ``B x``
    and ``A y`` have after the last element.
    """
    count = zi.shape[axis]
    n = x.shape[axis]
    b, a = b / a[0], a / a[0]
    state = _padded(zi, n, axis)  # the state, and zeros for what comes after it
    one = FUNCTIONS[np.ones](1, a.dtype)
    y = apply(lfilter, b, a, x, axis=axis)
    y = y + apply(lfilter, one, a, state[along(axis, slice(None, n))], axis=axis)
    after = state[along(axis, slice(n, None))]
    for coefficients, z in ((b, x), (np.negative(a), y)):
        whole = _padded(z, coefficients.shape[0], axis, at_end=False)
        whole = _padded(whole, count, axis)
        tail = whole[along(axis, slice(n, None))]
        found = apply(lfilter, coefficients, one, tail, axis=axis)
        after = after + found[along(axis, slice(coefficients.shape[0], None))]
    return y, after


@means("scipy.signal", "lfilter")
def _lfilter(b: Any, a: Any, x: Any, axis: Any = -1, zi: Any = None) -> Any:
    b, a = _coefficients(b, "b"), _coefficients(a, "a")
    x = FUNCTIONS[np.asarray](operand(x))
    if x.ndim == 0:
        raise ValueError("x must be at least 1-D")
    axis = normalize_axis(axis, x.ndim)
    if promote([type_of(v) for v in (b, a, x)])[0].char not in "fdFD":
        raise NotImplementedError("input type not supported")
    if zi is None:
        return apply(lfilter, b, a, x, axis=axis)
    zi = FUNCTIONS[np.asarray](operand(zi))
    if zi.ndim != x.ndim:
        raise ValueError("object of too small depth for desired array")
    current().unify(zi.dims[axis], _longer_size(b, a) - 1)
    shape = tuple(zi.shape[k] if k == axis else x.shape[k] for k in range(x.ndim))
    return _from_state(b, a, x, FUNCTIONS[np.broadcast_to](zi, shape), axis)
