"""Ufuncs of ``numba.vectorize`` and ``numba.guvectorize``: their Python is read, and derived."""

import math

import numpy as np
import pytest

import calque

numba = pytest.importorskip("numba")

X = np.array([[0.5, 1.5, 2.5], [3.0, 0.2, 0.7]])


@numba.guvectorize(["void(float64[:], float64[:], float64[:], float64[:])"], "(),(n),(n)->()")
def weighted(scale, values, weights, result):
    total = 0.0
    for i in range(values.shape[0]):
        if weights[i] > 0.3:
            total += values[i] * weights[i]
    result[0] = total * scale[0]


@numba.guvectorize([(numba.float64[:], numba.float64, numba.float64[:])], "(n),()->(n)")
def shifted(x, y, result):
    for i in range(x.shape[0]):
        result[i] = x[i] * math.sin(x[i]) + y * y


@numba.guvectorize([(numba.float64[:], numba.float64[:], numba.float64[:])], "(n)->(),()")
def spread(x, low, high):
    low[0], high[0] = x[0], x[0]
    for value in x:
        low[0] = min(low[0], value)
        high[0] = max(high[0], value)


@numba.vectorize([numba.float64(numba.float64, numba.float64)])
def chosen(a, b):
    if a > b:
        return a * a
    return b * 3


@numba.vectorize
def lazily(a, b):
    return math.exp(a * b) if a > b else b


PROGRAMS = {
    "guvectorize": lambda x: weighted(x[:, 0], x, x[::-1]),
    "guvectorize of a row": lambda x: weighted(2.0, x[0], x[1]),
    "guvectorize of numbers": lambda x: shifted(x, x[:, 1]) * shifted(x[0], 3),
    "two results": lambda x: np.stack(spread(x * x)),
    "vectorize": lambda x: chosen(x, 1.0) + chosen(x[0], x),
    "vectorize of numbers": lambda x: chosen(x[0, 0], 2) * chosen(x[1, 0], 1.0),
    "vectorize lazily": lambda x: lazily(x, x[:, :1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_numba(name):
    f = PROGRAMS[name]
    np.testing.assert_allclose(calque.jit(f)(X), f(X), rtol=1e-12)
    calque.check_grads(lambda x: np.sum(f(x)), (X,), order=1)
    rows = np.stack([X, 1.1 * X])
    np.testing.assert_allclose(calque.vmap(f)(rows), [f(row) for row in rows], rtol=1e-12)


def test_results_are_stored_where_they_are_wanted():
    def f(x):
        out = np.zeros_like(x)
        shifted(x, 2.0, out)
        chosen(out, x, out=out)
        return out

    np.testing.assert_allclose(calque.jit(f)(X), f(X), rtol=1e-12)
    calque.check_grads(f, (X,), order=1)
