"""A repeated call checks again all that the generated code depends on."""

import enum
import unittest.mock

import numpy as np
import pytest

import calque

X = np.linspace(0.5, 1.5, 4)


def make():
    def inner(x, *, shift=0.25):
        return x * x + shift

    def function(x, factor=2.0, offset=1.0):
        return inner(x) * factor + offset

    return function, inner


TRANSFORMATIONS = [lambda f: f, calque.jit]


@pytest.mark.parametrize("wrap", TRANSFORMATIONS)
def test_defaults_and_code_that_a_user_changes(wrap):
    function, inner = make()
    compiled = wrap(calque.vmap(function))
    for _ in range(3):
        np.testing.assert_allclose(compiled(X), function(X))
    function.__defaults__ = (3.0, 1.0)
    for _ in range(3):
        np.testing.assert_allclose(compiled(X), (X * X + 0.25) * 3.0 + 1.0)
    inner.__kwdefaults__["shift"] = -1.0
    for _ in range(3):
        np.testing.assert_allclose(compiled(X), (X * X - 1.0) * 3.0 + 1.0)
    inner.__code__ = (lambda x, *, shift=0.25: x + shift).__code__
    for _ in range(3):
        np.testing.assert_allclose(compiled(X), (X - 1.0) * 3.0 + 1.0)
    function.__defaults__ = (2.0, 0.0)
    np.testing.assert_allclose(compiled(X), (X - 1.0) * 2.0)


@pytest.mark.parametrize("wrap", TRANSFORMATIONS)
def test_layouts_and_kinds_of_arguments(wrap):
    compiled = wrap(calque.grad(lambda a, b: np.sum(np.sin(a) * b)))
    square = np.arange(9.0).reshape(3, 3)
    for a, b in [
        *((square, square), (square.T, square), (square, square.T), (square[::-1], square)),
        *((square, 2.0), (square.astype(np.float32), np.float32(2.0)), (square, np.float64(2.0))),
        *((1.5, 2.0), (square[:, :1], square[:, :1])),
    ]:
        for _ in range(2):
            np.testing.assert_allclose(compiled(a, b), np.cos(a) * b, rtol=1e-6)


class Kind(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


def configured(x, n, kind=Kind.SUM, name="plus", shift=None, function=np.sin):
    """The values of the integer, the flags and the names are part of the generated code."""
    table = ["zero", "one", "two"]
    y = function(x) * len(table[n]) + (1.0 if name == "plus" else -1.0)
    y = y if shift is None else y + shift
    return np.sum(y) if kind is Kind.SUM else np.mean(y)


def calls():
    yield from (((X, n), {}) for n in (0, 2, 1, 2))
    yield from (((X, 2, kind), {}) for kind in (Kind.MEAN, Kind.SUM))
    yield from (((X, 1, Kind.SUM, name), {}) for name in ("plus", "minus"))
    rest = [(shift, f) for shift in (None, 2.0) for f in (np.sin, np.cos)]
    yield from (((X, 1, Kind.SUM, "", *r), {}) for r in rest)
    yield from (((X,), {"n": n, "kind": kind}) for n in (2, 1, 2) for kind in Kind)
    yield from (((X,), {"kind": kind, "n": n, "shift": X}) for n in (2, 1) for kind in Kind)
    yield from (((X, 1), {"name": "minus", "function": f}) for f in (np.sin, np.exp, np.tanh))


@pytest.mark.parametrize("wrap", [calque.jit, lambda f: calque.jit(f, static_argnums=1)])
def test_calls_that_differ_in_what_the_code_is_made_for(wrap):
    compiled = wrap(configured)
    for _ in range(2):
        for args, kwargs in calls():
            np.testing.assert_allclose(
                compiled(*args, **kwargs), configured(*args, **kwargs), rtol=1e-14
            )


def test_calls_with_flags_and_integers_that_the_code_holds_are_ready() -> None:
    compiled = calque.jit(configured)
    for args, kwargs in [((X, 1), {}), ((X, 2, Kind.MEAN, "a", None), {}), ((X,), {"n": 0})]:
        compiled(*args, **kwargs)
        compiled(*args, **kwargs)
        with unittest.mock.patch.object(compiled._dispatcher, "find", side_effect=AssertionError):
            compiled(*args, **kwargs)
