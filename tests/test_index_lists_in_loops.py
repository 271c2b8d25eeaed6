"""Lists of known places within compiled loops: read, added to, and their gradients."""

import numpy as np
import pytest

import calque

X = np.random.default_rng(4).normal(size=(7, 4))


def summed(places):
    def f(x):
        total = 0.0
        for k in range(x.shape[0]):
            v = x[k]
            total = total + np.sum(v[places] ** 3)
        return total

    return f


@pytest.mark.parametrize("places", [[0, 2], [3, 1, 0], [1], [0, -1], [2, 2], [0, -4]], ids=str)
def test_gradients(places):
    expected = np.zeros_like(X)
    for place in places:
        expected[:, place] += 3.0 * X[:, place] ** 2
    gradient = calque.jit(calque.grad(summed(places)))
    np.testing.assert_allclose(gradient(X), expected, rtol=1e-12)
    text = gradient.source(X)
    if min(places) >= 0 and len(set(places)) == len(places):
        assert "for k" not in text.split("def f_grad_jit")[1]  # a kernel has the loop
    single = X[:, :1]
    if set(places) <= {0, -1}:
        expected = len(places) * 3.0 * single**2
        np.testing.assert_allclose(gradient(single.copy()), expected, rtol=1e-12)
    else:
        with pytest.raises(IndexError):
            gradient(single.copy())


def stores(places, dtype):
    def f(x):
        out = np.zeros((x.shape[0], 4), dtype=dtype)
        for k in range(x.shape[0]):
            row = out[k]
            row[places] += x[k][: len(places)]
            row[places] += 0.5
        return out

    return f


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("places", [[0, 2], [2, 2], [0, -4], [3, 0]], ids=str)
def test_stores(places, dtype):
    """For an index that is listed twice, NumPy stores the last sum."""
    f = stores(places, dtype)
    np.testing.assert_array_equal(calque.jit(f)(X), f(X))
