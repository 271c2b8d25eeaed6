"""Autograd's checks: calque's derivatives beside numerical differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import calque

from .operators import chosen, of_one

STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
TOLERANCE = 1e-6  # Autograd's, absolute or relative
RANDOM = np.random.default_rng(0)


class Wrong(AssertionError):
    """A derivative that differs from numerical differences."""


class PlainRefuses(Exception):
    """A function that plain NumPy or SciPy does not take, without calque."""


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.generic, np.ndarray))


def mapped(function: Callable[..., Any], *trees: Any) -> Any:
    return calque.tree.map(function, *trees)


def floating(x: Any) -> Any:
    """The value with its integers as floats: Autograd differentiates by these too."""

    def one(leaf):
        if np.asarray(leaf).dtype.kind in "biu":
            return float(leaf) if np.ndim(leaf) == 0 else np.asarray(leaf, dtype=float)
        return leaf

    return mapped(one, x)


def random_like(x: Any) -> Any:
    """A random value of the structure, shapes and kinds of `x`."""

    def one(leaf):
        leaf = np.asarray(leaf)
        drawn = RANDOM.standard_normal(leaf.shape)
        if leaf.dtype.kind == "c":
            drawn = drawn + 1j * RANDOM.standard_normal(leaf.shape)
        return drawn if leaf.shape else drawn.item() if hasattr(drawn, "item") else drawn

    return mapped(one, x)


def conjugate(x: Any) -> Any:
    return mapped(lambda leaf: np.conj(leaf) if np.iscomplexobj(leaf) else leaf, x)


def inner(x: Any, y: Any) -> float:
    """The real inner product of two values of one structure."""
    pairs = zip(calque.tree.leaves(x), calque.tree.leaves(y), strict=True)
    return float(sum(np.real(np.sum(np.conj(a) * b)) for a, b in pairs))


def close(a: float, b: float) -> bool:
    return abs(a - b) < TOLERANCE or abs(a - b) < TOLERANCE * abs(a + b)


def moved(x: Any, along: Any, step: float) -> Any:
    return mapped(lambda a, b: a + step * b, x, along)


def differences(f: Callable[..., Any], xs: Any, along: Any, step: float) -> Any:
    """The directional derivative by differences of fourth order."""
    at = [f(*moved(xs, along, k * step)) for k in (-2, -1, 1, 2)]
    return mapped(lambda a, b, c, d: (1.0 * a - 8.0 * b + 8.0 * c - 1.0 * d) / (12 * step), *at)


def near(exact: Callable[[Any], float], f: Callable[..., Any], xs: Any, along: Any) -> None:
    """Raises Wrong where `exact` differs from what differences give at each of the steps.

    `exact` gives, for numerical differences, the pair to compare.
    """
    tried = []
    for step in STEPS:
        a, b = exact(differences(f, xs, along, step))
        if close(a, b):
            return
        tried.append((a, b))
    a, b = min(tried, key=lambda pair: abs(pair[0] - pair[1]))
    raise Wrong(f"{a!r} for {b!r}")


def check_forward(f: Callable[..., Any], xs: Any) -> Any:
    along = random_like(xs)
    _, change = calque.jvp(f, tuple(xs), tuple(along))
    weights = random_like(change)
    try:
        near(lambda found: (inner(weights, change), inner(weights, found)), f, xs, along)
    except Wrong as error:
        raise Wrong(f"Derivative (JVP) check failed: {error}") from None
    return along


def check_reverse(f: Callable[..., Any], xs: Any, name: str = "") -> Any:
    along = random_like(xs)
    out, pull = calque.vjp(f, *xs)
    weights = random_like(out)
    pulled = conjugate(pull(conjugate(weights)))
    got = [np.shape(one) for one in calque.tree.leaves(pulled)]
    if got != [np.shape(one) for one in calque.tree.leaves(tuple(xs))]:
        raise Wrong(f"the gradient has shapes {got}")
    try:
        near(lambda found: (inner(along, pulled), inner(weights, found)), f, xs, along)
    except Wrong as error:
        raise Wrong(f"Derivative (VJP) check of {name} failed: {error}") from None
    return weights


def checked(f: Callable[..., Any], xs: Any, modes: Any, order: int, name: str) -> None:
    """Raises Wrong where a derivative of `f` by `xs`, up to the order, is not the differences'."""
    n = len(xs)
    if "fwd" in modes:
        along = check_forward(f, xs)
        if order > 1:
            further = lambda *xv: calque.jvp(f, xv[:n], xv[n:])[1]
            checked(further, (*xs, *along), modes, order - 1, f"jvp_{name}")
    if "rev" in modes:
        weights = check_reverse(f, xs, name)
        if order > 1:
            further = lambda *xv: calque.vjp(f, *xv[:n])[1](xv[n])
            checked(further, (*xs, weights), modes, order - 1, f"vjp_{name}")


def check_grads(fun: Any, argnum: Any = 0, modes: Any = None, order: int = 2) -> Any:
    def check(*args, **kwargs):
        given = floating(chosen(argnum, args))
        places = (argnum,) if isinstance(argnum, int) else tuple(argnum)
        xs = (given,) if isinstance(argnum, int) else given
        one = of_one(fun, places, args, kwargs)
        try:
            one(xs)
        except calque_errors():
            raise
        except Exception as error:
            raise PlainRefuses(f"{type(error).__name__}: {error}") from error
        name = getattr(fun, "__name__", "[unknown name]")
        checked(lambda *given: one(given), xs, modes or ("fwd", "rev"), order, name)

    return check


def calque_errors() -> tuple[type[BaseException], ...]:
    from calque.transpiler.errors import CalqueError

    return (CalqueError,)


def combo_check(fun: Any, *options: Any, **more: Any) -> Any:
    """A check of each combination; what is raised names how many of them fail."""
    check = check_grads(fun, *options, **more)

    def combinations(*args, **kwargs):
        named = [[(name, value) for value in values] for name, values in kwargs.items()]
        failed: list[Exception] = []
        count = 0
        for given in itertools.product(*args):
            for chosen_names in itertools.product(*named):
                count += 1
                try:
                    check(*given, **dict(chosen_names))
                except Exception as error:
                    failed.append(error)
        if failed:
            worst = next((one for one in failed if isinstance(one, Wrong)), failed[0])
            worst.add_note(f"{len(failed)} of {count} combinations fail")
            raise worst

    return combinations


def check_vjp(f: Any, x: Any) -> None:
    check_reverse(f, (floating(x),), getattr(f, "__name__", ""))


def check_jvp(f: Any, x: Any) -> None:
    check_forward(f, (floating(x),))


def scalar_close(a: Any, b: Any) -> bool:
    return bool(close(a, b))


def check_equivalent(x: Any, y: Any) -> None:
    """Raises Wrong where two values differ in structure, shapes or numbers."""
    left, right = calque.tree.leaves(x), calque.tree.leaves(y)
    if [np.shape(one) for one in left] != [np.shape(one) for one in right]:
        raise Wrong(f"shapes {list(map(np.shape, left))} for {list(map(np.shape, right))}")
    for a, b in zip(left, right, strict=True):
        if not np.allclose(a, b, rtol=1e-6, atol=1e-6):
            raise Wrong(f"{np.ravel(a)[:3].tolist()} for {np.ravel(b)[:3].tolist()}")
