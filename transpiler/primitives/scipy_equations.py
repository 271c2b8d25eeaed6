"""``scipy.linalg``: equations of matrices, by the implicit function theorem.

The tangent of a solution solves a linear equation of its kind, and its cotangent the adjoint one.
Of Riccati's equations these are Lyapunov's, with the matrix of the closed loop: J. R. Magnus and H.
Neudecker's differentials of both sides, as in T. Kao and G. Hennequin, "Automatic differentiation
of Sylvester, Lyapunov, and algebraic Riccati equations" (2020).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calque.transpiler.primitives.base import apply, opaque
from calque.transpiler.primitives.linalg import adjoint, by_conjugates
from calque.transpiler.primitives.record import Lacking
from calque.transpiler.primitives.sampling import Drawn, case, cases
from calque.transpiler.primitives.scipy_linalg import matrix, positive, refused, regular, scipys
from calque.transpiler.primitives.scipy_modules import means
from calque.transpiler.primitives.scipy_stacks import on_stacks


def plus(*terms: Any) -> Any:
    """The sum of the terms that are not None."""
    found = None
    for term in terms:
        if term is not None:
            found = term if found is None else found + term
    return found


NOT_ON_GPU = Lacking("solve it on the host, before the call, and give the function the solution")

# a @ x + x @ b == q


def _sylvester_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, b_dot, q_dot), (a, b, _), (x,) = tangents, args, outs
    by_a = None if a_dot is None else -(a_dot @ x)
    by_b = None if b_dot is None else -(x @ b_dot)
    return (apply(solve_sylvester, a, b, plus(q_dot, by_a, by_b)),)


@by_conjugates
def _sylvester_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (a, b, _), (x,) = cotangents, args, outs
    q_bar = apply(solve_sylvester, adjoint(a), adjoint(b), x_bar)
    return -(q_bar @ adjoint(x)), -(adjoint(x) @ q_bar), q_bar


solve_sylvester = opaque(
    "linalg.solve_sylvester",
    scipys("solve_sylvester"),
    "(m,m),(n,n),(m,n)->(m,n)",
    "linalg.solve_sylvester({0}, {1}, {2})",
    cupy=NOT_ON_GPU,
    jvp=_sylvester_jvp,
    vjp=_sylvester_vjp,
    samples=cases(
        case(regular(3, 3), regular(2, 2), (3, 2)),
        case(regular(2, 2, dtype="f4"), regular(2, 2, dtype="f4"), Drawn((2, 2), "f4")),
    ),
)


@means("scipy.linalg", "solve_sylvester")
def _solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    given = [matrix(x, "solve_sylvester") for x in (a, b, q)]
    return on_stacks(solve_sylvester, *given)


@means("scipy.linalg", "solve_continuous_lyapunov", "solve_lyapunov")
def _solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    a, q = (matrix(x, "solve_continuous_lyapunov") for x in (a, q))
    return on_stacks(solve_sylvester, a, adjoint(a), q)


# a @ x @ a.T.conj() - x + q == 0


def _discrete_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, q_dot), (a, _), (x,) = tangents, args, outs
    by_a = None
    if a_dot is not None:
        by_a = a_dot @ x @ adjoint(a) + a @ x @ adjoint(a_dot)
    return (apply(discrete_lyapunov, a, plus(q_dot, by_a), **params),)


@by_conjugates
def _discrete_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (a, _), (x,) = cotangents, args, outs
    q_bar = apply(discrete_lyapunov, adjoint(a), x_bar, **params)
    return q_bar @ a @ adjoint(x) + adjoint(q_bar) @ a @ x, q_bar


def _discrete_text(args: Any, params: dict[str, Any]) -> str:
    method = params["method"]
    return f"linalg.solve_discrete_lyapunov({{0}}, {{1}}{f', {method!r}' if method else ''})"


def _small(*shape: int, dtype: str = "f8") -> Drawn:
    """A matrix with eigenvalues within the unit circle."""
    return Drawn(shape, dtype, lambda x: 0.3 * x)


discrete_lyapunov = opaque(
    "linalg.solve_discrete_lyapunov",
    scipys("solve_discrete_lyapunov"),
    "(n,n),(n,n)->(n,n)",
    _discrete_text,
    cupy=NOT_ON_GPU,
    jvp=_discrete_jvp,
    vjp=_discrete_vjp,
    samples=cases(
        case(_small(3, 3), (3, 3), method=None),
        case(_small(2, 2), (2, 2), method="bilinear"),
    ),
)


@means("scipy.linalg", "solve_discrete_lyapunov")
def _solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    if method not in (None, "direct", "bilinear"):
        raise ValueError(f"Unknown solver {method}")
    a, q = (matrix(x, "solve_discrete_lyapunov") for x in (a, q))
    return on_stacks(discrete_lyapunov, a, q, method=method)


# Riccati's: a.T @ x + x @ a - x @ b @ inv(r) @ b.T @ x + q == 0, and that of discrete steps


def _gain(a: Any, b: Any, r: Any, x: Any, discrete: bool) -> Any:
    """The feedback of the solution."""
    back = adjoint(b) @ x
    return np.linalg.solve(r + back @ b, back @ a) if discrete else np.linalg.solve(r, back)


def _closed(a: Any, b: Any, k: Any, x: Any, discrete: bool) -> tuple[Any, Any]:
    """The matrix of the closed loop, and what the changes of ``a`` and ``b`` are multiplied by."""
    loop = a - b @ k
    return loop, adjoint(loop) @ x if discrete else x


def _riccati_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (a_dot, b_dot, q_dot, r_dot), (a, b, _, r), (x,) = tangents, args, outs
    discrete = params["discrete"]
    k = _gain(a, b, r, x, discrete)
    loop, weight = _closed(a, b, k, x, discrete)
    change = q_dot
    if a_dot is not None:
        moved = weight @ a_dot
        change = plus(change, moved + adjoint(moved))
    if b_dot is not None:
        moved = weight @ b_dot @ k
        change = plus(change, -(moved + adjoint(moved)))
    if r_dot is not None:
        change = plus(change, adjoint(k) @ r_dot @ k)
    if discrete:
        return (apply(discrete_lyapunov, adjoint(loop), change, method=None),)
    return (apply(solve_sylvester, adjoint(loop), loop, -change),)


@by_conjugates
def _riccati_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    (x_bar,), (a, b, _, r), (x,) = cotangents, args, outs
    discrete = params["discrete"]
    k = _gain(a, b, r, x, discrete)
    loop, weight = _closed(a, b, k, x, discrete)
    if discrete:
        q_bar = apply(discrete_lyapunov, loop, x_bar, method=None)
    else:
        q_bar = apply(solve_sylvester, loop, adjoint(loop), -x_bar)
    a_bar = adjoint(weight) @ (q_bar + adjoint(q_bar))
    return a_bar, -(a_bar @ adjoint(k)), q_bar, k @ q_bar @ adjoint(k)


def _riccati(a: Any, b: Any, q: Any, r: Any, discrete: bool) -> Any:
    return scipys("solve_discrete_are" if discrete else "solve_continuous_are")(a, b, q, r)


def _riccati_text(args: Any, params: dict[str, Any]) -> str:
    name = "solve_discrete_are" if params["discrete"] else "solve_continuous_are"
    return f"linalg.{name}({{0}}, {{1}}, {{2}}, {{3}})"


riccati = opaque(
    "linalg.solve_continuous_are",
    _riccati,
    "(m,m),(m,n),(m,m),(n,n)->(m,m)",
    _riccati_text,
    cupy=NOT_ON_GPU,
    jvp=_riccati_jvp,
    vjp=_riccati_vjp,
    samples=cases(
        case((2, 2), regular(2, 2), positive(2, 2), positive(2, 2), discrete=False),
        case(_small(2, 2), regular(2, 2), positive(2, 2), positive(2, 2), discrete=True),
    ),
)


def _solve_riccati(
    name: str, discrete: bool, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any
) -> Any:
    """``e`` and ``s`` taken into the other matrices, where they are given."""
    a, b, q, r = (matrix(x, name) for x in (a, b, q, r))
    if e is not None:
        raise refused(name, "e=", "multiply the equation by inverses of e")
    if s is not None:
        s = matrix(s, name)
        across = np.linalg.solve(r, adjoint(s))
        a, q = a - b @ across, q - s @ across
        q = 0.5 * (q + adjoint(q))
    return on_stacks(riccati, a, b, q, r, discrete=discrete)


@means("scipy.linalg", "solve_continuous_are")
def _solve_continuous_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: Any = True
) -> Any:
    return _solve_riccati("solve_continuous_are", False, a, b, q, r, e, s)


@means("scipy.linalg", "solve_discrete_are")
def _solve_discrete_are(
    a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: Any = True
) -> Any:
    return _solve_riccati("solve_discrete_are", True, a, b, q, r, e, s)
