"""Linear algebra: values bit-identical to NumPy's, derivatives by dot products and differences."""

import numpy as np
import pytest
from array_tracing import dot_product_test, run, same_as_numpy, sampled

import calque
from calque.transpiler import primitives as P
from calque.transpiler.errors import SpecializationNeeded, UnsupportedFunction

CALLS = sampled([P.linalg, P.decompositions, P.eigenvalues, P.norms])
# these read one triangle, and have the derivative for symmetric matrices
SYMMETRIC = ("np.linalg.cholesky", "np.linalg.eigh", "np.linalg.eigvalsh")


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("call", range(len(CALLS)), ids=[c[0].name for c in CALLS])
def test_sampled(call, symbolic):
    primitive, args, params = CALLS[call]
    if primitive.vjp is None:
        return
    rng = np.random.default_rng(1)
    try:
        dot_product_test(primitive, args, params, rng, symbolic, primitive.name in SYMMETRIC)
    except SpecializationNeeded:
        assert symbolic


@pytest.mark.parametrize(
    "name", ["np.linalg.qr", "np.linalg.svd", "np.linalg.eigh", "np.linalg.eig", "np.linalg.lstsq"]
)
@pytest.mark.parametrize("which", [0, 1])
def test_one_cotangent_alone(name, which):
    for primitive, args, params in CALLS:
        if primitive.name == name:
            symmetric = name in SYMMETRIC
            rng = np.random.default_rng(2)
            dot_product_test(primitive, args, params, rng, symmetric=symmetric, wrt=(which,))


S = np.array([[4.0, 1.0, 0.5], [1.0, 5.0, 0.2], [0.5, 0.2, 6.0]])
PROGRAMS = [
    lambda a: np.linalg.inv(a),
    lambda a: np.linalg.qr(a).Q,
    lambda a: np.linalg.qr(a, mode="r"),
    lambda a: np.linalg.eigh(a).eigenvalues,
    lambda a: np.linalg.svd(a, full_matrices=False).Vh,
    lambda a: np.linalg.svd(a[:, :2], compute_uv=False),
    lambda a: np.linalg.slogdet(a).logabsdet,
    lambda a: np.linalg.cholesky(a, upper=True),
    lambda a: np.linalg.matrix_power(a, 7),
    lambda a: np.linalg.matrix_power(a, -2),
    lambda a: np.linalg.matrix_power(a, 3),
    lambda a: np.linalg.matrix_power(a, 0),
    lambda a: np.linalg.multi_dot([a, a, a[:, 0]]),
    lambda a: np.linalg.matrix_rank(a),
    lambda a: np.linalg.cond(a),
    lambda a: np.linalg.cond(a, 1),
    lambda a: np.linalg.norm(a, 0, axis=1),
    lambda a: np.linalg.norm(a, axis=0, keepdims=True),
    lambda a: np.linalg.lstsq(a[:, :2], a[:, 2], rcond=None)[0],
    lambda a: np.linalg.solve(a, a[:, 0]),
    lambda a: np.linalg.pinv(a[:, :2]),
    lambda a: np.linalg.vector_norm(a),
    lambda a: np.linalg.matrix_norm(a, ord="nuc"),
]


@pytest.mark.parametrize("k", range(len(PROGRAMS)))
def test_program(k):
    same_as_numpy(PROGRAMS[k], S)


def test_float32_stays():
    def f(a):
        return np.linalg.inv(a), np.linalg.norm(a), np.linalg.svd(a).S, np.linalg.det(a)

    same_as_numpy(f, S.astype(np.float32))


def test_all_columns_of_svd():
    same_as_numpy(lambda a: tuple(np.linalg.svd(a[:, :2])), S)


def test_refusals():
    with pytest.raises(UnsupportedFunction):
        run(lambda a: np.linalg.qr(a, mode="complete"), S)


@pytest.mark.parametrize("ord", [None, 1, 2, np.inf, 3])
@pytest.mark.parametrize("x", [[0.0, 0.0], [3.0, 0.0], [2.0, -2.0], [1.0, -2.0]], ids=str)
def test_norm_at_kinks_is_jax_but_for_the_zero_vector(ord, x):
    jax = pytest.importorskip("jax")
    from array_tracing import differentiate

    jax.config.update("jax_enable_x64", True)
    x = np.array(x)
    expected = jax.grad(lambda v: jax.numpy.linalg.norm(v, ord))(x)
    params = {"ord": ord, "axis": None, "keepdims": False}
    with np.errstate(all="ignore"):
        _, _, (found,) = differentiate(P.norms.norm, (x,), params, (x,), (np.array(1.0),), False)
    if ord == np.inf and not x.any():
        expected = 2.0 * expected  # JAX's maximum starts at 0, and shares the gradient with it
    if ord != 1 and ord != np.inf and not x.any():
        expected = np.zeros(2)  # JAX has NaN, PyTorch the subgradient of least norm
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.sum(np.linalg.cholesky(a) ** 3),
        lambda a: np.linalg.eigvalsh(a)[0],
        lambda a: np.sum(np.linalg.eigh(a)[1][:, 0] ** 3),
    ],
)
def test_gradients_by_symmetric_matrices_are_symmetric(function):
    """Each of two mirrored entries gets half of the slope, as in JAX, whichever one NumPy reads."""
    slope = calque.grad(function)(S)
    assert np.abs(np.tril(slope, -1)).max() > 1e-6
    np.testing.assert_allclose(slope, slope.T, rtol=1e-12)


def spectral_radius(a, xp=np):
    return xp.max(xp.abs(xp.linalg.eigvals(a)))


def of_the_vectors(a):
    w, v = np.linalg.eig(a)
    squares = v * v  # LAPACK leaves the sign open
    return (
        np.sum(np.real(squares * (1.0 + 0.5j)) * w.real) + np.sum(squares.imag**3) + np.sum(abs(w))
    )


def test_eigenvalues_of_any_matrix_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(3)
    for a in (rng.standard_normal((4, 4)), rng.standard_normal((3, 3)) * (1.0 + 2.0j) + 1.0j):
        expected = jax.grad(lambda a: spectral_radius(a, jax.numpy))(a)
        np.testing.assert_allclose(
            calque.grad(spectral_radius)(a), expected, rtol=1e-11, atol=1e-12
        )
    assert calque.jit(np.linalg.eigvals)(np.eye(2)).dtype == np.complex128


def test_eigenvectors_as_lapack_scales_them() -> None:
    rng, h = np.random.default_rng(4), 1e-6
    many = rng.standard_normal((3, 4, 4))
    steps = h * np.eye(16).reshape(16, 4, 4)
    slopes = [
        [(of_the_vectors(a + s) - of_the_vectors(a - s)) / (2 * h) for s in steps] for a in many
    ]
    found = calque.vmap(calque.grad(of_the_vectors))(many)
    np.testing.assert_allclose(found.reshape(3, 16), slopes, rtol=1e-5, atol=1e-6)
    way = rng.standard_normal((4, 4))
    tangent = calque.jvp(of_the_vectors, (many[0],), (way,))[1]
    np.testing.assert_allclose(tangent, np.sum(found[0] * way), rtol=1e-9)


def test_the_diagonal_of_a_factor_whose_size_is_the_smaller_of_two() -> None:
    def positive(a):
        q, r = np.linalg.qr(a)
        return q * np.sign(np.diag(r)), np.diag(r) ** 2

    a = np.random.default_rng(5).standard_normal((4, 3))
    for found, expected in zip(calque.jit(positive)(a), positive(a), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    found = calque.grad(lambda a: np.sum(np.log(positive(a)[1])))(a)
    np.testing.assert_allclose(found, 2.0 * np.linalg.pinv(a).T, rtol=1e-10)


@pytest.mark.parametrize("order", [1, -1, np.inf, -np.inf])
def test_norms_of_sums_that_kernels_add_in_another_order(order: float) -> None:
    rng = np.random.default_rng(6)

    def norms(a):
        return np.sum(np.linalg.norm(np.stack([a, np.sin(a)]), order, axis=(1, 2)))

    compiled = calque.jit(calque.grad(norms))
    for shape in ((9, 7), (23, 18), (16, 40)):
        a = rng.standard_normal(shape)
        np.testing.assert_allclose(compiled(a), calque.grad(norms)(a), rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_eigenvalues_of_a_defective_matrix(size):
    """Single eigenvalues have no derivative there; their sum, the trace, has."""
    a = np.eye(size, k=1)  # its vectors are one, exactly: what is solved with them is singular
    found = calque.grad(lambda a: np.sum(np.linalg.eigvals(a).real))(a + 2.0 * np.eye(size))
    np.testing.assert_allclose(found, np.eye(size), atol=1e-12)
    calque.grad(lambda a: np.sum(np.linalg.eigvals(a).real))(a)
    tangent = calque.jvp(np.linalg.eigvals, (a,), (np.ones_like(a),))[1]
    assert not np.isfinite(tangent).all() or np.abs(tangent).max() > 1e10


def test_eigenvalues_that_coincide():
    a, direction = np.diag([1.0, 1.0, 2.0]), np.diag([0.5, 0.25, -1.0])
    tangent = calque.jvp(np.linalg.eigvals, (a,), (direction,))[1]
    np.testing.assert_allclose(tangent, [0.5, 0.25, -1.0])
    squares = calque.grad(lambda a: np.sum(np.linalg.eigvals(a).real ** 2))(a)
    np.testing.assert_allclose(squares, 2.0 * a.T)  # of the trace of a @ a


@pytest.mark.parametrize("product", [np.dot, np.matmul])
def test_the_cotangent_of_a_transposed_factor_is_its_own_product(product):
    def right(x, w):
        return np.sum(np.sin(product(x, w.T)))

    def left(x, w):
        return np.sum(np.cos(product(w.T, x.T)))

    x, w = np.cos(np.arange(12.0)).reshape(4, 3), np.sin(np.arange(15.0)).reshape(5, 3) + 0.2
    for f, other in ((right, w), (left, w.T.copy())):
        gradient = calque.grad(f, argnums=(0, 1))
        text = calque.source(gradient, x, other)
        assert "transposed_bar" not in text and ".T.T" not in text
        step = np.sin(np.arange(15.0)).reshape(other.shape)
        expected = (f(x, other + 1e-6 * step) - f(x, other - 1e-6 * step)) / 2e-6
        for form in (gradient, calque.jit(gradient)):
            np.testing.assert_allclose(np.sum(form(x, other)[1] * step), expected, rtol=1e-8)
