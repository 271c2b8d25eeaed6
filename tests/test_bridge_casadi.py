"""``calque.bridges.casadi.wrap`` beside the same formulas in CasADi's own symbols."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import ImpureFunction, NeedsKnownValue, ShapeError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what CasADi itself imports
    ca = pytest.importorskip("casadi")
    wrap = calque.bridges.casadi.wrap

X = np.array([0.1, 0.2, 0.3, 0.4])
QUIET = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}


def agree(mine: Any, theirs: Any, inputs: list[Any], at: list[Any]) -> None:
    """Compare expressions of the same inputs at a point: their values and shapes."""
    got, wanted = ca.Function("got", inputs, mine), ca.Function("wanted", inputs, theirs)
    for a, b in zip(got.call(at), wanted.call(at), strict=True):
        np.testing.assert_allclose(a.full(), b.full(), rtol=1e-11, atol=1e-11)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_of_symbols(x):
    return ca.sumsqr(10.0 * (x[1:] - x[:-1] ** 2)) + ca.sumsqr(1.0 - x[:-1])


def bounds(x, c):
    return np.array([x[0] * x[1] - c, x[2] ** 2 + x[1]])


def bounds_of_symbols(x, c):
    return ca.vertcat(x[0] * x[1] - c, x[2] ** 2 + x[1])


def test_derivatives_of_a_scalar() -> None:
    f, x = wrap(rosenbrock, X), ca.MX.sym("x", 4)
    of = [lambda y: y, lambda y: ca.gradient(y, x), lambda y: ca.hessian(y, x)[0], lambda y: ca.jacobian(ca.hessian(y, x)[0], x)]
    agree([g(f(x)) for g in of], [g(rosenbrock_of_symbols(x)) for g in of], [x], [X])


def test_derivatives_of_matrices_lie_column_by_column() -> None:
    def products(A, v, k):
        return {"p": A @ v * k, "q": A.T * k, "s": np.sum(A * A)}

    A0, v0 = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 4.0])
    f = wrap(products, A0, v0, 2.0)
    assert f.name() == "products" and f.name_in() == ["A", "v", "k"]
    A, v, k, w = ca.MX.sym("A", 2, 3), ca.MX.sym("v", 3), ca.MX.sym("k"), ca.MX.sym("w", 2)
    given, at = [A, v, k, w], [A0, v0, 2.0, [3.0, 5.0]]
    mine, theirs = f(A, v, k), (ca.mtimes(A, v) * k, A.T * k, ca.sumsqr(A))
    agree(mine, theirs, given, at)
    for by in (A, v, k):
        agree([ca.jacobian(y, by) for y in mine], [ca.jacobian(y, by) for y in theirs], given, at)
    p, q = (ca.dot(w, y[0]) * y[2] for y in (mine, theirs))
    agree([ca.hessian(p, v)[0], ca.hessian(p, A)[0]], [ca.hessian(q, v)[0], ca.hessian(q, A)[0]], given, at)
    p, q = mine[0], theirs[0]
    agree([ca.jtimes(p, v, v), ca.jtimes(p, A, w, True)], [ca.jtimes(q, v, v), ca.jtimes(q, A, w, True)], given, at)


@pytest.mark.parametrize("jit", [True, False])
def test_a_program_that_ipopt_solves(jit: bool) -> None:
    f, g = wrap(rosenbrock, X, jit=jit), wrap(bounds, X, 1.0, jit=jit)
    x = ca.MX.sym("x", 4)
    found = []
    for nlp in ({"f": f(x), "g": g(x, 0.5)}, {"f": rosenbrock_of_symbols(x), "g": bounds_of_symbols(x, 0.5)}):
        solver = ca.nlpsol("solver", "ipopt", {"x": x, **nlp}, QUIET)
        found.append(solver(x0=X, lbg=[0.0, 0.5], ubg=[0.0, ca.inf]))
        assert solver.stats()["return_status"] == "Solve_Succeeded"
        found.append(solver.stats()["iter_count"])
    (mine, steps, theirs, wanted) = found
    assert steps == wanted
    for name in ("x", "f", "g", "lam_g"):
        np.testing.assert_allclose(mine[name].full(), theirs[name].full(), rtol=1e-7, atol=1e-9)


def test_a_known_solution() -> None:
    """The least distance from a point to the unit circle: the solution is on the ray to it."""
    point = np.array([3.0, 4.0])
    distance, circle = wrap(lambda x, p: np.sum((x - p) ** 2), point, point), wrap(lambda x: x @ x, point)
    opti = ca.Opti()
    x = opti.variable(2)
    opti.minimize(distance(x, point))
    opti.subject_to(circle(x) == 1.0)
    opti.set_initial(x, [1.0, 0.5])
    opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes"})
    np.testing.assert_allclose(opti.solve().value(x), point / 5.0, rtol=1e-8)


def test_a_step_of_newton_is_one_call_of_each_function(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, calls = calque.bridges.casadi.NumPyCallback, []
    run = kind.eval_buffer
    monkeypatch.setattr(kind, "eval_buffer", lambda self, arg, res: calls.append(self.name()) or run(self, arg, res))
    g, x, w = wrap(bounds, X, 1.0), ca.MX.sym("x", 4), ca.MX.sym("w", 2)
    y = g(x, 0.5)
    ca.Function("J", [x], [ca.jacobian(y, x)])(X)
    assert calls.count("jac_bounds") == 1 and set(calls) <= {"bounds", "jac_bounds"}
    calls.clear()
    H = ca.Function("H", [x, w], [ca.hessian(ca.dot(w, y), x)[0]])(X, [1.0, 2.0])
    assert calls == ["jac_adj1_bounds"]
    assert H.full()[0, 1] == 1.0 and H.full()[2, 2] == 4.0


def test_a_block_of_a_jacobian_follows_no_other_directions() -> None:
    f = wrap(bounds, X, 1.0)
    all_blocks = f.program.jacobian((0, 1), (0,))
    assert all_blocks.selected((1,)) is f.program.jacobian((1,), (0,))
    assert "eye" not in all_blocks.selected((1,)).program.source(*f.program.takes)


def test_loops_and_stores() -> None:
    def settled(u, k, steps):
        for _ in range(steps):
            u[1:-1] += k * (u[:-2] - 2.0 * u[1:-1] + u[2:])
        return u

    f, u = wrap(settled, X, 0.1, 3), ca.MX.sym("u", 4)
    assert f.n_in() == 2  # the number of steps is part of the program
    step = np.eye(4)
    step[1:-1] += 0.1 * (np.eye(4)[:-2] - 2.0 * np.eye(4)[1:-1] + np.eye(4)[2:])
    J = ca.Function("J", [u], [ca.jacobian(f(u, 0.1), u)])(X)
    np.testing.assert_allclose(J.full(), np.linalg.matrix_power(step, 3), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(f(X, 0.1).full()[:, 0], np.linalg.matrix_power(step, 3) @ X)


def test_integers_bools_and_single_precision() -> None:
    def chosen(x, i, b):
        return np.where(b, x[i], 0.0), i + 1

    x, half = ca.MX.sym("x", 4), X.astype(np.float32)
    f = wrap(chosen, half, np.array([2, 0]), np.array([True, False]))
    values, numbers = f(X, [3, 1], [1, 0])
    np.testing.assert_allclose(values.full()[:, 0], [0.4, 0.0], rtol=1e-7)
    assert numbers.full()[:, 0].tolist() == [4.0, 2.0]
    J = ca.Function("J", [x], [ca.jacobian(f(x, [3, 1], [1, 0])[0], x)])(X)
    assert J.full().tolist() == [[0.0, 0.0, 0.0, 1.0], [0.0] * 4]
    assert ca.jacobian(f(x, [3, 1], [1, 0])[1], x).nnz() == 0


def test_integrators_and_rootfinders_find_derivatives() -> None:
    x, q = ca.MX.sym("x", 2), ca.MX.sym("q")
    turning = wrap(lambda x: np.array([x[1], -x[0]]), np.ones(2))
    end = ca.integrator("end", "cvodes", {"x": x, "ode": turning(x)}, 0.0, 1.0, {"abstol": 1e-10, "reltol": 1e-10})
    J = ca.Function("J", [x], [ca.jacobian(end(x0=x)["xf"], x)])([1.0, 0.0])
    c, s = np.cos(1.0), np.sin(1.0)
    np.testing.assert_allclose(J.full(), [[c, s], [-s, c]], rtol=1e-6)
    z = ca.MX.sym("z")
    root = ca.rootfinder("root", "newton", {"x": z, "p": q, "g": wrap(lambda z, q: z**2 - q, 1.0, 2.0)(z, q)})
    slope = ca.Function("slope", [q], [ca.jacobian(root(x0=1.0, p=q)["x"], q)])(2.0)
    np.testing.assert_allclose(float(slope), 0.5 / np.sqrt(2.0), rtol=1e-8)


def test_a_solver_outlives_the_name_of_its_function() -> None:
    def solver():
        f, x = wrap(lambda x: np.sum((x - 1.0) ** 2), X), ca.MX.sym("x", 4)
        return ca.nlpsol("solver", "ipopt", {"x": x, "f": f(x)}, QUIET)

    made = solver()
    gc.collect()
    np.testing.assert_allclose(made(x0=X)["x"].full(), 1.0)


def test_blocks_are_as_sparse_as_they_can_be() -> None:
    def apart(A, c):
        return A.T**3 * c, np.sum(A**2, axis=0)

    A0 = np.arange(1.0, 7.0).reshape(2, 3)
    f, A, c, w = wrap(apart, A0, 2.0), ca.MX.sym("A", 2, 3), ca.MX.sym("c"), ca.MX.sym("w", 3)
    mine, theirs = f(A, c), (A.T**3 * c, ca.sum1(A**2).T)
    given, at = [A, c, w], [A0, 2.0, [1.0, 2.0, 3.0]]
    found = [ca.jacobian(y, A) for y in mine]
    assert [J.nnz() for J in found] == [6, 6]
    agree(found, [ca.jacobian(y, A) for y in theirs], given, at)
    found = [ca.jacobian(J, A) for J in found]
    assert [J.nnz() for J in found] == [6, 6]
    agree(found, [ca.jacobian(ca.jacobian(y, A), A) for y in theirs], given, at)
    H = ca.hessian(ca.dot(w, mine[1]), A)[0]
    assert H.nnz() == 6
    agree([H], [ca.hessian(ca.dot(w, theirs[1]), A)[0]], given, at)


def test_what_is_refused_names_the_function() -> None:
    def positive(x):
        return x[x > 0]

    def noisy(x):
        return x * np.random.normal()

    with pytest.raises(NeedsKnownValue, match="A result of positive"):
        wrap(positive, X)
    with pytest.raises(ImpureFunction, match="noisy"):
        wrap(noisy, X)
    with pytest.raises(ShapeError, match=r"noisy: an argument is f8\[n\]"):
        wrap(noisy, calque.spec("f8[n]"))
    with pytest.raises(ShapeError, match=r"noisy: an argument is f8\[2,2,2\]"):
        wrap(noisy, np.ones((2, 2, 2)))
    with pytest.raises(TypeError, match="wrap: fun must be a function"):
        wrap(3, X)


def test_without_casadi_the_command_that_brings_it_is_named() -> None:
    code = "import sys; sys.modules['casadi'] = None; import calque; calque.bridges.casadi"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "calque[casadi]"' in done.stderr.splitlines()[-1]
