"""Solutions of equations, differentiated implicitly: ``custom_root`` and ``fixed_point``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.runtime.fitting import shown
from calque.runtime.options import checked, given
from calque.runtime.trees import tree_map
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.frontend.trace import listed
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array
from calque.transpiler.transformations import implicit


def check_options(owner: str, **given: Any) -> None:
    """Raise where a parameter does not fit; of what only the run knows the type must."""
    run_time = {n for n in ("tolerance", "max_steps") if isinstance(given.get(n), Array)}
    for name in run_time:
        t = given[name].type
        if t.ndim or t.dtype.kind not in "iuf":
            raise TypeError(f"{owner}: {name} must be a number, and is {t}")
    checked(owner, **{n: v for n, v in given.items() if n not in run_time})


def check_structure(x0: Any, after: Any) -> None:
    """Raise where a step gives a tree of another structure than it was given, or no numbers."""
    for leaf in pytrees.flatten(x0)[0]:
        if not isinstance(leaf, (Array, np.ndarray, np.generic, int, float, complex)):
            raise TypeError(
                f"fixed_point: x0 must hold arrays and numbers, and holds {shown(leaf)}"
            )
    have, wanted = pytrees.flatten(pytrees.plain(after))[1], pytrees.flatten(pytrees.plain(x0))[1]
    if have != wanted:
        raise ValueError(
            f"fixed_point: f must give a result of the structure of x0, {wanted}, and gives {have}"
        )


@builtin(check_options)
def _check_options(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
    check_options(*args, **kwargs)


@builtin(check_structure)
def _check_structure(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> None:
    check_structure(*map(listed, args))


def custom_root(
    f: Callable[..., Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any] | None = None,
    has_aux: bool = False,
) -> Any:
    """``solve(f, initial_guess)``, a root of f, as ``jax.lax.custom_root``.

    The derivative by what f captures follows from the implicit function theorem; what ``solve``
    does is not differentiated, and the initial guess has none. ``tangent_solve(g, y)`` solves
    ``g(x) = y`` for the linear function g that f is near the root; it must be linear in y, for
    reverse mode in each of its steps: a loop until convergence is refused there, one with a known
    trip count is not. Without it, the Jacobian is formed and factorized. ``has_aux``:
    ``solve`` returns ``(root, aux)``.
    Raises CustomRuleError where the parts do not fit each other.

    >>> import calque
    >>> def root_of(a):
    ...     def newton(f, x):
    ...         for _ in range(20):
    ...             x = x - f(x) / calque.grad(f)(x)
    ...         return x
    ...     return custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> abs(calque.grad(root_of)(8.0) - 1.0 / 12.0) < 1e-15
    True
    """
    check_options("custom_root", f=f, solve=solve, tangent_solve=tangent_solve, has_aux=has_aux)
    return solve(f, initial_guess)


def fixed_point(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    tolerance: float = 1e-12,
    max_steps: int = 1000,
    tangent_solve: Callable[..., Any] | None = None,
) -> Any:
    """The x with ``x = f(x, *args)``, by iteration from ``x0``; differentiated implicitly.

    Derivatives by ``args``, and by what f captures, come from the equation, not from the iteration
    (see ``custom_root``, also for ``tangent_solve``). x is an array, a number, or a pytree. The
    iteration ends when no element x changes by more than ``tolerance * (1 + abs(x))``. Raises
    RuntimeError where it has not ended after ``max_steps`` steps.

    >>> import numpy as np, calque
    >>> slope = calque.grad(lambda a: fixed_point(lambda x: 0.5 * (x + a / x), 1.0))(2.0)
    >>> bool(abs(slope - 0.5 / np.sqrt(2.0)) < 1e-12)
    True
    """

    check_options(
        "fixed_point", f=f, tolerance=tolerance, max_steps=max_steps, tangent_solve=tangent_solve
    )

    def residual(x: Any) -> Any:
        return tree_map(lambda new, old: new - old, f(x, *args), x)

    def iterate(residual: Any, x: Any) -> Any:
        after = f(x, *args)
        check_structure(x, after)
        steps = 1
        while _apart(x, after, tolerance) and steps < max_steps:
            x, after = after, f(after, *args)
            steps += 1
        if not _close(x, after, tolerance):
            raise RuntimeError("fixed_point: the iteration does not converge")
        return after

    return custom_root(residual, x0, iterate, tangent_solve)


def _apart(x: Any, after: Any, tolerance: float) -> Any:
    """True if an element has changed by more than ``tolerance``, relative to 1 + its magnitude."""
    return any(
        [  # noqa: C419  (recorded values do not wait)
            np.any(np.abs(new - old) > tolerance * (1.0 + np.abs(new)))
            for old, new in _pairs(x, after)
        ]
    )


def _close(x: Any, after: Any, tolerance: float) -> Any:
    """True if no element has changed by more than ``tolerance``; NaN is close to nothing."""
    return all(
        [  # noqa: C419  (recorded values do not wait)
            np.all(np.abs(new - old) <= tolerance * (1.0 + np.abs(new)))
            for old, new in _pairs(x, after)
        ]
    )


def _pairs(x: Any, after: Any) -> list[tuple[Any, Any]]:
    return list(zip(pytrees.flatten(x)[0], pytrees.flatten(after)[0], strict=True))


@builtin(custom_root)
def _custom_root(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    def bound(
        f: Any, initial_guess: Any, solve: Any, tangent_solve: Any = None, has_aux: bool = False
    ) -> Any:
        check_options("custom_root", f=f, solve=solve, tangent_solve=tangent_solve, has_aux=has_aux)
        parts = (f, initial_guess, solve, tangent_solve, has_aux)
        return implicit.custom_root(machine, *parts, node)

    with machine.at(node):
        return bound(**given(custom_root, args, kwargs))
