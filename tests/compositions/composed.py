"""The operators, applied to any function of one argument, as a user writes them.

The rule that keeps a composition well typed: ``grad`` of a function with more than one number for a
result takes their sum, weighed with fixed numbers; ``jvp`` pushes the argument itself, weighed;
``vjp`` pulls the function's value, weighed. So each gives a function of one argument again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def operators(api: Any, np: Any) -> dict[str, Callable[..., Any]]:
    """The operators of ``api`` (calque, or JAX) over its NumPy."""

    def weights(value):
        return np.cos(1.0 + np.arange(np.size(value)).reshape(np.shape(value)))

    def scaled(value):
        if isinstance(value, dict):
            return {k: scaled(v) for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple(scaled(v) for v in value)
        return weights(value) * value

    def total(value):
        if isinstance(value, dict):
            return sum(total(value[k]) for k in sorted(value))
        if isinstance(value, tuple):
            return sum(total(v) for v in value)
        return np.sum(weights(value) * value)

    def grad(function, scalar):
        return api.grad(function if scalar else lambda x: total(function(x)))

    def jvp(function, scalar):
        return lambda x: api.jvp(function, (x,), (scaled(x),))[1]

    def vjp(function, scalar):
        def pulled(x):
            value, pull = api.vjp(function, x)
            return pull(scaled(value))[0]

        return pulled

    made = {"grad": grad, "jvp": jvp, "vjp": vjp}
    for name in ("jacfwd", "jacrev", "hessian", "vmap", "checkpoint"):
        if hasattr(api, name):
            made[name] = _plain(getattr(api, name))
    return made


def _plain(transformation: Any) -> Callable[..., Any]:
    return lambda function, scalar: transformation(function)
