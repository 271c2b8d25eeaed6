"""``calque.sparse``: matrices equal dense ones, by functions, arguments and results of all kinds."""

from __future__ import annotations

import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from sampling import sampled
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from sparse_programs import PROGRAMS, brusselator, dense, points, stencil
from test_battery import ACCEPTED, of_moving

import calque
from calque import sparse
from calque.transpiler.errors import NotDifferentiable, SparsityUndecided, WrongDerivative


@pytest.mark.parametrize("mode", ["forward", "reverse", None])
@pytest.mark.parametrize("name", PROGRAMS)
def test_jacobians_equal_dense_ones(name: str, mode: str | None) -> None:
    f, size = PROGRAMS[name]
    first, *others = points(size)
    jac = sparse.jacobian(f, first, mode=mode)
    for x in (first, *others):
        found = jac(x)
        np.testing.assert_allclose(found.toarray(), dense(f, x), rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(found.indices, jac.sparsity.indices)
    assert jac.coloring.mode == mode or mode is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_hessians_equal_dense_ones(name: str) -> None:
    f, size = PROGRAMS[name]

    def loss(x):
        leaves = calque.tree_leaves(f(x))
        return sum([np.sum(leaf**2 * np.cos(leaf)) for leaf in leaves])

    first, other, _ = points(size)
    found = sparse.hessian(loss, first)
    for x in (first, other):
        matrix = found(x)
        wanted = calque.hessian(loss)(x)
        np.testing.assert_allclose(matrix.toarray(), wanted, rtol=1e-9, atol=1e-10)


EXACT = {
    "stencil": 14,
    "branches": 12,
    "gathered": 8,
    "product": 10,
    "joined": 9,
    "total": 5,
    "nested": 5,
    "solved": 12,
}


@pytest.mark.parametrize("name", EXACT)
def test_patterns_are_as_small_as_they_can_be(name: str) -> None:
    f, size = PROGRAMS[name]
    pattern = sparse.jacobian_sparsity(f, points(size)[0])
    assert pattern.nnz == EXACT[name]


@pytest.mark.parametrize("program", sampled(ACCEPTED, 12), ids=lambda program: program.id)
def test_hessians_of_the_battery_are_in_their_patterns(program: Any) -> None:
    f = of_moving(program, program.scalar())
    args = [program.fresh()[k] for k in program.diff]
    leaves = calque.tree_leaves(args)
    if sum(np.size(leaf) for leaf in leaves) > 60 or any(np.iscomplexobj(leaf) for leaf in leaves):
        return
    numbers = tuple(range(len(args)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.DenseBlockWarning)
        try:
            found = sparse.hessian(f, *args, argnums=numbers)
        except SparsityUndecided:
            return
    matrix = found(*args).toarray()
    flat, unravel = calque.ravel_pytree(tuple(args))
    columns = [
        calque.ravel_pytree(calque.hvp(f, tuple(args), unravel(e)))[0] for e in np.eye(len(flat))
    ]
    np.testing.assert_allclose(matrix, np.stack(columns), rtol=1e-7, atol=1e-8)


# beside the rest of calque


def test_matrices_are_checked() -> None:
    x = points(6)[0]
    report = calque.check(sparse.jacobian(stencil, x), x)
    assert report.agrees and len(report.rows) == 1
    wrong = sparse.jacobian(stencil, x, sparsity=np.eye(6))
    with pytest.raises(WrongDerivative):
        calque.check(wrong, x)


def test_the_program_is_shown() -> None:
    x = points(6)[0]
    jac = sparse.jacobian(stencil, x)
    text = calque.source(jac, x, stage="numpy")
    assert "def stencil_entries" in text and "[places]" in text
    assert "@kernel" in calque.source(jac, x)


# arguments and results


class Fit(NamedTuple):
    rate: float
    shape: Any


def residuals(fit, t, scale):
    return scale * fit.shape[0] * np.exp(-fit.rate * t) + fit.shape[1]


def test_structures_and_several_arguments() -> None:
    fit, t = Fit(0.5, np.array([2.0, 1.0])), np.linspace(0.0, 1.0, 4)
    jac = sparse.jacobian(residuals, fit, t, 3.0, argnums=(0, 2))
    tree = calque.jacfwd(residuals, argnums=(0, 2))(fit, t, 3.0)
    wanted = np.column_stack([tree[0].rate, tree[0].shape, tree[1]])
    np.testing.assert_allclose(jac(fit, t, 3.0).toarray(), wanted, rtol=1e-13)
    assert jac.sparsity.nnz == 4 * 3 + 4  # the second of shape only adds


def test_values_and_aux() -> None:
    x = np.array([0.3, 0.7, 0.9])

    def with_aux(x):
        return x[1:] * x[:-1], {"sum": np.sum(x)}

    def loss(x):
        return np.sum(x**3), x[0]

    matrix, aux = sparse.jacobian(with_aux, x, has_aux=True)(x)
    assert aux["sum"] == np.sum(x) and matrix.nnz == 4
    (value, aux), matrix = sparse.value_and_jacobian(with_aux, x, has_aux=True)(x)
    np.testing.assert_array_equal(value, x[1:] * x[:-1])
    value, matrix = sparse.value_and_jacobian(stencil, x)(x)
    np.testing.assert_array_equal(value, stencil(x))
    value, matrix = sparse.value_and_hessian(lambda x: np.sum(x**3), x)(x)
    assert value == np.sum(x**3)
    np.testing.assert_allclose(matrix.toarray(), np.diag(6.0 * x))
    matrix, aux = sparse.hessian(loss, x, has_aux=True)(x)
    assert aux == x[0]
    (value, aux), matrix = sparse.value_and_hessian(loss, x, has_aux=True)(x)
    assert (value, aux) == (np.sum(x**3), x[0])


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dense"])
def test_formats(format: str) -> None:
    x = np.ones(4)
    found = sparse.jacobian(stencil, x, format=format)(x)
    if format != "dense":
        assert found.format == format
        found = found.toarray()
    np.testing.assert_allclose(found, dense(stencil, x))


def test_chunks() -> None:
    x = points(50)[0]
    whole, parts = sparse.jacobian(brusselator, x), sparse.jacobian(brusselator, x, chunk_size=2)
    np.testing.assert_allclose(parts(x).data, whole(x).data, rtol=1e-14)


def test_single_precision_stays() -> None:
    x = np.linspace(0.1, 1.0, 5, dtype=np.float32)
    assert sparse.jacobian(stencil, x)(x).dtype == np.float32


def test_a_known_pattern_is_used() -> None:
    x = np.ones(5)
    jac = sparse.jacobian(stencil, x, sparsity=np.ones((5, 5)))
    assert jac.sparsity.nnz == 25 and jac.coloring.num_colors == 5
    np.testing.assert_allclose(jac(x).toarray(), dense(stencil, x))


# rules of the user's, other kinds of arguments and results


@calque.custom_jvp
def rounded(x):
    return np.round(x)


@rounded.defjvp
def _(primals, tangents):
    return rounded(primals[0]), tangents[0]


@calque.custom_jvp
def spread(x):
    return x * 1.0


@spread.defjvp
def _(primals, tangents):
    return spread(primals[0]), np.cumsum(tangents[0])


@calque.custom_vjp
def clipped(x):
    return np.clip(x, -0.5, 0.5)


clipped.defvjp(lambda x: (clipped(x), None), lambda _, bar: (bar[::-1],))


@pytest.mark.parametrize(
    ("f", "wanted", "mode"),
    [
        (rounded, np.eye(3), "forward"),
        (spread, np.tril(np.ones((3, 3))), None),
        (clipped, np.eye(3)[::-1], "reverse"),
    ],
    ids=["rounded", "spread", "clipped"],
)
def test_rules_of_the_user_decide_the_pattern(f: Any, wanted: Any, mode: str | None) -> None:
    x = np.array([0.2, 0.7, -0.4])
    jac = sparse.jacobian(lambda x: f(x), x)
    np.testing.assert_array_equal(jac(x).toarray(), wanted)
    assert jac.sparsity.nnz == np.count_nonzero(wanted)
    assert mode in (None, jac.coloring.mode)


def test_forward_mode_is_refused_where_there_is_none() -> None:
    x = np.array([0.2, 0.7, -0.4])
    jac = sparse.jacobian(lambda x: clipped(x), x, mode="forward")
    with pytest.raises(NotDifferentiable):
        jac(x)


def test_arguments_that_are_no_numbers() -> None:
    def f(x, how, g, *, none=None):
        return g(x) if how == "whole" else g(x[:2])

    x = np.array([0.1, 0.2, 0.3])
    jac = sparse.jacobian(f, x, "whole", np.sin)
    np.testing.assert_allclose(jac(x, "whole", np.sin).toarray(), np.diag(np.cos(x)))
    np.testing.assert_allclose(jac(x, "half", np.cos).toarray(), -np.diag(np.sin(x))[:2])


def test_complex_results_take_forward_mode() -> None:
    x = np.array([1.0, 2.0])
    jac = sparse.jacobian(lambda x: np.sum(x * 1j) + x[0], x)
    np.testing.assert_array_equal(jac(x).toarray(), [[1.0 + 1j, 1j]])
    with pytest.raises(NotDifferentiable, match="has no Jacobian in reverse mode"):
        sparse.jacobian(lambda x: x * 1j, x, mode="reverse")
    with pytest.raises(NotDifferentiable, match="an argument is complex"):
        sparse.jacobian(lambda z: np.abs(z) ** 2, x * 1j)


def test_sorts_and_medians_are_dense_where_they_mix() -> None:
    x = np.array([[3.0, 1.0, 2.0], [0.5, 0.1, 0.9]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.DenseBlockWarning)
        jac = sparse.jacobian(lambda x: np.sort(x, axis=1) + np.median(x, axis=1)[:, None], x)
    assert jac.sparsity.nnz == 18
    wanted = calque.jacfwd(lambda x: np.sort(x, axis=1) + np.median(x, axis=1)[:, None])(x)
    np.testing.assert_allclose(jac(x).toarray(), wanted.reshape(6, 6))


def test_a_value_of_another_size_at_run_time_is_an_error() -> None:
    def positive(x):
        return x[x > 0.0] ** 2

    x = np.array([1.0, 2.0, -1.0])
    jac = sparse.jacobian(positive, x, sparsity=np.eye(2, 3))
    np.testing.assert_array_equal(jac(x).toarray(), np.diag(2.0 * x)[:2])
    with pytest.raises(ValueError, match="reshape"):
        jac(np.abs(x))


def test_patterns_serve_the_differences_of_scipy() -> None:
    def falling(t, u):
        v = np.zeros_like(u)
        v[1:-1] = u[2:] - 2.0 * u[1:-1] + u[:-2]
        return 4.0 * v - u**3

    u = np.linspace(0.5, 1.0, 40)
    pattern = sparse.jacobian_sparsity(falling, 0.0, u, argnums=1).to_scipy()
    calls: dict[str, int] = {}

    def counted(name: str) -> Any:
        def f(t, u):
            calls[name] = calls.get(name, 0) + 1
            return falling(t, u)

        return f

    ends = [
        solve_ivp(counted(name), (0.0, 1.0), u, method="BDF", rtol=1e-8, atol=1e-10, **given).y
        for name, given in {"dense": {}, "sparse": {"jac_sparsity": pattern}}.items()
    ]
    np.testing.assert_allclose(ends[0][:, -1], ends[1][:, -1], rtol=1e-6)
    assert calls["sparse"] < calls["dense"]

    pattern = sparse.jacobian_sparsity(lambda u: falling(0.0, u) + u - 0.5, u).to_scipy()
    costs = []
    for name, given in {"all columns": {}, "colours": {"jac_sparsity": pattern}}.items():
        f = counted(name)
        costs.append(least_squares(lambda u, f=f: f(0.0, u) + u - 0.5, u, xtol=1e-12, **given).cost)
    np.testing.assert_allclose(costs[0], costs[1], rtol=1e-4)
    assert calls["colours"] < calls["all columns"] / 3


def test_a_hessian_of_a_rule_for_cotangents_alone() -> None:
    @calque.custom_vjp
    def cube(x):
        return x**3

    cube.defvjp(lambda x: (cube(x), x), lambda x, bar: (3.0 * x**2 * bar,))
    x = np.array([1.0, 2.0, 3.0])
    found = sparse.hessian(lambda x: np.sum(cube(x)), x)(x)
    np.testing.assert_allclose(found.toarray(), np.diag(6.0 * x))


def test_the_text_has_the_users_names_and_quotes() -> None:
    text = str(calque.source(sparse.jacobian(stencil, np.ones(6)), np.ones(6), stage="numpy"))
    assert "def stencil_entries(x, *, all_colors, colors_x, places)" in text
    assert "x_dot = np.where(colors_x == all_colors[:, None], 1.0, 0.0)" in text
    kernels = str(calque.source(sparse.jacobian(stencil, np.ones(6)), np.ones(6)))
    quotes = [line.strip() for line in kernels.splitlines() if line.strip().startswith("# ")]
    assert quotes and all("seed" not in line and "vmap" not in line for line in quotes), quotes


def test_without_scipy_the_command_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    jac = sparse.jacobian(stencil, np.ones(4))
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(ImportError, match="pip install scipy"):
        jac(np.ones(4))
