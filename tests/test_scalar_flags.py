"""Indices that are one boolean: a mask of an axis that the array does not have, known or not."""

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError

X = np.array([[2.0, 3.0], [4.0, 5.0]])


def read_by_flags(x):
    f = x[0, 0] > 1
    whole = np.sum(x[True]) + np.sum(x[f] ** 3) + np.sum(x[..., False]) + np.sum(x[None, f, :, 0])
    return whole + np.sum(x[:, f] ** 2) + x[True, 0].sum() + x[..., f, 0].sum()


def stored_by_flags(x):
    y, f = x.copy(), x[0, 0] > 1
    y[True] = 2 * x
    y[f] += 3 * x
    y[..., f] *= 2
    y[False] = 7
    y[f, 0] = 5 * x[0]
    return y


def without_axes(x):
    """As libraries compute what may be a number: ``empty_like``, then stores by tests."""
    x = np.asarray(x)
    b = np.empty_like(x)
    bad = (x > 1) | (x < -1)
    b[~bad] = np.sqrt(x[~bad] + 1) * x[~bad]
    b[bad] = 7.0
    b[~bad] += np.sin(b[~bad])
    return b


def cleared(x):
    """An array is stored into; of a number Python says TypeError."""
    e = x * 2.0
    try:
        e[abs(e) < 1] = 0.0
    except TypeError:
        if abs(e) < 1:
            e = 0.0
    return e


@pytest.mark.parametrize("f", [read_by_flags, stored_by_flags])
@pytest.mark.parametrize("x", [X, X - 1.5], ids=["true", "false"])
def test_of_arrays(f, x):
    for found in (calque.jit(f)(x), calque.jvp(f, (x,), (x,))[0]):
        np.testing.assert_allclose(found, f(x))
    calque.check_grads(f, (x,), order=2)


def test_of_arrays_in_batches():
    rows = np.stack([X, X - 1.5])
    for f in (read_by_flags, stored_by_flags):
        np.testing.assert_allclose(calque.vmap(f)(rows), [f(row) for row in rows])
        want = np.stack([calque.jacobian(f)(row) for row in rows])
        np.testing.assert_allclose(calque.vmap(calque.jacobian(f))(rows), want)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of what is not chosen
@pytest.mark.parametrize("x", [0.3, 1.5, np.float64(-0.2), np.array(0.4), np.array(-3.0)])
def test_without_axes(x):
    found, slope = calque.value_and_grad(without_axes)(x)
    np.testing.assert_allclose(found, without_axes(x))
    np.testing.assert_allclose(calque.jit(without_axes)(x), without_axes(x))
    np.testing.assert_allclose(calque.jit(calque.grad(without_axes))(x), slope)
    calque.check_grads(without_axes, (x,), order=2)


def test_without_axes_in_batches():
    rows = np.array([0.3, 1.5, -0.2])
    np.testing.assert_allclose(calque.vmap(without_axes)(rows), list(map(without_axes, rows)))
    slopes = [calque.grad(without_axes)(x) for x in rows]
    np.testing.assert_allclose(calque.vmap(calque.grad(without_axes))(rows), slopes)


@pytest.mark.parametrize("x", [0.3, 0.8, np.float64(0.3), np.array(0.3), np.array(0.8)])
def test_numbers_are_not_stored_into(x):
    for found in (calque.jit(cleared)(x), calque.value_and_grad(cleared)(x)[0]):
        assert found == cleared(x)
    assert calque.grad(cleared)(x) == (0.0 if x < 0.5 else 2.0)


@pytest.mark.parametrize("index", [0, True, slice(1), ...])
def test_pythons_numbers_have_no_elements(index):
    with pytest.raises(TypeError, match="'float' object is not subscriptable"):
        calque.grad(lambda x: x[index])(0.3)

    def store(x):
        x[index] = 1.0
        return x

    with pytest.raises(TypeError, match="does not support item assignment"):
        calque.grad(store)(0.3)
    with pytest.raises(TypeError, match="does not support item assignment"):
        calque.grad(store)(np.float64(0.3))


def chosen(x):
    b = np.where(x > 0.5, x, 2 * x)
    if x > 0.2:
        b[...] = 7.0 * x
    return b


def in_a_loop(x):
    b = np.empty_like(np.asarray(x))
    b[...] = 1
    for _ in range(3):
        if x > 0.2:
            b[...] = b + 7.0 * x
    return b


def by_two_names(x):
    b = np.where(x > 0.5, x, 2 * x)
    c = b
    c += x
    return b * np.full((), x)


@pytest.mark.parametrize("f", [chosen, in_a_loop, by_two_names])
@pytest.mark.parametrize("x", [0.1, 0.3, 0.8])
def test_what_numpy_makes_without_axes_is_an_array(f, x):
    np.testing.assert_allclose(calque.value_and_grad(f)(x)[0], f(x))
    np.testing.assert_allclose(calque.jit(f)(x), f(x))
    calque.check_grads(f, (x,), order=1)


def test_what_only_a_run_knows_is_not_stored_into():
    def f(x):
        b = np.float64(x) if x > 0.5 else np.array(x)
        b[x > 0.0] = 1.0
        return b

    with pytest.raises(CalqueError, match="only a run can know"):
        calque.grad(f)(0.3)
