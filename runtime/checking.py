"""Checks of derivatives against differences and against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.runtime.api import jvp, vjp
from calque.transpiler import tree


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare derivatives with central differences along random directions, as JAX does.

    Raises AssertionError where they disagree.

    >>> check_grads(lambda x: np.sin(x) * x, (0.7,), order=2)
    """
    args = tuple(args)
    step = 1e-6 if eps is None else eps
    tolerance = {
        "rtol": 1e-5 if rtol is None else rtol,
        "atol": 1e-6 if atol is None else atol,
    }
    rng = np.random.default_rng(0)
    tangents = tree.tree_map(lambda x: _direction(x, rng), args)
    expected = _differences(f, args, tangents, step)
    if "fwd" in modes:
        _close(jvp(f, args, tangents)[1], expected, "forward mode against differences", tolerance)
    if "rev" in modes:
        value, pullback = vjp(f, *args)
        weights = tree.tree_map(lambda y: _direction(y, rng), value)
        given = _inner(tangents, tuple(pullback(weights)))
        _close(given, _inner(expected, weights), "reverse mode against differences", tolerance)
    if order > 1:
        if "fwd" in modes:
            check_grads(
                _Tangent(f, len(args)), (*args, *tangents), order - 1, ("fwd",), atol, rtol, eps
            )
        if "rev" in modes:
            weights = tree.tree_map(lambda y: _direction(y, rng), vjp(f, *args)[0])
            check_grads(_Pullback(f), (*args, weights), order - 1, ("rev",), atol, rtol, eps)


def _Tangent(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    pushed = jvp(f)

    def tangent(*args: Any) -> Any:
        return pushed(*args)[1]

    return tangent


def _Pullback(f: Callable[..., Any]) -> Callable[..., Any]:
    return vjp(f)


def _is_float(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def _direction(x: Any, rng: np.random.Generator) -> Any:
    if not _is_float(x):
        return np.zeros(np.shape(x), np.dtype([("float0", "V")]))
    made = rng.standard_normal(np.shape(x))
    if np.asarray(x).dtype.kind == "c":
        made = made + 1j * rng.standard_normal(np.shape(x))
    if isinstance(x, (float, complex)):
        return type(x)(made)
    return np.asarray(made, np.asarray(x).dtype)[()]


def _differences(f: Callable[..., Any], args: Any, tangents: Any, step: float) -> Any:
    def moved(sign: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            return x + sign * step * t if _is_float(x) else x

        return f(*tree.tree_map(lambda x, t: _copy(move(x, t)), args, tangents))

    return tree.tree_map(
        lambda a, b: (np.asarray(a) - np.asarray(b)) / (2 * step), moved(1.0), moved(-1.0)
    )


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _inner(left: Any, right: Any) -> Any:
    pairs = zip(tree.flatten(left)[0], tree.flatten(right)[0], strict=True)
    return sum(
        np.sum(np.asarray(a) * np.asarray(b)).real
        for a, b in pairs
        if _is_float(a) and _is_float(b)
    )


def _close(given: Any, expected: Any, what: str, tolerance: dict[str, float]) -> None:
    for a, b in zip(tree.flatten(given)[0], tree.flatten(expected)[0], strict=True):
        if _is_float(b) and np.asarray(a).dtype.kind in "fc":
            np.testing.assert_allclose(a, b, tolerance["rtol"], tolerance["atol"], err_msg=what)
