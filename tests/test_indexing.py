"""Indexing: NumPy's rules, read and stored into, and their derivatives."""

import numpy as np
import pytest
from array_tracing import dot_product_test, run, same_as_numpy, sampled

import calque
from calque.transpiler import primitives as P
from calque.transpiler.errors import CalqueError

X = np.arange(120.0).reshape(2, 3, 4, 5)
I = np.array([0, 2, 0])
J = np.array([[1], [3]])
MASK = np.array([True, False, True])
CALLS = [call for call in sampled([P.indexing]) if not call[0].nondifferentiable]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("call", range(len(CALLS)), ids=[c[0].name for c in CALLS])
def test_sampled(call, symbolic):
    primitive, args, params = CALLS[call]
    dot_product_test(primitive, args, params, np.random.default_rng(1), symbolic)


INDICES = [
    lambda i, j, m: 1,
    lambda i, j, m: (0, -1),
    lambda i, j, m: (slice(None), 1),
    lambda i, j, m: (Ellipsis, 2),
    lambda i, j, m: (0, Ellipsis, None),
    lambda i, j, m: (None, 1, None, slice(1, 3)),
    lambda i, j, m: (slice(None), i),
    lambda i, j, m: (slice(None), i, j),
    lambda i, j, m: (slice(None), i, slice(None), j),
    lambda i, j, m: (slice(None), i, Ellipsis, j),
    lambda i, j, m: (0, slice(None), i),
    lambda i, j, m: (0, i),
    lambda i, j, m: (slice(None), 0, i),
    lambda i, j, m: (slice(None), i, 0),
    lambda i, j, m: (slice(None), m),
    lambda i, j, m: (0, m, 1),
    lambda i, j, m: (slice(None), m, 0, slice(None, None, 2)),
    lambda i, j, m: (slice(None), [2, 0]),
    lambda i, j, m: (slice(None), [True, False, True]),
    lambda i, j, m: (slice(None), i, None, 1),
    lambda i, j, m: (i[1] - 1, Ellipsis, i[0]),
    lambda i, j, m: (slice(None), slice(i[0], i[1])),
    lambda i, j, m: (slice(None), []),
    lambda i, j, m: (slice(None), -1 - i),
    lambda i, j, m: (slice(None), slice(-2, None), slice(3, 0, -1)),
]


@pytest.mark.parametrize("k", range(len(INDICES)))
def test_read_and_store(k):
    make = INDICES[k]

    def f(x, i, j, m):
        y = x[make(i, j, m)]
        before = y + 0.0
        x[make(i, j, m)] = 7.0
        x[make(i, j, m)] = before * 2.0
        return before, y + 1.0

    same_as_numpy(f, X, I, J, MASK)


def test_mask_of_two_axes():
    def f(x, m):
        x[m] = x[m] * 2.0
        x[:, m[0]] = 0.0
        return x[m], x[~m]

    same_as_numpy(f, X[0, 0], X[0, 0] % 3 == 0)


def test_positions_of_nonzero():
    def f(x):
        rows, columns = np.nonzero(x > 7.0)
        x[rows, columns] = -x[x > 7.0]
        return rows, x[np.argwhere(x < 0)[:, 0]]

    same_as_numpy(f, X[0, 0])


@pytest.mark.parametrize(
    "index", [5, (0, 0, 0, 7), (0, 0, 0, 0, 0), (Ellipsis, Ellipsis), (slice(None), -4)], ids=str
)
def test_out_of_range(index):
    with pytest.raises(IndexError) as found:  # as NumPy's, and with the user's line
        run(lambda x: x[index], X)
    assert isinstance(found.value, CalqueError)


def test_not_an_index():
    with pytest.raises(CalqueError):
        run(lambda x: x[x], X)


def test_duplicates_accumulate_in_the_adjoint_of_a_gather():
    rng = np.random.default_rng(0)
    from calque.transpiler.ir.core import Slot

    index = (Slot(0),)
    args = (rng.standard_normal(4), np.array([1, 1, 3, 1]))
    dot_product_test("getitem", args, {"index": index}, rng)


def test_last_writer_gets_the_cotangent():
    rng = np.random.default_rng(0)
    from calque.transpiler.ir.core import Slot

    where = np.array([1, 1, 3, 1, 3])
    for value in (rng.standard_normal(5), np.array(0.5), rng.standard_normal(1)):
        args = (rng.standard_normal(4), value, where)
        for symbolic in (False, True):
            dot_product_test("update", args, {"index": (Slot(0),)}, rng, symbolic)


def test_rows_with_repeated_rows():
    rng = np.random.default_rng(0)
    from calque.transpiler.ir.core import Slot

    args = (rng.standard_normal((3, 2)), rng.standard_normal((4, 2)), np.array([2, 0, 2, 2]))
    dot_product_test("update", args, {"index": (Slot(0),)}, rng)
    dot_product_test("add_at", args, {"index": (Slot(0),)}, rng)


# places that an index may name twice


def picked_by_rows_of_orders(y, a):
    return y[np.argsort(a, axis=1)] @ np.arange(6.0)


def picked_from_both_ends(y, a):
    return y[np.arange(-a.shape[0], 4)] * np.cos(np.arange(4.0 + a.shape[0]))


def stored_by_rows_of_orders(y, a):
    out = np.zeros(6)
    np.add.at(out, np.argsort(a, axis=1), y + 0.0 * a)  # NumPy 2.4 errs where it must spread y
    return out**2


@pytest.mark.parametrize(
    "fn", [picked_by_rows_of_orders, picked_from_both_ends, stored_by_rows_of_orders]
)
def test_a_place_that_is_named_twice_gets_both_cotangents(fn):
    rng = np.random.default_rng(5)
    y, a, way, step = rng.normal(size=6), rng.normal(size=(3, 6)), rng.normal(size=6), 1e-6
    total = lambda y: np.sum(np.sin(fn(y, a)))  # noqa: E731
    slope = (total(y + step * way) - total(y - step * way)) / (2 * step)
    for gradient in (calque.grad(total), calque.jit(calque.grad(total))):
        assert np.isclose(gradient(y) @ way, slope, rtol=1e-6)


def test_one_array_is_picked_from_by_every_example():
    rng = np.random.default_rng(6)
    y, rows, way, step = rng.normal(size=6), rng.normal(size=(3, 6)), rng.normal(size=6), 1e-6

    def one(row, y):
        return np.sum(np.sin(y[np.argsort(row)]) * np.arange(6.0))

    def total(y):
        return np.sum(calque.vmap(one, in_axes=(0, None))(rows, y))

    slope = sum(one(r, y + step * way) - one(r, y - step * way) for r in rows) / (2 * step)
    assert np.isclose(calque.grad(total)(y) @ way, slope, rtol=1e-6)


# places that are named once, by one of several arrays


def picked(s, labels):
    return np.sum(s[np.arange(len(labels)), labels] ** 3)


def moved(s, labels):
    s[np.arange(len(labels)), labels] += s[0, 0]
    s[labels, np.arange(len(labels))] *= 2.0
    return np.sum(s**3)


def one_row(s, labels):
    return np.sum(s[np.arange(1), labels] ** 3)


def from_the_end(s, labels):
    return np.sum(s[np.arange(-1, len(labels) - 1), labels] ** 3)


@pytest.mark.parametrize("fn", [picked, moved, one_row, from_the_end])
@pytest.mark.parametrize("transform", [lambda f: f, calque.jit])
def test_labels_of_rows_are_places_of_their_own(fn, transform) -> None:
    s, labels = np.random.default_rng(3).normal(size=(5, 5)), np.array([1, 1, 3, 0])
    slopes = np.empty_like(s)
    for k in np.ndindex(s.shape):
        given = s.astype(complex)
        given[k] += 1e-30j
        slopes[k] = fn(given, labels).imag / 1e-30
    np.testing.assert_allclose(transform(calque.grad(fn))(s.copy(), labels), slopes, rtol=1e-12)
    both = transform(calque.vmap(calque.grad(fn)))(np.stack([s, s]), np.stack([labels, labels]))
    np.testing.assert_allclose(both[1], slopes, rtol=1e-12)
    text = calque.source(calque.grad(fn), calque.spec("f8[n,n]"), calque.spec("i8[m]"))
    assert ("np.add.at" in text) == (fn in (one_row, from_the_end)), text
