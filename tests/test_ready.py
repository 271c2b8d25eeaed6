"""A call that was made before asks again what the generated code depends on."""

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
