"""Stores through views, and what is a copy: exactly NumPy's."""

import numpy as np
import pytest
from array_tracing import run, same_as_numpy

import calque
from calque.transpiler.errors import AliasUndecided, CalqueError

A = np.arange(12.0).reshape(3, 4)
CUBE = np.arange(24.0).reshape(2, 3, 4)

MAKERS = [
    ("transpose", lambda x: x.T),
    ("axes", lambda x: x.transpose(2, 0, 1)),
    ("swapaxes", lambda x: np.swapaxes(x, 0, -1)),
    ("moveaxis", lambda x: np.moveaxis(x, 0, -1)),
    ("rollaxis", lambda x: np.rollaxis(x, 2)),
    ("mT", lambda x: x.mT),
    ("expand_dims", lambda x: np.expand_dims(x, (0, 2))),
    ("newaxis", lambda x: x[:, None]),
    ("squeeze", lambda x: np.squeeze(x[:, None], 1)),
    ("slice", lambda x: x[:, 1:, ::2]),
    ("negative step", lambda x: x[::-1, :, ::-2]),
    ("integer", lambda x: x[1]),
    ("column", lambda x: x[:, 0]),
    ("last", lambda x: x[..., -1]),
    ("view of a view", lambda x: x[1].T[1:]),
    ("flip", lambda x: np.flip(x, 1)),
    ("flip all", lambda x: np.flip(x)),
    ("rot90", lambda x: np.rot90(x)),
    ("rot90 thrice", lambda x: np.rot90(x, 3, (1, 2))),
    ("split", lambda x: np.split(x, 2, axis=2)[1]),
    ("array_split", lambda x: np.array_split(x, 2, axis=1)[0]),
    ("hsplit", lambda x: np.hsplit(x, [1])[1]),
    ("fancy", lambda x: x[[1, 0]]),
    ("mask", lambda x: x[x > 3.0]),
    ("copy", lambda x: x.copy()),
    ("flatten", lambda x: x.flatten()),
    ("concatenate", lambda x: np.concatenate([x, x])),
    ("tile", lambda x: np.tile(x, 2)),
    ("repeat", lambda x: np.repeat(x, 2, axis=0)),
    ("roll", lambda x: np.roll(x, 1)),
]


@pytest.mark.parametrize("make", [m for _, m in MAKERS], ids=[n for n, _ in MAKERS])
def test_store_through(make):
    def f(x):
        y = make(x)
        y[0] = 100.0
        x[1, 1, 1] = -1.0
        y[-1] += 1.0
        return y * 2.0, x + 0.0

    same_as_numpy(f, CUBE)


@pytest.mark.parametrize("make", [np.diagonal, np.diag, lambda x: np.broadcast_to(x, (2, 3, 4))])
def test_read_only(make):
    def f(x):
        make(x)[0] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        run(f, A)


def test_diagonal_sees_later_stores():
    def f(x):
        d = np.diagonal(x)
        x[1, 1] = 50.0
        return d + 0.0

    same_as_numpy(f, A)


def test_flat():
    def f(x):
        x.flat[3] = 9.0
        x.T.flat[:2] = -1.0
        return x.flat[5], x.flat[1:4] + 0.0

    same_as_numpy(f, A)


def test_ravel_of_fresh_memory_is_a_view():
    def f(x):
        y = np.zeros((2, 3))
        y.ravel()[1] = x[0, 1]
        y.reshape(3, 2)[2, 1] = 7.0
        return y

    def on_arrays(x):
        from calque.transpiler.ir.builder import FUNCTIONS

        y = FUNCTIONS[np.zeros]((2, 3))
        y.ravel()[1] = x[0, 1]
        y.reshape(3, 2)[2, 1] = 7.0
        return y

    np.testing.assert_array_equal(run(on_arrays, A)[0][0], f(A))


def test_reshape_of_unknown_memory_is_undecided():
    def f(x):
        y = x.reshape(-1)
        x[0, 0] = 1.0
        return y + 1.0

    with pytest.raises(AliasUndecided):
        run(f, A)


def test_rows_are_stored_into_directly():
    def f(x):
        row = x[1]
        row[2] = 5.0
        row[3] += row[2]
        column = x[:, 0]
        column[1] = 3.0
        cell = x[1][1:]
        cell[0] = 4.0
        return row + 0.0, column + 0.0

    same_as_numpy(f, A)
    run(lambda x: x[1].__setitem__(2, 5.0), A)
    stores = [s for s in run.block.statements if s.primitive.name == "update"]
    assert [s.params["index"] for s in stores] == [(1, 2)]


def test_slices_are_not_composed():
    run(lambda x: x[1:-1][0] + 0.0, A)
    names = [s.params["index"] for s in run.block.statements if s.primitive.name == "getitem"]
    assert len(names) == 2


def test_swap_through_views():
    def f(x):
        a, b = x[0], x[1]
        x[0], x[1] = b.copy(), a.copy()
        x[:, [0, 1]] = x[:, [1, 0]]
        return a + 0.0

    same_as_numpy(f, A)


def test_functions_that_store():
    def f(x, y):
        np.copyto(y[0], x[1])
        np.copyto(x, -1.0, where=x > 5.0)
        x[2].fill(8.0)
        np.fill_diagonal(x, 3.0)
        np.put(y, [0, 5], [1.5, 2.5])
        np.putmask(y, y > 9.0, 0.0)
        np.place(x, x == 8.0, [4.0])
        return None

    def without_result(x, y):
        f(x, y)
        return x + 0.0

    same_as_numpy(without_result, A, A + 1.0)


def test_a_second_transpose_of_what_was_stored_through_one() -> None:
    """The last version of A is the transpose of M's: transposed again, it is still A's memory."""

    def stored(A):
        M = A.T
        M[1:2, 1] -= M[1:2, 1]
        y = M[2, :]
        N = A.T
        N[2:3, 2] -= 0.3 * N[2:3, 2]
        return np.sum(y * 0.7), np.sum(A), np.sum(M), np.sum(N)

    A = np.arange(9.0).reshape(3, 3) + 1.0
    want = stored(A.copy())
    np.testing.assert_allclose(calque.jit(stored)(A.copy()), want, rtol=1e-14)
    np.testing.assert_allclose(calque.vmap(stored)(A[None])[1], want[1:2], rtol=1e-14)


def test_a_name_that_one_arm_binds_anew_in_a_loop() -> None:
    """From the second iteration on, whether W and A are one array depends on the first."""

    def in_for(A, M, c):
        W = A
        for _ in range(A.shape[0]):
            if c > 0:
                W[0] = W[0] * 0.5
            else:
                A = M * 1.0
        return np.sum(A) + np.sum(W)

    def in_while(A, M, c):
        W = A
        k = 0.0
        while k < 2.5:
            if c > 0:
                W[0] = W[0] * 0.5
            else:
                A = M * 1.0
            k = k + 1.0
        return np.sum(A) + np.sum(W)

    for fn in (in_for, in_while):
        with pytest.raises(AliasUndecided):
            calque.jit(fn)(np.ones(3), np.ones(3), 1.0)


def bound_anew(A, x):
    """``W`` is ``A`` until the other arm binds ``A`` anew: which, only the values tell."""
    W = A
    for _ in range(x.shape[0]):
        if np.sum(x) > 0.0:
            W[0] = 0.0
        else:
            A = 2.0 * x
    return np.sum(A) + np.sum(W * W)


@pytest.mark.parametrize("transformed", [calque.value_and_grad, calque.jit])
def test_a_store_in_one_arm_and_a_new_array_in_the_other(transformed) -> None:
    with pytest.raises(AliasUndecided, match="bound_anew"):
        transformed(bound_anew)(np.array([1.0, 2.0]), np.array([3.0, 4.0]))


def steps_raveled(x):
    y = x[::2].ravel()
    y[0] = 5.0
    return np.sum(x) * x[1]


def backwards_raveled(x):
    y = np.ravel(x[::-1])
    x[0] = 5.0
    return np.sum(y)


def column_raveled(x):
    z = np.outer(x, x)
    y = z[:, 1].ravel()
    y[0] = 7.0
    return np.sum(z)


@pytest.mark.parametrize("fn", [steps_raveled, backwards_raveled, column_raveled])
@pytest.mark.parametrize("how", [calque.jit, calque.grad], ids=lambda how: how.__name__)
def test_ravel_of_one_axis_with_gaps_is_no_view(fn, how) -> None:
    """NumPy copies it, but where there is one element at most: which of them is not known."""
    with pytest.raises(AliasUndecided):
        how(fn)(np.array([0.3, 0.4, 0.5, 0.7]))


def rows_raveled(x):
    z = np.outer(x, x)
    y = z[1].ravel()
    y[0] = 5.0
    z[2, 1:].ravel()[1] = 6.0
    w = x * 2.0
    w[1:3].ravel()[0] = x[0]
    return np.sum(z**2) + np.sum(w**2)


def split_in_two(x):
    """A reshape of one axis is a view on every layout."""
    y = x[::2].reshape(2, 1)
    y[0] = 5.0 * x[1]
    return np.sum(x**2)


@pytest.mark.parametrize("fn", [rows_raveled, split_in_two])
def test_views_of_one_axis_on_every_layout(fn) -> None:
    values, away = np.array([0.3, 0.4, 0.5, 0.7]), np.array([0.6, -0.2, 0.1, 0.4])
    for x in (values, np.repeat(values, 2)[::2], values[::-1].copy()[::-1]):
        found, gradient = calque.value_and_grad(fn)(x)
        assert np.isclose(found, fn(x.copy()), rtol=1e-14)
        up, down = (fn(x + s * away) for s in (1e-6, -1e-6))
        assert np.isclose(gradient @ away, (up - down) / 2e-6, rtol=1e-7)
        mine, theirs = np.repeat(x, 2)[::2], np.repeat(x, 2)[::2]
        np.testing.assert_allclose(calque.jit(fn)(mine), fn(theirs), rtol=1e-14)
        np.testing.assert_array_equal(mine, theirs)


def keeps_the_best(x):
    x = x * 1.0
    best = x
    for i in range(3):
        x = x.copy()
        x[i] = x[i] + 1.0
        if x[i] > 1.5:
            best = x
    return np.sum(best * np.arange(4.0)) + 10.0 * np.sum(x)


def two_of_one(x):
    a = x * 1.0
    b = a.copy()
    for i in range(3):
        a[i] = b[i + 1] * 2.0
        b[i] += a[i + 1]
    return np.sum(a * b)


def beside_what_is_needed(x):
    y = x * 1.0
    z = y.copy()
    for i in range(3):
        z[i] = z[i + 1] + y[i]
    return np.sum(z * y)


@pytest.mark.parametrize("fn", [keeps_the_best, two_of_one, beside_what_is_needed])
def test_a_loop_takes_over_only_memory_that_nobody_else_needs(fn) -> None:
    x = np.array([0.3, 0.9, 0.2, 0.4])
    away = np.array([0.6, -0.2, 0.1, 0.4])
    value, gradient = calque.value_and_grad(fn)(x)
    assert np.isclose(value, fn(x), rtol=1e-14)
    assert np.isclose(calque.jit(fn)(x), fn(x), rtol=1e-14)
    up, down = (fn(x + s * away) for s in (1e-6, -1e-6))
    assert np.isclose(gradient @ away, (up - down) / 2e-6, rtol=1e-7)


def through_the_method(x):
    y = x.copy().view()
    z = y.view()
    z[0] = x[1] * 3.0
    return np.sum(y * x)


def test_the_method_that_makes_a_view() -> None:
    x = np.array([0.3, 0.9, 0.2])
    assert calque.jit(through_the_method)(x) == through_the_method(x)
    np.testing.assert_allclose(calque.grad(through_the_method)(x), [2.7, 2.7, 0.4], rtol=1e-14)
    with pytest.raises(CalqueError, match="as another dtype"):
        calque.jit(lambda x: x.view(np.int64))(x)


@pytest.mark.parametrize("subscripts", ["ii->i", "ij->ji", "ij"])
def test_what_was_read_of_a_view_that_einsum_gives_is_kept(subscripts: str) -> None:
    def f(x: np.ndarray) -> float:
        b = x[:, :3] * 2.0
        view = np.einsum(subscripts, b)
        before = view * 1.0
        b[0, 1], b[0, 0] = 7.0, 5.0
        return np.sum(view) + 3.0 * np.sum(before)

    assert calque.jit(f)(A) == f(A.copy())
    assert calque.value_and_grad(f)(A)[0] == f(A.copy())


def test_stop_gradient_gives_its_argument_itself() -> None:
    def f(x: np.ndarray) -> float:
        b = x * 2.0
        same = calque.stop_gradient(b)
        before = same * 1.0
        b[0] = 5.0
        return np.sum(same) + 3.0 * np.sum(before)

    def stores(x: np.ndarray) -> float:
        b = x * 2.0
        calque.stop_gradient(b)[0] = 5.0
        return np.sum(b)

    assert calque.jit(f)(A) == f(A.copy())
    assert calque.value_and_grad(f)(A)[0] == f(A.copy())
    with pytest.raises(CalqueError, match="stop_gradient is its argument itself"):
        calque.jit(stores)(A)
