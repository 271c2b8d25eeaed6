"""Options and bad arguments of SciPy's solvers: passed on, or refused by name; never ignored."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import UnsupportedFunction, UnsupportedSyntax
from calque.transpiler.primitives.host_calls import literal_text

integrate = pytest.importorskip("scipy.integrate")
optimize = pytest.importorskip("scipy.optimize")

A = np.array([0.5, 0.8])


def nearest(a: Any, **options: Any) -> Any:
    """The place within bounds that is nearest to a."""
    return optimize.minimize(lambda x: np.sum((x - a) ** 2), np.full(2, 0.1), **options).x


def fitted(a: Any, bounds: Any, start: float = 0.1) -> Any:
    return optimize.least_squares(lambda x: x - a, np.full(2, start), bounds=bounds).x


BOUNDS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "pairs": (lambda a: nearest(a, bounds=[(0.0, 0.3), (None, np.inf)]), [0.0, 1.0]),
    "an object": (lambda a: nearest(a, bounds=optimize.Bounds([0.0, 0.0], [0.3, 1.0])), [0.0, 1.0]),
    "values of the run": (lambda a: nearest(a, bounds=[(0.0, 0.5 * a[1]), (0.0, 2.0)]), [0.0, 1.5]),
    "lower ones": (lambda a: nearest(a, bounds=[(0.6, 2.0), (a[0] + 0.4, 3.0)]), [1.0, 0.0]),
    "lower ones of residuals": (lambda a: fitted(a, ([0.6, a[0]], [2.0, 3.0]), 1.5), [0.0, 1.0]),
    "infinite ones": (lambda a: fitted(a, ([0.0, 0.0], [0.3, np.inf])), [0.0, 1.0]),
    "arrays": (lambda a: fitted(a, (np.zeros(2), np.array([0.3, 2.0]))), [0.0, 1.0]),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds(name: str) -> None:
    f, wanted = BOUNDS[name]
    np.testing.assert_allclose(calque.jit(f)(A), f(A), rtol=1e-12)
    gradient = calque.grad(lambda a: np.sum(f(a)))(A)
    np.testing.assert_allclose(gradient, wanted, atol=1e-6)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "minimize takes no callback": (lambda a: nearest(a, callback=print), UnsupportedFunction),
    "minimize takes no hess": (lambda a: nearest(a, hess=lambda x: np.eye(2)), UnsupportedFunction),
    "root takes no callback": (
        lambda a: optimize.root(lambda x: x - a, A, callback=print).x,
        UnsupportedFunction,
    ),
    "The option tol must be": (
        lambda a: optimize.root(lambda x: x**3 - a, A, tol=1e-9 * a[0]).x,
        UnsupportedFunction,
    ),
    "function value is NaN": (
        lambda a: optimize.brentq(lambda x: np.sqrt(x - 1.0) - a[0], 0.0, 2.0),
        ValueError,
    ),
    "'OptimizeResult' object has no attribute 'nfev'": (
        lambda a: optimize.root(lambda x: x - a, A).nfev,
        AttributeError,
    ),
    "must be one of RK23, RK45": (
        lambda a: integrate.solve_ivp(lambda t, y: -a * y, (0.0, 1.0), a, "Euler").y,
        ValueError,
    ),
    "takes no dense_output here": (
        lambda a: integrate.solve_ivp(lambda t, y: -a * y, (0.0, 1.0), a, dense_output=True).y,
        UnsupportedFunction,
    ),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("message", REFUSED)
def test_refused_by_name(message: str) -> None:
    f, kind = REFUSED[message]
    with pytest.raises(kind, match=message):
        calque.grad(lambda a: np.sum(f(a)))(A)


def test_a_refusal_shows_the_line_that_calls_scipy() -> None:
    f, kind = REFUSED["takes no dense_output here"]
    with pytest.raises(kind) as caught:
        calque.grad(f)(A)
    assert isinstance(caught.value, UnsupportedFunction) and caught.value.origin is not None
    assert "dense_output=True" in caught.value.origin.text
    assert caught.value.hint == "give the times as t_eval" and not caught.value.calls


def test_an_error_in_a_function_that_is_called_back_shows_both_lines() -> None:
    def unread(x: Any) -> Any:
        return eval("x")

    with pytest.raises(UnsupportedSyntax) as caught:
        calque.grad(lambda a: optimize.brentq(lambda x: unread(x) - a, 0.0, 2.0))(0.5)
    assert caught.value.origin is not None and 'eval("x")' in caught.value.origin.text
    assert any("optimize.brentq" in origin.text for origin in caught.value.calls)
    assert "root_finding" not in str(caught.value)


def decayed(a: Any, times: Any, method: Any = "RK45", end: float = 1.0) -> Any:
    return integrate.solve_ivp(lambda t, y: -a * y, (0.0, end), a, method, times).y


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "LSODA"])
def test_times_are_checked_as_in_scipy(method: str) -> None:
    for times, message in (([0.5, 2.0], "not within"), ([0.9, 0.3], "not properly sorted")):
        with pytest.raises(ValueError, match=message):
            decayed(A, times, method)
        with pytest.raises(ValueError, match=message):
            calque.grad(lambda a: np.sum(decayed(a, times, method)))(A)


def test_no_time_passes() -> None:
    def f(a: Any) -> Any:
        return np.sum(integrate.odeint(lambda y, t: -a * y, a, [0.0]))

    np.testing.assert_allclose(calque.jit(f)(A), f(A), rtol=1e-15)
    np.testing.assert_allclose(calque.grad(f)(A), [1.0, 1.0])
    for method in ("RK45", "Radau"):  # SciPy gives the start twice, or nothing at times asked for
        with pytest.raises(ValueError, match="ends of `t_span` are equal"):
            calque.grad(lambda a: np.sum(decayed(a, None, method, 0.0)))(A)


def test_times_that_are_not_reached_are_nan() -> None:
    def f(a: Any) -> Any:
        return integrate.solve_ivp(lambda t, y: a * y**2, (0.0, 4.0), [1.0], t_eval=[0.5, 3.0]).y

    with np.errstate(all="ignore"):
        found = calque.jit(f)(1.0)
    assert np.isfinite(found[0, 0]) and np.isnan(found[0, 1])


@pytest.mark.parametrize("method", ["RK23", "Radau", "BDF"])
def test_methods_are_given_as_classes(method: str) -> None:
    by_class = calque.jit(lambda a: decayed(a, [0.3, 1.0], getattr(integrate, method)))
    np.testing.assert_allclose(by_class(A), decayed(A, [0.3, 1.0], method), rtol=1e-13)


def test_nan_is_found_in_programs_that_are_called_back() -> None:
    def f(a: Any) -> Any:
        return np.sum(optimize.root(lambda x: x**3 - a, np.ones(2)).x)

    with calque.debug_nans(True):
        np.testing.assert_allclose(calque.grad(f)(A), A ** (-2 / 3) / 3, rtol=1e-7)


def test_names_are_the_users_within_a_solver() -> None:
    text = """
def f(a):
    def slope(t, y):
        warmth = a * y
        return -warmth * own.cos(warmth)

    return integrate.solve_ivp(slope, (0.0, 1.0), np.ones(2)).y[0, -1]
"""
    file = "<names within a solver>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"np": np, "own": np, "integrate": integrate}
    exec(compile(text, file, "exec"), names)
    source = calque.source(names["f"], A)
    assert "warmth = a * y" in source and "K = np.zeros((7, 2))" in source

    names["own"] = None
    with pytest.raises(AttributeError, match="cos") as caught:
        calque.grad(names["f"])(A)
    assert any("return -warmth * own.cos(warmth)" in note for note in caught.value.__notes__)


def test_texts_of_options() -> None:
    given = {
        "a": (np.inf,),
        "b": [-np.inf, True],
        "c": np.array([[1.0, np.nan]]),
        "d": np.float64(2),
    }
    assert eval(literal_text(given), {"np": np}) is not None
    assert literal_text(given["a"]) == "(np.inf,)"
