"""``scipy.linalg`` under all its names: values are SciPy's, derivatives JAX's or those of differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
import scipy
import scipy.linalg
import scipy.linalg as la
import scipy.signal
import scipy.special
from scipy import linalg
from scipy import linalg as sla
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular, toeplitz

import calque
from calque.transpiler import errors
from calque.transpiler.frontend.calls import BUILTINS
from calque.transpiler.frontend.declared import DECLARED
from calque.transpiler.ir.builder import FUNCTIONS

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(3)
A = RNG.normal(size=(3, 3)) + 3.0 * np.eye(3)
S = A @ A.T + np.diag([1.0, 2.0, 4.0])
B, C = RNG.normal(size=3), RNG.normal(size=(3, 2))
TALL = RNG.normal(size=(4, 2))


def general(a, b):
    return np.sum(scipy.linalg.solve(a, b) ** 2)


def by_cholesky(a, b):
    c, low = cho_factor(a @ a.T)
    return b @ cho_solve((c, low), b) + 2.0 * np.sum(np.log(np.diag(c)))


def by_lower_cholesky(a, b):
    factor = la.cholesky(a @ a.T, lower=True)
    z = solve_triangular(factor, b, lower=True)
    return z @ z + np.sum(solve_triangular(factor, b, trans="T", lower=True, check_finite=False))


def upper_cholesky(a, b):
    factor = sla.cholesky(a @ a.T, overwrite_a=True)
    return np.sum(linalg.solve_triangular(factor, b, unit_diagonal=True) ** 2)


def by_lu(a, b):
    factors = linalg.lu_factor(a)
    return np.sum(linalg.lu_solve(factors, b) ** 2) + np.sum(linalg.lu_solve(factors, b, trans=1))


def inverse_and_determinant(a, b):
    return np.sum(linalg.inv(a) @ b) + linalg.det(a)


def eigenvalues(a, b):
    w, v = linalg.eigh(a @ a.T + np.diag(b))
    return np.sum(w**3) + np.sum((v * v)[0] * w) + linalg.eigvalsh(a @ a.T)[0]


def singular_values(a, b):
    u, s, vt = linalg.svd(a)
    return np.sum(s**2) + u[0, 0] * vt[0, 1] * b[0] + linalg.svd(a, compute_uv=False)[1]


def orthogonal(a, b):
    q, r = linalg.qr(a, mode="economic")
    return np.sum(q * np.sin(a)) + np.sum(r**2 @ b)


def exponential(a, b):
    return np.sum(linalg.expm(0.3 * a) @ b)


def put_together(a, b):
    whole = block_diag(a, b, 2.0)
    return np.sum(np.sin(whole)) + np.sum(toeplitz(b, a[0]) ** 2) + np.sum(toeplitz(b) ** 3)


def norms(a, b):
    return linalg.norm(a) + linalg.norm(b) + linalg.norm(a, 1) + np.sum(linalg.norm(a, axis=0) ** 3)


def pseudo_inverse(a, b):
    return np.sum(linalg.pinv(a) @ b)


PROGRAMS = [
    general,
    by_cholesky,
    by_lower_cholesky,
    upper_cholesky,
    by_lu,
    inverse_and_determinant,
    eigenvalues,
    singular_values,
    orthogonal,
    exponential,
    put_together,
    norms,
    pseudo_inverse,
]


def differences(function, args, argument, step=1e-6):
    found = np.zeros(args[argument].shape)
    for place in np.ndindex(found.shape):
        high, low = ([np.copy(a) for a in args] for _ in range(2))
        high[argument][place] += step
        low[argument][place] -= step
        found[place] = (function(*high) - function(*low)) / (2 * step)
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_value_and_derivatives(program):
    args, dots = (A, B), (C @ C.T, B * B)
    value, found = calque.value_and_grad(program, argnums=(0, 1))(*args)
    assert value == program(*args)
    for argument in range(2):
        want = differences(program, args, argument)
        np.testing.assert_allclose(found[argument], want, rtol=1e-6, atol=1e-7)
    pushed = calque.jvp(program, args, dots)[1]
    want = sum(np.sum(x_bar * x_dot) for x_bar, x_dot in zip(found, dots, strict=True))
    np.testing.assert_allclose(pushed, want, rtol=1e-10)


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_order(program):
    gradient = calque.grad(program)
    found = calque.jvp(lambda a: gradient(a, B), (A,), (C @ C.T,))[1]
    want = (gradient(A + 1e-6 * C @ C.T, B) - gradient(A - 1e-6 * C @ C.T, B)) / 2e-6
    np.testing.assert_allclose(found, want, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("program", PROGRAMS)
def test_vmap(program):
    many, others = np.stack([A, A + 0.1 * S, A.T]), np.stack([B, B + 0.2, -B])
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [x if axis == 0 else x[0] for x, axis in zip((many, others), axes, strict=True)]
        for function in (program, calque.grad(program)):
            found = calque.vmap(function, in_axes=axes)(*args)
            for k in range(3):
                one = [x[k] if axis == 0 else x for x, axis in zip(args, axes, strict=True)]
                np.testing.assert_allclose(found[k], function(*one), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradient_of_vmap(program):
    many = np.stack([A, A + 0.1 * S])
    found = calque.grad(lambda xs: np.sum(calque.vmap(program, in_axes=(0, None))(xs, B)))(many)
    for k in range(2):
        np.testing.assert_allclose(
            found[k], calque.grad(program)(many[k], B), rtol=1e-9, atol=1e-12
        )


JAX_PROGRAMS = {
    general: lambda a, b: jnp.sum(jsl.solve(a, b) ** 2),
    by_cholesky: lambda a, b: (
        b @ jsl.cho_solve(jsl.cho_factor(a @ a.T), b)
        + 2.0 * jnp.sum(jnp.log(jnp.diag(jsl.cholesky(a @ a.T))))
    ),
}


@pytest.mark.parametrize("program", JAX_PROGRAMS)
def test_gradients_are_jaxs(program):
    wanted = jax.jit(jax.grad(JAX_PROGRAMS[program], (0, 1)))(A, B)
    for argument in range(2):
        np.testing.assert_allclose(calque.grad(program, argument)(A, B), wanted[argument], rtol=1e-9)


# one triangle


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda a, lower: np.sum(linalg.cholesky(a, lower=lower) ** 3),
        lambda a, lower: np.sum(cho_factor(a, lower)[0] ** 3),
        lambda a, lower: np.sum(linalg.eigh(a, lower=lower)[0] ** 3),
        lambda a, lower: np.sum(linalg.eigh(a, lower=lower, eigvals_only=True) ** 3),
        lambda a, lower: np.sum(linalg.eigvalsh(a, lower=lower, subset_by_index=[1, 2]) ** 3),
        lambda a, lower: np.sum(linalg.solve(a, B, assume_a="pos", lower=lower) ** 3),
        lambda a, lower: np.sum(linalg.solve(a, C, assume_a="sym", lower=lower) ** 3),
        lambda a, lower: np.sum(linalg.solve(a, B, lower, transposed=True, assume_a="sym") ** 3),
        lambda a, lower: np.sum(linalg.solve(a, B, lower=lower, assume_a="gen") ** 3),
        lambda a, lower: np.sum(cho_solve((a, lower), B) ** 3),
        lambda a, lower: np.sum(linalg.eigh(S, a + 9.0 * np.eye(3), lower=lower)[0] ** 3),
        lambda a, lower: np.sum(linalg.eigh(a, S, lower=lower)[1] ** 3),
    ],
)
def test_the_derivative_is_that_of_the_entries_that_are_read(function, lower):
    """Of a matrix that is not symmetric each entry has its own; the others have none."""
    a = S + np.array([[0.0, 0.3, -0.2], [0.1, 0.0, 0.4], [-0.3, 0.2, 0.0]])
    want = differences(lambda a: function(a, lower), (a,), 0)
    for gradient in (calque.grad, calque.jacfwd):
        found = gradient(lambda a: function(a, lower))(a)
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-7)


def test_by_a_symmetric_argument_the_gradient_is_symmetric():
    found = calque.grad(lambda a: np.sum(linalg.cholesky(a) ** 2 * A))(S)
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    want = differences(
        lambda t: np.sum(linalg.cholesky(S + t * (C @ C.T)) ** 2 * A), (np.zeros(()),), 0
    )
    np.testing.assert_allclose(np.sum(found * (C @ C.T)), want, rtol=1e-7)


# dtypes, options, what is not finite


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: linalg.solve(a, b),
        lambda a, b: linalg.inv(a),
        lambda a, b: linalg.cholesky(a @ a.T),
        lambda a, b: linalg.lu_factor(a)[0],
        lambda a, b: cho_solve(cho_factor(a @ a.T), b),
        lambda a, b: linalg.expm(a),
        lambda a, b: linalg.qr(a)[0],
        lambda a, b: linalg.svd(a)[1],
        lambda a, b: linalg.eigh(a @ a.T)[0],
        lambda a, b: linalg.det(a),
        lambda a, b: linalg.norm(b),
        lambda a, b: linalg.norm(a),
        lambda a, b: linalg.pinv(a),
        lambda a, b: block_diag(a, np.eye(2, dtype="f4")),
        lambda a, b: toeplitz(b),
    ],
)
@pytest.mark.filterwarnings("ignore:.*dtype=float16:DeprecationWarning")  # SciPy 1.18
def test_float32_and_integers(function):
    for dtype in ("f4", "f2", "i8"):
        a, b = np.rint(4 * A).astype(dtype), np.rint(4 * B).astype(dtype)
        if dtype == "f2" and np.asarray(function(a, b)).dtype.kind != "f":
            continue
        want = np.asarray(function(a, b))
        found = calque.vmap(lambda a, b: function(a, b), in_axes=None, axis_size=1)(a, b)[0]
        np.testing.assert_allclose(found, want, rtol=1e-5 if dtype != "i8" else 1e-12, atol=1e-4)
        assert np.asarray(found).dtype == want.dtype
    single = calque.grad(lambda a: np.sum(function(a, B.astype("f4"))))(A.astype("f4"))
    assert single.dtype == np.float32
    double = calque.grad(lambda a: np.sum(function(a, B)))(A)
    np.testing.assert_allclose(single, double, rtol=1e-3, atol=2e-3 * np.max(np.abs(double)))


COMPLEX = [
    (lambda a, b: linalg.solve(a, b), lambda a, b: jnp.linalg.solve(a, b)),
    (lambda a, b: linalg.inv(a) @ b, lambda a, b: jnp.linalg.inv(a) @ b),
    (lambda a, b: linalg.det(a) * b, lambda a, b: jnp.linalg.det(a) * b),
    (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), lambda a, b: jnp.linalg.solve(a, b)),
    (
        lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, trans=2),
        lambda a, b: jnp.linalg.solve(jnp.conj(a.T), b),
    ),
    (
        lambda a, b: solve_triangular(a, b, trans="C", lower=True),
        lambda a, b: jsl.solve_triangular(a, b, trans="C", lower=True),
    ),
]


@pytest.mark.parametrize(("function", "like"), COMPLEX)
def test_complex(function, like):
    a, b = A + 1j * A.T, B + 0.5j
    found = calque.grad(lambda a, b: np.sum(np.abs(function(a, b)) ** 2), argnums=(0, 1))(a, b)
    want = jax.jit(jax.grad(lambda a, b: jnp.sum(jnp.abs(like(a, b)) ** 2), argnums=(0, 1)))(a, b)
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_of_complex_matrices_the_exponential():
    """Its series, term by term, is differentiated without a rule for it."""

    def series(a):
        total = term = np.eye(3) + 0j
        for k in range(1, 30):
            term = term @ a / k
            total = total + term
        return np.sum(np.abs(total) ** 2)

    a = 0.2 * (A + 1j * A.T)
    found = calque.grad(lambda a: np.sum(np.abs(linalg.expm(a)) ** 2))(a)
    np.testing.assert_allclose(found, calque.grad(series)(a), rtol=1e-10)


NOT_FINITE = [
    lambda a: np.sum(linalg.solve(a, B)),
    lambda a: np.sum(cho_factor(a)[0]),
    lambda a: np.sum(linalg.cholesky(a)),
    lambda a: np.sum(solve_triangular(a, B)),
    lambda a: linalg.det(a),
    lambda a: np.sum(linalg.inv(a)),
    lambda a: np.sum(linalg.svd(a)[1]),
    lambda a: linalg.norm(a),
]


@pytest.mark.parametrize("function", NOT_FINITE)
def test_what_is_not_finite_is_refused_as_scipy_does(function):
    bad = S.copy()
    bad[0, 0] = np.nan
    for way in (calque.value_and_grad, calque.jit):
        with pytest.raises(ValueError, match="must not contain infs or NaNs"):
            way(function)(bad)
    if function is not NOT_FINITE[-1]:
        with pytest.raises(ValueError, match="must not contain infs or NaNs"):
            calque.vmap(function)(np.stack([S, bad]))


def test_unless_it_is_told_not_to_look():
    def total(b):
        return np.sum(linalg.solve(S, b, check_finite=False)[:1])

    bad = np.array([1.0, np.nan, 2.0])
    assert np.isnan(calque.value_and_grad(total)(bad)[0])
    assert np.isnan(calque.vmap(total)(np.stack([B, bad]))[1])


REFUSED = {
    "assume_a='banded'": lambda a: linalg.solve(a, B, assume_a="banded"),
    "assume_a='pos'": lambda a: linalg.inv(a, assume_a="pos"),
    "subset_by_value": lambda a: linalg.eigh(a, subset_by_value=(0.0, 1.0)),
    "subset_by_index": lambda a: linalg.eigh(a, subset_by_index=(0, 1)),
    "type=2": lambda a: linalg.eigh(a, S, type=2),
    "pivoting=True": lambda a: linalg.qr(a, pivoting=True),
    "mode='raw'": lambda a: linalg.qr(a, mode="raw"),
    "return_rank=True": lambda a: linalg.pinv(a, return_rank=True),
}


@pytest.mark.parametrize("option", REFUSED)
def test_options_without_a_rule_are_refused_by_name(option):
    with pytest.raises(errors.UnsupportedFunction) as caught:
        calque.jit(REFUSED[option])(S)
    assert option in caught.value.message
    assert "lambda a: linalg." in caught.value.origin.text


def test_full_factors():
    """Square and wide ones are determined; of tall ones only the triangular factor is."""
    q, r = calque.jit(lambda a: linalg.qr(a))(TALL)
    np.testing.assert_allclose(q @ r, TALL, atol=1e-13)
    assert q.shape == (4, 4) and r.shape == (4, 2)
    for a in (A, TALL, TALL.T):
        (found,) = calque.jit(lambda a: linalg.qr(a, mode="r"))(a)
        np.testing.assert_allclose(found, linalg.qr(a, mode="r")[0], atol=1e-13)
    factor = lambda a: np.sum(linalg.qr(a, mode="r")[0] ** 3)
    np.testing.assert_allclose(
        calque.grad(factor)(TALL), differences(factor, (TALL,), 0), rtol=1e-6
    )
    with pytest.raises(errors.NotDifferentiable, match="mode='economic'"):
        calque.grad(lambda a: np.sum(linalg.qr(a)[0]))(TALL)


# compiled


def in_a_loop(stack, others):
    total = 0.0
    for k in range(stack.shape[0]):
        m = stack[k] @ stack[k].T + 3.0 * np.eye(3)
        x = cho_solve(cho_factor(m), others[k])
        y = solve_triangular(linalg.cholesky(m, lower=True), others[k], lower=True)
        total = total + x @ x + y @ y + linalg.det(m) + np.sum(linalg.inv(m))
        total = total + np.sum(linalg.solve(m, others[k], assume_a="pos") ** 3) + linalg.norm(x)
    return total


def solved_in_a_loop(stack, others):
    total = 0.0
    for k in range(stack.shape[0]):
        total = total + np.sum(cho_solve(cho_factor(stack[k]), others[k]) ** 2)
    return total


@pytest.mark.parametrize("way", ["value", "gradient"])
def test_small_ones_in_loops_are_in_the_kernel(way):
    others = RNG.normal(size=(4, 3))
    stack = S + np.arange(4.0)[:, None, None] * np.eye(3)
    function = in_a_loop if way == "value" else calque.grad(solved_in_a_loop)
    compiled = calque.jit(function)
    np.testing.assert_allclose(compiled(stack, others), function(stack, others), rtol=1e-10)
    text = calque.source(compiled, stack, others)
    assert "for k in range" in text.partition("(stack, others):")[0]
    stack[2, 0, 0] = np.inf
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        compiled(stack, others)


def distances(rows, place):
    total = 0.0
    for k in range(rows.shape[0]):
        total = total + linalg.norm(rows[k] - place) + linalg.norm(rows[k], 1, check_finite=False)
    return total


def test_norms_in_loops_are_in_the_kernel():
    rows, compiled = RNG.normal(size=(5, 4)), calque.jit(distances)
    np.testing.assert_allclose(compiled(rows, 1.0), distances(rows, 1.0), rtol=1e-13)
    assert (
        "linalg.norm(" not in calque.source(compiled, rows, 1.0).partition("def distances_jit")[2]
    )
    rows[3, 2] = np.inf
    with pytest.raises(ValueError, match="must not contain infs or NaNs"):
        compiled(rows, 1.0)


def test_elsewhere_jit_calls_scipy():
    compiled = calque.jit(calque.grad(by_cholesky))
    np.testing.assert_allclose(compiled(A, B), calque.grad(by_cholesky)(A, B), rtol=1e-11)
    text = calque.source(compiled, A, B)
    assert "linalg.cho_solve((c, False), b)" in text


def test_generated_source():
    text = calque.source(calque.grad(lambda a: np.sum(linalg.expm(a) ** 2)), A)
    assert "a_bar = linalg.expm_frechet(a.T, 2.0 * linalg.expm(a), compute_expm=False)" in text


def test_saved_modules_import_what_they_call(tmp_path):
    path = tmp_path / "saved.py"
    calque.save(calque.grad(general), path, A, B)
    assert "from scipy import linalg\n" in path.read_text()
    namespace: dict[str, Any] = {}
    exec(path.read_text(), namespace)
    np.testing.assert_array_equal(namespace["general_grad"](A, B), calque.grad(general)(A, B))


# what is missing

MISSING = {
    "scipy.linalg.ldl": (lambda a: sla.ldl(a), "write it in NumPy"),
    "scipy.linalg.qz": (lambda a: scipy.linalg.qz(a, a)[0], "write it in NumPy"),
    "scipy.signal.find_peaks": (lambda a: scipy.signal.find_peaks(a[0])[0], "write it in NumPy"),
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_named_with_what_would_admit_it(name):
    function, write = MISSING[name]
    with pytest.raises(errors.UnsupportedFunction) as caught:
        calque.grad(lambda a: np.sum(function(a)))(A)
    assert caught.value.message == f"{name} has no rule, and the code of SciPy is not entered."
    assert caught.value.hint == (
        f"{write}, or give its derivative: calque.opaque({name}, result=..., jvp=..., vjp=...)"
    )


def test_arguments_that_do_not_fit():
    with pytest.raises(TypeError, match=r"scipy.linalg.solve\(\) got an unexpected keyword"):
        calque.grad(lambda b: np.sum(linalg.solve(S, b, anything=1)))(B)
    with pytest.raises(errors.ShapeError, match="1-dimensional array given, a matrix wanted"):
        calque.grad(lambda b: np.sum(linalg.cholesky(b)))(B)


def test_a_ufunc_of_scipy_is_declared_by_itself(monkeypatch):
    for table in (FUNCTIONS, BUILTINS, DECLARED):  # for this test only
        monkeypatch.setitem(table, scipy.special.itj0y0, None)
    calque.opaque(
        scipy.special.itj0y0,
        result=lambda x: (x, x),
        vjp=lambda bars, y, x: bars[0] * scipy.special.j0(x),
    )
    found = calque.grad(lambda x: scipy.special.itj0y0(x)[0])(0.4)
    np.testing.assert_allclose(found, scipy.special.j0(0.4), rtol=1e-14)


def test_arguments_may_be_called_as_the_module_is():
    def product(linalg, special):
        return np.sum(sla.solve(linalg, special) ** 2)

    for way in (calque.grad, lambda f: calque.jit(calque.grad(f))):
        np.testing.assert_allclose(way(product)(A, B), calque.grad(general)(A, B), rtol=1e-13)
