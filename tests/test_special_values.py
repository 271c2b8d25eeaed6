"""NaN, infinities, signed zeros and empty arrays: what NumPy and Python make of them."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from programs_as_files import as_numpy, outcome

import calque

VALUES = [-np.inf, np.inf, np.nan, 0.5, 1.0, -0.0]
ROWS = [np.array(c) for n in (1, 2, 3) for c in itertools.product(VALUES, repeat=n)]
ROWS += [np.random.default_rng(3).choice([*VALUES, 0.1, 0.2, -3.0], 6) for _ in range(30)]
FUNCTIONS = {
    "max": lambda v: max(v),
    "min": lambda v: min(v),
    "max of a list": lambda v: max([v[0], v[-1], 0.3]),
    "min of a comprehension": lambda v: min([2.0 * e for e in v]),
    "nanmax": lambda v: np.nanmax(v) + 0.0,
    "nanargmax": lambda v: np.nanargmax(v),
    "nanargmin": lambda v: np.nanargmin(v),
    "nanmedian": lambda v: np.nanmedian(v) + 0.0,
    "nanquantile": lambda v: np.nanquantile(v, 0.3) + 0.0,
    "nanpercentile": lambda v: np.nanpercentile(v, 60) + 0.0,
    "nanquantile, the end": lambda v: np.nanquantile(v, 1.0) + 0.0,
    "nanquantile, lower": lambda v: np.nanquantile(v, 0.6, method="lower"),
    "nanquantile, midpoint": lambda v: np.nanquantile(v, 0.6, method="midpoint"),
    "clip": lambda v: np.clip(v, 0.0, 1.0),
    "clip below": lambda v: np.clip(v, -1.0, -0.0),
    "clip to one": lambda v: np.clip(v, 0.5, 0.5),
    "clip of an element": lambda v: np.clip(v[0], -0.0, 0.7),
    "edges": lambda v: np.histogram_bin_edges(v, 4),
    "edges in a range": lambda v: np.histogram_bin_edges(v, 4, range=(0.0, 2.0)),
    "histogram": lambda v: np.histogram(v, 3)[0],
    "histogram2d": lambda v: np.histogram2d(v, v[::-1], 3)[0],
    "convolve": lambda v: np.convolve(v, v[:2]),
    "convolve, same": lambda v: np.convolve(np.array([1.0, 2.0, 0.5]), v[:1], "same"),
    "correlate": lambda v: np.correlate(v, v[:1]),
    "poly": lambda v: np.poly(v),
}
COMPILED = ["max", "min", "max of a list", "nanargmax", "nanquantile", "clip", "clip below", "edges"]


def bits(value):
    """A value such that NaN is NaN, 0.0 is not -0.0, and the last bits do not count."""
    value = np.asarray(value)
    shown = [repr(float(f"{v:.12g}")) if value.dtype.kind == "f" else v for v in value.ravel().tolist()]
    return value.shape, shown


def assert_same(found, wanted):
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), (found, wanted)
        return
    if isinstance(found, Exception):
        raise found
    assert bits(found) == bits(wanted)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_numpys(name):
    f = FUNCTIONS[name]
    made = as_numpy(f)
    for row in ROWS:
        assert_same(outcome(made, (row,)), outcome(f, (row,)))


@pytest.mark.parametrize("name", COMPILED)
def test_values_of_kernels(name):
    f = FUNCTIONS[name]
    made = calque.jit(f)
    for row in ROWS[::2]:
        if not (name == "max" or name == "min") or np.count_nonzero(row == 0) < 2:
            assert_same(outcome(made, (row,)), outcome(f, (row,)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_examples(name):
    f = FUNCTIONS[name]
    batched = calque.vmap(f)
    for size in (1, 2, 3):
        rows = np.array([r for r in ROWS if r.size == size])[::3]
        wanted = [outcome(f, (row,)) for row in rows]
        found = outcome(batched, (rows,))
        if any(isinstance(w, Exception) for w in wanted):
            assert isinstance(found, Exception)
            rows = rows[[not isinstance(w, Exception) for w in wanted]]
            wanted = [w for w in wanted if not isinstance(w, Exception)]
            found = outcome(batched, (rows,)) if len(rows) else np.zeros(0)
        if len(rows):
            assert_same(found, np.array(wanted))


@pytest.mark.parametrize("fn", [np.convolve, np.correlate])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_convolutions_of_examples(fn, mode, axes):
    rows = np.stack([[0.3, np.nan, 0.7, np.inf, 2.0], np.ones(5), np.arange(5.0)])
    short = np.array([[1.0, np.nan], [2.0, 3.0], [np.inf, 0.0]])
    args = [rows if axes[0] == 0 else rows[0], short if axes[1] == 0 else short[0]]
    pairs = [(rows[k * (axes[0] == 0)], short[k * (axes[1] == 0)]) for k in range(3)]
    with np.errstate(all="ignore"):
        wanted = np.array([fn(a, v, mode) for a, v in pairs])
        for form in (calque.vmap, lambda *a, **k: calque.jit(calque.vmap(*a, **k))):
            assert_same(form(lambda a, v: fn(a, v, mode), in_axes=axes)(*args), wanted)


def test_gradients_of_convolutions_of_examples():
    x, v = np.random.default_rng(0).normal(size=(3, 6)), np.array([0.5, -1.0, 2.0])

    def loss(a):
        return np.sum(np.convolve(a, v, "same") ** 2)

    wanted = np.array([calque.grad(loss)(row) for row in x])
    np.testing.assert_allclose(calque.vmap(calque.grad(loss))(x), wanted, rtol=1e-13)
    total = calque.grad(lambda x: np.sum(calque.vmap(loss)(x)))
    np.testing.assert_allclose(total(x), wanted, rtol=1e-13)
    np.testing.assert_allclose(calque.jit(total)(x), wanted, rtol=1e-13)


@pytest.mark.parametrize("f", [np.histogram_bin_edges, lambda v, n: np.histogram(v, n)[1]])
def test_bins_of_nothing(f):
    for form in (as_numpy(lambda v: f(v, 4)), calque.jit(lambda v: f(v, 4))):
        np.testing.assert_array_equal(form(np.zeros(0)), f(np.zeros(0), 4))
        np.testing.assert_array_equal(form(np.array([1.0, 3.0])), f(np.array([1.0, 3.0]), 4))


def test_a_mean_of_nothing():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = calque.jit(lambda x, y: x[:0] - np.mean(y))(np.ones(3), np.zeros(0))
    assert found.shape == (0,)


def root(z):
    return z**0.5


def power(z, p):
    return z**p


def hypotenuse(a, b):
    return (a * a + b * b) ** 0.5 + abs(a) ** 1.5


def cube_root(z):
    return z ** (1 / 3) if z > 0 else -((-z) ** (1 / 3))


@pytest.mark.parametrize("form", [as_numpy, calque.jit], ids=["numpy", "kernels"])
def test_powers_of_pythons_floats(form):
    for f, args in [(root, (4.0,)), (root, (0.0,)), (power, (-2.0, 3.0)), (power, (0.0, 0.0)),
                    (hypotenuse, (-3.0, 4.0)), (cube_root, (-8.0,)), (cube_root, (8.0,))]:
        np.testing.assert_allclose(form(f)(*args), f(*args), rtol=1e-15)
    for args in [(-4.0, 0.5), (-4.0, -1.5)]:
        with pytest.raises(ValueError, match="complex"):
            form(power)(*args)
    with pytest.raises(ValueError, match="complex"):
        form(calque.grad(root) if form is calque.jit else root)(-4.0)
    for args in [(0.0, -1.0), (0.0, -0.5), (-0.0, -2.0)]:
        with pytest.raises(ZeroDivisionError):
            form(power)(*args)


def test_what_is_no_less_than_zero_is_not_asked():
    for f, args in ((hypotenuse, (1.0, 2.0)), (cube_root, (1.0,))):
        assert "raise" not in calque.source(f, *args)


def in_a_loop(r, n):
    s = 0.0
    for i in range(n):
        s += (r - i) ** -2 + r**i
    return s


def test_powers_in_loops_of_kernels():
    fast = calque.jit(in_a_loop)
    np.testing.assert_allclose(fast(0.5, 4), in_a_loop(0.5, 4), rtol=1e-14)
    with pytest.raises(ZeroDivisionError):
        fast(2.0, 4)
