"""Programs with loops that once gave a wrong answer, or none, each with an oracle of its own."""

from __future__ import annotations

import numpy as np
import pytest

import calque
from calque.transpiler import errors

X = np.array([0.5, 0.6, 0.7])


def halves(y, B):
    n = y.shape[0]
    for i in range(n // 2):
        for j in range(i):
            B[max(i, j)] *= 0.3 * (y @ B)
    return np.sum(B * B)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_nest_without_iterations_saves_nothing(n: int) -> None:
    """Space was counted by the last iteration of the outer loop, and a zero-trip loop has none."""
    y, B = np.linspace(0.5, 1.0, n), np.linspace(1.0, 2.0, n * n).reshape(n, n)
    y_bar, B_bar = calque.grad(halves, argnums=(0, 1))(y, B)
    up, down = (halves(y + s, B + s) for s in (1e-6, -1e-6))
    assert np.isclose(np.sum(y_bar) + np.sum(B_bar), (up - down) / 2e-6, rtol=1e-6)


def handed_on(A, x):
    for k in range(A.shape[0]):
        x = A[k] @ x
    return np.sum(x)


@pytest.mark.parametrize("shape", [(4, 3, 2), (4, 2, 3)])
@pytest.mark.parametrize("transformed", [calque.grad, calque.jit], ids=["grad", "jit"])
def test_iterations_that_do_not_fit_together(transformed, shape):
    """The second product has no vector of the right size; compiled, it read beyond the first."""
    with pytest.raises(errors.ShapeError):
        transformed(handed_on)(np.ones(shape), np.ones(shape[2]))


def unbiased(x):
    return np.sum((x - np.mean(x)) ** 2) / (x.size - 1)


@pytest.mark.parametrize("jitted", [False, True])
def test_slopes_of_quotients_by_a_known_zero(jitted):
    """NumPy gives NaN and infinities, as JAX does; writing the rule for it raised an error."""
    gradient = calque.grad(unbiased)
    with np.errstate(all="ignore"):
        assert np.isnan((calque.jit(gradient) if jitted else gradient)(np.ones(1))).all()
        gradient = calque.grad(lambda x: np.sum(x / 0.0))
        assert ((calque.jit(gradient) if jitted else gradient)(np.ones(3)) == np.inf).all()
        gradient = calque.grad(lambda x: np.sum(x / -0.0))
        assert ((calque.jit(gradient) if jitted else gradient)(np.ones(3)) == -np.inf).all()


def mirrored(x):
    y = x.copy()
    for i in range(4):
        y[i] = y[-1 - i] * 0.5
    return y


def three_before(x):
    y = x.copy()
    for i in range(len(x)):
        y[i] = y[i - 3] * 0.5 + y[i] ** 2
    return y


@pytest.mark.parametrize(("f", "size"), [(mirrored, 5), (mirrored, 6), (three_before, 3), (three_before, 4)])
def test_negative_indices_meet_others_of_the_same_axis(f, size):
    """``i`` and ``-1 - i`` are one element in the middle, ``i`` and ``i - 3`` where there are three."""
    x = np.arange(1.0, size + 1) / size
    expected = calque.jacfwd(f)(x)
    np.testing.assert_allclose(calque.jit(calque.jacrev(f))(x), expected, rtol=1e-14)
    np.testing.assert_allclose(calque.jit(calque.jacfwd(f))(x), expected, rtol=1e-14)
