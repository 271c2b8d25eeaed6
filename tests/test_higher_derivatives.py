"""jacobian, hessian_diag, laplacian and jet: against Hessians, nested derivatives and closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import calque

RNG = np.random.default_rng(0)
W, V = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 5))
X = np.array([0.1, 0.2, 0.3])


def network(x: Any) -> Any:
    return np.sum(np.tanh(V @ np.tanh(W @ x)))


def layer(x: Any) -> Any:
    return np.tanh(W @ x) * x[0]


def loop(x: Any) -> Any:
    s, y = 0.0, x.copy()
    for i in range(x.size):
        if y[i] > 0.15:
            s += y[i] ** 3 * y[0]
        else:
            s += np.sin(y[i])
        y[i] *= 2.0
    return s + np.sum(y**2)


def repeated(x: Any) -> Any:
    return np.exp(x[0]) * np.exp(x[0]) + np.linalg.norm(x) + np.prod(x)


@pytest.mark.parametrize("function", [network, loop, repeated])
@pytest.mark.parametrize("jit", [calque.jit, lambda f: f])
def test_second_derivatives_are_those_of_the_hessian(function: Any, jit: Any) -> None:
    hessian = calque.hessian(function)(X)
    np.testing.assert_allclose(jit(calque.laplacian(function))(X), np.trace(hessian))
    np.testing.assert_allclose(jit(calque.hessian_diag(function))(X), np.diag(hessian))
    value, second = jit(calque.value_and_hessian(function))(X)
    np.testing.assert_allclose(value, function(X))
    np.testing.assert_allclose(second, hessian)


def test_second_derivatives_of_vectors() -> None:
    hessian = calque.hessian(layer)(X)
    np.testing.assert_allclose(calque.laplacian(layer)(X), np.trace(hessian, axis1=1, axis2=2))
    np.testing.assert_allclose(calque.hessian_diag(layer)(X), np.einsum("aii->ai", hessian))


def test_second_derivatives_of_trees_and_of_matrices() -> None:
    found = calque.hessian_diag(lambda p: np.sum(p["a"] ** 3) * p["b"] ** 2)({"a": X, "b": 2.0})
    np.testing.assert_allclose(found["a"], 24.0 * X)
    np.testing.assert_allclose(found["b"], 2.0 * np.sum(X**3))
    both = calque.laplacian(lambda a, b: np.sum(a**3) * b**2, argnums=("a", "b"))(X, 2.0)
    np.testing.assert_allclose(both, np.sum(24.0 * X) + 2.0 * np.sum(X**3))
    np.testing.assert_allclose(calque.hessian_diag(lambda m: np.sum(m**4))(W), 12.0 * W**2)


def test_numbers_constants_and_linear_functions() -> None:
    assert calque.laplacian(lambda x: x**3)(2.0) == 12.0
    assert calque.hessian_diag(lambda x: x**3)(2.0) == 12.0
    assert calque.hessian_diag(lambda x: 3.0)(2.0) == 0.0
    np.testing.assert_array_equal(calque.laplacian(lambda x: 3.0 * x)(X), np.zeros(3))


def test_auxiliary_output() -> None:
    found, aux = calque.laplacian(lambda x: (np.sum(x**3), {"twice": 2.0 * x}), has_aux=True)(X)
    np.testing.assert_allclose(found, 6.0 * X.sum())
    np.testing.assert_array_equal(aux["twice"], 2.0 * X)
    (value, aux), _ = calque.value_and_hessian(lambda x: (np.sum(x**3), x), has_aux=True)(X)
    assert value == np.sum(X**3)
    np.testing.assert_array_equal(aux, X)
    (value, aux), slopes = calque.value_and_jacobian(lambda x: (x**3, x), has_aux=True)(X)
    np.testing.assert_allclose(slopes, np.diag(3.0 * X**2))


def test_they_compose() -> None:
    batch = np.stack([X, 2.0 * X])
    each = [np.trace(calque.hessian(loop)(x)) for x in batch]
    np.testing.assert_allclose(calque.vmap(calque.laplacian(loop))(batch), each)
    slopes = calque.grad(calque.laplacian(network))(X)
    steps = [
        calque.laplacian(network)(X + 1e-5 * e) - calque.laplacian(network)(X - 1e-5 * e)
        for e in np.eye(3)
    ]
    np.testing.assert_allclose(slopes, np.array(steps) / 2e-5, rtol=1e-6)

    def within(x: Any) -> Any:
        return calque.laplacian(network)(x) + np.sum(calque.hessian_diag(network)(x))

    np.testing.assert_allclose(within(X), calque.jit(within)(X))


def test_a_laplacian_is_taken_without_a_reverse_sweep_or_a_hessian() -> None:
    text = calque.source(calque.laplacian(network), X)
    assert "reverse" not in text
    assert text.count("np.tanh") == 2  # each value once
    assert text.count("@") == 4  # the values and each derivative once, the unit vectors folded


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="laplacian"):
        calque.laplacian(lambda z: np.sum(z * z))(1j * X)


@pytest.mark.parametrize(
    ("function", "x", "mode"),
    [(layer, X, "forward"), (network, X, "reverse"), (lambda x: np.sin(x), X, "forward")],
)
def test_the_sizes_choose_the_mode_of_a_jacobian(function: Any, x: Any, mode: str) -> None:
    text = calque.source(calque.jacobian(function), x)
    assert ("# reverse" in text) == (mode == "reverse")
    np.testing.assert_allclose(calque.jacobian(function)(x), calque.jacrev(function)(x))
    value, slopes = calque.value_and_jacobian(function)(x)
    np.testing.assert_allclose(value, function(x))
    np.testing.assert_allclose(slopes, calque.jacfwd(function)(x))


def test_another_order_of_sizes_has_a_program_of_its_own() -> None:
    def projected(m: Any, x: Any) -> Any:
        return np.tanh(m @ x)

    made = calque.jacobian(projected, argnums="x")
    tall, wide = np.ones((5, 3)), np.ones((3, 5))
    np.testing.assert_allclose(made(tall, X), calque.jacrev(projected, 1)(tall, X))
    np.testing.assert_allclose(
        made(wide, np.ones(5)), calque.jacrev(projected, 1)(wide, np.ones(5))
    )
    assert str(made.cache_info()).startswith("2 generated")


@pytest.mark.parametrize(
    ("function", "derivatives"),
    [
        (np.sin, [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]),
        (np.exp, [np.exp] * 5),
        (lambda x: x**4, [lambda x, k=k: math.perm(4, k) * x ** (4 - k) for k in range(5)]),
        (
            lambda x: 1.0 / x,
            [lambda x, k=k: (-1) ** k * math.factorial(k) / x ** (k + 1) for k in range(5)],
        ),
    ],
)
def test_a_jet_along_a_line_has_the_derivatives(function: Any, derivatives: Any) -> None:
    value, terms = calque.jet(function, (0.7,), ((1.0, 0.0, 0.0, 0.0),))
    np.testing.assert_allclose([value, *terms], [d(0.7) for d in derivatives])


def test_a_jet_along_a_curve_is_as_nested_forward_mode() -> None:
    def product(x: Any, y: Any) -> Any:
        return np.exp(x) * y + np.sum(np.tanh(W @ x)) * y[0]

    y, series = X + 1.0, ((X, 2.0 * X, X * X), (X - 1.0, X + 2.0, 3.0 * X))
    value, terms = calque.jet(product, (X, y), series)

    def at(t: Any) -> Any:
        places = [
            p + t * a + t * t * b / 2.0 + t * t * t * c / 6.0
            for p, (a, b, c) in zip((X, y), series, strict=True)
        ]
        return product(*places)

    expected = at
    np.testing.assert_allclose(value, at(0.0))
    for term in terms:
        expected = calque.jacfwd(expected)
        np.testing.assert_allclose(term, expected(0.0), rtol=1e-10)


def test_a_jet_within_a_function_that_is_transformed() -> None:
    def third(t: Any) -> Any:
        return calque.jet(lambda u: {"a": u**5}, (t,), [[1.0, 0.0, 0.0]])[1][2]["a"]

    assert third(2.0) == 240.0
    assert calque.grad(third)(2.0) == 240.0
    assert calque.jit(third)(2.0) == 240.0


@pytest.mark.parametrize(
    ("primals", "series", "text"),
    [
        (1.0, ((1.0,),), "tuples or lists"),
        ((1.0,), (), "1 primals, and series for 0"),
        ((1.0,), (1.0,), "a tuple or a list of terms"),
        ((1.0,), ((),), "at least one"),
        ((X,), ((1.0,),), "tangent"),
        (((1.0, 2.0),), ((1.0,),), "another structure"),
    ],
)
def test_series_that_do_not_fit_are_refused(primals: Any, series: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        calque.jet(lambda *xs: xs, primals, series)


def test_forward_over_forward_passes_over_slopes_that_nothing_needs() -> None:
    """The slope of an incomplete gamma function by its shape, which has none of its own."""
    special = pytest.importorskip("scipy.special")
    shape, x = np.array([1.0, 2.5]), np.array([0.7, 1.9])

    def upper(x):
        return special.gammaincc(shape, x)

    def slope(x):
        return calque.jvp(upper, (x,), (np.ones(2),))[1]

    found = calque.jvp(slope, (x,), (np.ones(2),))[1]
    want = calque.vjp(lambda x: calque.vjp(upper, x)[1](np.ones(2))[0], x)[1](np.ones(2))[0]
    np.testing.assert_allclose(found, want, rtol=1e-12)
    step = 1e-6
    np.testing.assert_allclose(found, (slope(x + step) - slope(x - step)) / (2 * step), rtol=1e-6)
