"""The trajectory of the examples, by Ipopt and SciPy: structure and values of sparse derivatives."""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize
from scipy.sparse import csr_array

import calque
from calque import sparse

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "trajectory.py"


@pytest.fixture(scope="module")
def solved() -> SimpleNamespace:
    """The names of the example, after it has run."""
    with contextlib.redirect_stdout(io.StringIO()):
        return SimpleNamespace(**runpy.run_path(str(EXAMPLE)))


def test_matrices_equal_dense_ones(solved: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    z, multipliers = rng.normal(size=205), rng.normal(size=168)
    wanted = calque.jacfwd(solved.defects)(z)
    np.testing.assert_allclose(solved.jac(z)[1].toarray(), wanted, rtol=1e-12, atol=1e-12)
    wanted = calque.hessian(solved.lagrangian)(z, multipliers)
    found = solved.hess(z, multipliers).toarray()
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


class Trajectory:
    """The methods that ``cyipopt`` asks for; values stand in the order of the structures."""

    def __init__(self, solved: SimpleNamespace):
        self.objective, self.constraints = solved.effort, solved.defects
        self.gradient = calque.grad(solved.effort)
        z, multipliers = solved.guess, np.zeros(168)

        def lagrangian(z: Any, multipliers: Any, factor: Any) -> Any:
            return factor * solved.effort(z) + multipliers @ solved.defects(z)

        self.jac = sparse.jacobian(solved.defects, z)
        self.hess = sparse.hessian(lagrangian, z, multipliers, 1.0)
        pattern = self.hess.sparsity
        self.lower = pattern.rows >= pattern.cols

    def jacobianstructure(self) -> Any:
        return self.jac.sparsity.rows, self.jac.sparsity.cols

    def jacobian(self, z: Any) -> Any:
        return self.jac(z).data

    def hessianstructure(self) -> Any:
        pattern = self.hess.sparsity
        return pattern.rows[self.lower], pattern.cols[self.lower]

    def hessian(self, z: Any, multipliers: Any, factor: float) -> Any:
        return self.hess(z, multipliers, factor).data[self.lower]


def test_values_stand_in_the_order_of_their_structure(solved: SimpleNamespace) -> None:
    problem, rng = Trajectory(solved), np.random.default_rng(1)
    z, multipliers = rng.normal(size=205), rng.normal(size=168)
    made = csr_array((problem.jacobian(z), problem.jacobianstructure()), (168, 205)).toarray()
    np.testing.assert_allclose(made, calque.jacfwd(solved.defects)(z), rtol=1e-12, atol=1e-12)
    values = problem.hessian(z, multipliers, 1.0)
    lower = csr_array((values, problem.hessianstructure()), (205, 205)).toarray()
    wanted = np.tril(calque.hessian(solved.lagrangian)(z, multipliers))
    np.testing.assert_allclose(lower, wanted, rtol=1e-9, atol=1e-9)


def test_ipopt_by_cyipopt_finds_the_same_trajectory(solved: SimpleNamespace) -> None:
    cyipopt = pytest.importorskip("cyipopt")
    zeros = np.zeros(168)
    problem = cyipopt.Problem(n=205, m=168, problem_obj=Trajectory(solved), cl=zeros, cu=zeros)
    problem.add_option("print_level", 0)
    problem.add_option("sb", "yes")
    problem.add_option("tol", 1e-10)
    z, told = problem.solve(solved.guess)
    assert told["status"] == 0
    np.testing.assert_allclose(told["obj_val"], solved.effort(solved.z), rtol=1e-8)
    np.testing.assert_allclose(z, solved.z, atol=1e-5)


def test_ipopt_by_casadi_finds_the_same_trajectory(solved: SimpleNamespace) -> None:
    casadi = pytest.importorskip("casadi")
    n = solved.STEPS
    x, u = casadi.MX.sym("x", 4, n + 1), casadi.MX.sym("u", 1, n + 1)

    def slope(x: Any, u: Any) -> Any:
        sine, cosine, mass = casadi.sin(x[1]), casadi.cos(x[1]), solved.CART + solved.POLE
        swing = solved.POLE * solved.LENGTH * x[3] ** 2 * sine
        matrix = casadi.vertcat(
            casadi.horzcat(mass, solved.POLE * solved.LENGTH * cosine),
            casadi.horzcat(cosine, solved.LENGTH),
        )
        forces = casadi.vertcat(u + swing, -solved.GRAVITY * sine)
        return casadi.vertcat(x[2], x[3], casadi.solve(matrix, forces))

    slopes = [slope(x[:, k], u[k]) for k in range(n + 1)]
    left = [x[:, 0] - solved.START, x[:, n] - solved.END]
    for k in range(n):
        left.append(x[:, k + 1] - x[:, k] - solved.h / 2.0 * (slopes[k] + slopes[k + 1]))
    effort = solved.h * (casadi.sumsqr(u) - 0.5 * (u[0] ** 2 + u[n] ** 2))
    problem = {"x": casadi.veccat(x, u), "f": effort, "g": casadi.vertcat(*left)}
    options = {"ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-10}, "print_time": False}
    guess = solved.guess.reshape(n + 1, 5)
    start = np.concatenate([guess[:, :4].ravel(), guess[:, 4]])
    found = casadi.nlpsol("trajectory", "ipopt", problem, options)(x0=start, lbg=0, ubg=0)
    np.testing.assert_allclose(float(found["f"]), solved.effort(solved.z), rtol=1e-8)


def test_scipy_takes_the_matrices(solved: SimpleNamespace) -> None:
    """A few steps from the solution's neighbourhood: constraints, Jacobian and Hessian sparse."""
    jac = sparse.jacobian(solved.defects, solved.z)
    curved = sparse.hessian(lambda z, v: v @ solved.defects(z), solved.z, np.zeros(168))
    near = solved.z + 1e-3 * np.sin(np.arange(205.0))
    found = minimize(
        solved.effort,
        near,
        jac=calque.grad(solved.effort),
        hess=sparse.hessian(solved.effort, near),
        method="trust-constr",
        constraints=NonlinearConstraint(solved.defects, 0.0, 0.0, jac=jac, hess=curved),
        options={"gtol": 1e-7, "maxiter": 60},
    )
    np.testing.assert_allclose(found.fun, solved.effort(solved.z), rtol=1e-6)
