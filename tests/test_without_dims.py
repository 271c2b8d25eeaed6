"""Arrays without dims: views of other arrays, stores into them, and numbers with new axes."""

import numpy as np
import pytest

import calque


def through_ellipsis(x):
    out = np.zeros(2)
    v = out[..., 1]
    v += x[0]
    return np.sum(out)


def scaled_in_place(x):
    y = x.copy()
    v = y[0, ...]
    v *= 3.0
    return np.sum(y)


def through_reshape(x):
    y = x.copy()
    v = y[0:1].reshape(())
    v[()] = 7.0 * x[1]
    return np.sum(y)


def through_squeeze(x):
    y = x.copy()
    v = y[0:1].squeeze()
    v[...] = 7.0 * x[1]
    return np.sum(y)


def through_out(x):
    y = x.copy()
    np.negative(x[0], out=y[0, ...])
    return np.sum(y)


def through_out_by_place(x):
    y = x.copy()
    made = np.negative(x[0], y[0, ...])
    made *= 2.0
    return np.sum(y)


def made_without_dims(x):
    out = np.zeros(())
    out[...] = x[0]
    return out * 2.0


def number_is_a_copy(x):
    out = np.zeros(())
    before = out[()]
    out[...] = x[0]
    return before + out * x[1]


def element_is_no_view(x):
    y = x.copy()
    first = y[0]
    first += 5.0
    return np.sum(y) * first


def view_sees_store(x):
    y = x.copy()
    v = y[0, ...]
    y[0] = 4.0 * x[1]
    return v * x[0]


def axes_of_a_number(x):
    s = np.sum(x)
    v = s[None]
    v[0] = x[0] ** 2
    return s * v[0]


def in_a_loop(x):
    out = np.zeros(())
    for i in range(2):
        out[...] += x[i] ** 2
    return out * x[0]


def new_axes(x):
    top = np.max(x, axis=-1)
    return -x.shape[0] * (top + np.log(np.sum(np.exp(x - top[..., None]), axis=-1)))


PROGRAMS = [
    through_ellipsis, scaled_in_place, through_reshape, through_squeeze, through_out,
    through_out_by_place, made_without_dims, number_is_a_copy, element_is_no_view, view_sees_store, axes_of_a_number,
    in_a_loop, new_axes,
]  # fmt: skip


# no kernel carries an array without dims from iteration to iteration
@pytest.mark.filterwarnings("ignore:in_a_loop:calque.JitFallback")
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_numpy_has_it(f):
    x, h = np.array([2.0, 5.0]), 1e-6
    want = [(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(2)]
    for made in (calque.value_and_grad(f), calque.jit(calque.value_and_grad(f))):
        value, slopes = made(x.copy())
        np.testing.assert_allclose(value, f(x.copy()), rtol=1e-12)
        np.testing.assert_allclose(slopes, want, rtol=1e-6, atol=1e-8)
    rows = np.stack([x, 2 * x])
    np.testing.assert_allclose(calque.vmap(f)(rows.copy()), [f(x.copy()), f(2 * x)], rtol=1e-12)
    np.testing.assert_allclose(calque.vmap(calque.grad(f))(rows)[0], want, rtol=1e-6, atol=1e-8)


NUMBERS = {
    "float": lambda r: np.asarray(r),
    "complex": lambda r: np.asarray(complex(r, 2.0)),
    "NumPy's": lambda r: np.multiply(r, 1.0 + 2.0j),
    "cast": lambda r: np.float64(r),
    "element": lambda r: np.array([r, 2.0])[0],
}
RESHAPED = {
    "ravel": lambda x: x.ravel(),
    "reshape": lambda x: x.reshape(-1),
    "reshape to a matrix": lambda x: x.reshape(1, 1),
    "flatten": lambda x: x.flatten(),
    "T": lambda x: x.T,
    "squeeze": lambda x: x.squeeze(),
    "copy": lambda x: x.copy(),
    "real": lambda x: x.real.ravel(),
    "imag": lambda x: x.imag.reshape(1),
    "conj": lambda x: x.conj().flatten(),
    "axes": lambda x: x[None, None],
    "flat": lambda x: x.flat[0],
    "repeat": lambda x: x.repeat(2),
    "take": lambda x: np.take(x, 0),
    "cumprod": lambda x: x.cumprod(),
    "block": lambda x: np.block([x, x]),
    "outer": lambda x: np.multiply.outer(x, [1.0, 2.0]),
    "roll": lambda x: np.roll(x, 1),
    "pad": lambda x: np.pad(x, 0),
    "contiguous": lambda x: np.ascontiguousarray(x),
}


@pytest.mark.parametrize("reshaped", RESHAPED)
@pytest.mark.parametrize("number", NUMBERS)
def test_derivatives_of_numbers_as_arrays(number, reshaped):
    make, change = NUMBERS[number], RESHAPED[reshaped]

    def f(r):
        return change(make(r))

    def total(r):
        y = change(make(r))
        return np.sum(3.0 * np.real(y) + np.imag(y))

    step = 1e-6
    want = (f(1.3 + step) - f(1.3 - step)) / (2 * step)
    value, tangent = calque.jvp(f, (1.3,), (1.0,))
    assert np.shape(tangent) == np.shape(f(1.3)) == np.shape(value)
    assert np.asarray(tangent).dtype == f(1.3).dtype
    np.testing.assert_allclose(tangent, want, rtol=1e-7)
    slope = (total(1.3 + step) - total(1.3 - step)) / (2 * step)
    assert calque.grad(total)(1.3) == pytest.approx(slope, rel=1e-7)
    np.testing.assert_allclose(calque.linearize(f, 1.3)[1](2.0), 2.0 * want, rtol=1e-7)


@pytest.mark.parametrize("reshaped", RESHAPED)
def test_a_number_of_pythons_that_a_loop_carries(reshaped):
    """The first iteration's number has no methods and no index: it is Python's in the text, too."""
    change = RESHAPED[reshaped]

    def f(a, n):
        t = 0.5
        for _ in range(n):
            t = t + 0.1 * np.sum(np.real(change(np.asarray(t)))) * a
        return t

    value, slope = calque.value_and_grad(f)(2.5, 3)
    assert value == pytest.approx(f(2.5, 3), rel=1e-13)
    assert slope == pytest.approx((f(2.5 + 1e-6, 3) - f(2.5 - 1e-6, 3)) / 2e-6, rel=1e-6)
