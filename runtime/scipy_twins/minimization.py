"""Minima: SciPy's iteration on the values, the implicit function theorem at the minimum beyond.

With bounds, the equation is ``x = clip(x - gradient(x))``, which holds variables at their bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.api import grad
from calque.runtime.custom_root import custom_root
from calque.runtime.linear_maps import jvp, vjp
from calque.runtime.scipy_twins import solver_hosts
from calque.runtime.scipy_twins.host_functions import is_unbounded, like_first, number_of
from calque.runtime.scipy_twins.solver_results import OptimizeResult, arguments, refuse_options
from calque.transpiler.frontend.library.scipy_twins import read_source, twin

read_source("scipy.optimize", "rosen", "rosen_der", "rosen_hess", "rosen_hess_prod")


def _stationary(gradient: Any, *limits: Any) -> Callable[[Any], Any]:
    """The equation of a minimum: the gradient, or the step that bounds leave of it."""

    def equation(x: Any) -> Any:
        if not limits:
            return gradient(x)
        return x - np.minimum(np.maximum(x - gradient(x), limits[0]), limits[1])

    return equation


def _limits(bounds: Any, like: Any) -> Any:
    """Arrays of the lower and the upper bounds: of pairs, or ``Bounds``; () for none."""
    if bounds is None:
        return ()
    if hasattr(bounds, "lb"):
        low, high = bounds.lb, bounds.ub
    else:
        low = np.stack([-np.inf if pair[0] is None else pair[0] for pair in bounds])
        high = np.stack([np.inf if pair[1] is None else pair[1] for pair in bounds])
    return _like(low, like), _like(high, like)


def _limits_of_two(bounds: Any, like: Any) -> Any:
    """Arrays of the lower and the upper bounds, which are given as two, or as ``Bounds``."""
    if hasattr(bounds, "lb"):
        return _limits(bounds, like)
    return _like(bounds[0], like), _like(bounds[1], like)


def _like(limit: Any, like: Any) -> Any:
    """A limit for each variable."""
    return np.broadcast_to(np.asarray(limit) * 1.0, like.shape)


@twin("scipy.optimize", "minimize")
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: Any = None,
    callback: Any = None,
    options: Any = None,
) -> Any:
    """The minimum of a function of a vector, with bounds or without constraints."""
    given = arguments(args)
    kept = "keep the call in a function that calque.opaque declares, with its derivative"
    refuse_options("optimize.minimize", kept, constraints=constraints or None)
    refuse_options("optimize.minimize", "leave it out", hess=hess, hessp=hessp, callback=callback)
    start = np.ravel(np.asarray(x0, dtype=float))

    def objective(x: Any) -> Any:
        value = fun(x, *given)
        return np.squeeze(value[0] if jac is True else value)

    def slope(x: Any) -> Any:
        return fun(x, *given)[1] if jac is True else jac(x, *given)

    def solve(f: Any, x: Any) -> Any:
        named = {"method": method, "tol": tol, "options": options}
        if jac is True or callable(jac):
            host = solver_hosts.minimum_by_gradient
            return like_first(host, [objective, slope], x, *limits, **named)
        return like_first(solver_hosts.minimum_of, [objective], x, *limits, jac=jac, **named)

    limits = _limits(bounds, start)
    x = custom_root(_stationary(grad(objective), *limits), start, solve)
    return OptimizeResult(x=x, fun=objective(x), jac=grad(objective)(x))


@twin("scipy.optimize", "minimize_scalar")
def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Any = None,
    bounds: Any = None,
    args: Any = (),
    method: Any = None,
    tol: Any = None,
    options: Any = None,
) -> Any:
    """The minimum of a function of one number."""
    given = arguments(args)
    limits = () if bounds is None else (bounds[0] * 1.0, bounds[1] * 1.0)

    def objective(x: Any) -> Any:
        return fun(x, *given)

    def solve(f: Any, x: Any) -> Any:
        named = {"bracket": bracket, "method": method, "tol": tol, "options": options}
        return number_of(solver_hosts.minimum_of_one, [objective], *limits, **named)

    x = custom_root(_stationary(grad(objective), *limits), 1.0, solve)
    return OptimizeResult(x=x, fun=objective(x))


_LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2.0 * (np.sqrt(1.0 + z) - 1.0),
    "huber": lambda z: np.where(z <= 1.0, z, 2.0 * np.sqrt(np.where(z <= 1.0, 1.0, z)) - 1.0),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}


@twin("scipy.optimize", "least_squares")
def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = (-np.inf, np.inf),
    method: str = "trf",
    ftol: Any = 1e-08,
    xtol: Any = 1e-08,
    gtol: Any = 1e-08,
    x_scale: Any = None,
    loss: str = "linear",
    f_scale: float = 1.0,
    diff_step: Any = None,
    tr_solver: Any = None,
    tr_options: Any = None,
    jac_sparsity: Any = None,
    max_nfev: Any = None,
    verbose: int = 0,
    args: Any = (),
    kwargs: Any = None,
    callback: Any = None,
    workers: Any = None,
) -> Any:
    """The least squares of a vector of residuals, with bounds and SciPy's losses."""
    given = arguments(args)
    named = {} if kwargs is None else kwargs
    refuse_options(
        "optimize.least_squares",
        "leave it out",
        jac_sparsity=jac_sparsity,
        tr_options=tr_options,
        callback=callback,
        verbose=verbose or None,
    )
    start = np.atleast_1d(np.asarray(x0, dtype=float))
    limits = () if is_unbounded(bounds) else _limits_of_two(bounds, start)

    def residuals(x: Any) -> Any:
        return np.atleast_1d(np.asarray(fun(x, *given, **named)))

    def jacobian(x: Any) -> Any:
        return jac(x, *given, **named)

    def cost(x: Any) -> Any:
        return 0.5 * f_scale**2 * np.sum(_LOSSES[loss]((residuals(x) / f_scale) ** 2))

    def solve(f: Any, x: Any) -> Any:
        options = {"method": method, "loss": loss, "f_scale": f_scale, "x_scale": x_scale}
        options = {**options, "ftol": ftol, "xtol": xtol, "gtol": gtol, "max_nfev": max_nfev}
        options = {**options, "diff_step": diff_step, "tr_solver": tr_solver}
        if callable(jac):
            both, by_jacobian = [residuals, jacobian], solver_hosts.least_squares_by_jacobian
            return like_first(by_jacobian, both, x, *limits, **options)
        options = {**options, "jac": jac}
        return like_first(solver_hosts.least_squares_of, [residuals], x, *limits, **options)

    x = custom_root(_stationary(grad(cost), *limits), start, solve)
    return OptimizeResult(x=x, fun=residuals(x), cost=cost(x), grad=grad(cost)(x))


@twin("scipy.optimize", "curve_fit")
def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    **options: Any,
) -> Any:
    """The parameters of a curve, and their covariance, by Levenberg and Marquardt's method."""
    if options:
        raise NotImplementedError(
            f"curve_fit takes no {', '.join(options)} here: write optimize.least_squares"
        )
    if p0 is None:
        raise NotImplementedError("curve_fit needs p0 here: give np.ones of as many parameters")
    scale = 1.0 if sigma is None else sigma
    if np.ndim(scale) == 2:
        raise NotImplementedError(
            "curve_fit takes no matrix as sigma here: give standard deviations"
        )

    def residuals(p: Any) -> Any:
        return (f(xdata, *[p[k] for k in range(p.shape[0])]) - ydata) / scale

    def normal_equation(p: Any) -> Any:
        value, pull = vjp(residuals, p)
        return pull(value)[0]

    def solve(_: Any, p: Any) -> Any:
        return like_first(solver_hosts.parameters_of, [residuals], p)

    p = custom_root(normal_equation, np.atleast_1d(np.asarray(p0, dtype=float)), solve)
    columns = [jvp(residuals, (p,), (e,))[1] for e in np.eye(p.shape[0])]
    jacobian = np.stack(columns, axis=1)
    covariance = np.linalg.inv(jacobian.T @ jacobian)
    if not absolute_sigma:
        freedom = jacobian.shape[0] - jacobian.shape[1]
        covariance = covariance * (np.sum(residuals(p) ** 2) / freedom)
    return p, covariance


@twin("scipy.optimize", "nnls")
def nnls(A: Any, b: Any, maxiter: Any = None) -> Any:
    """The nonnegative least squares of a linear system, and the norm of its residual."""
    matrix, right = np.asarray(A, dtype=float), np.asarray(b, dtype=float)

    def gradient(x: Any) -> Any:
        return matrix.T @ (matrix @ x - right)

    def solve(f: Any, x: Any) -> Any:
        return like_first(solver_hosts.nonnegative, [], x, matrix, right, maxiter=maxiter)

    start = np.zeros(matrix.shape[1])
    x = custom_root(_stationary(gradient, 0.0, np.inf), start, solve)
    return x, np.linalg.norm(matrix @ x - right)
