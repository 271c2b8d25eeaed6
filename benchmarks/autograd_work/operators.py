"""Autograd's operators, spelled with calque's."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import calque

Function = Callable[..., Any]


def places(argnum: Any) -> Any:
    """An argument of Autograd's name `argnum` as calque takes it."""
    return argnum if isinstance(argnum, int) else tuple(argnum)


def of_number(fun: Function) -> Function:
    """The function with its result, an array of one element for Autograd, as a number."""

    def number(*args, **kwargs):
        out = fun(*args, **kwargs)
        return out if np.ndim(out) == 0 else np.reshape(out, ())

    return number


def grad(fun: Function, argnum: Any = 0) -> Function:
    return calque.grad(of_number(fun), argnums=places(argnum))


def value_and_grad(fun: Function, argnum: Any = 0) -> Function:
    return calque.value_and_grad(of_number(fun), argnums=places(argnum))


def jacobian(fun: Function, argnum: Any = 0) -> Function:
    return calque.jacrev(fun, argnums=places(argnum))


def hessian(fun: Function, argnum: Any = 0) -> Function:
    return calque.hessian(fun, argnums=places(argnum))


def elementwise_grad(fun: Function, argnum: Any = 0) -> Function:
    def total(*args, **kwargs):
        return np.sum(fun(*args, **kwargs))

    return calque.grad(total, argnums=places(argnum))


def holomorphic_grad(fun: Function, argnum: Any = 0) -> Function:
    return calque.grad(fun, argnums=places(argnum), holomorphic=True)


def grad_named(fun: Function, argname: str) -> Function:
    return calque.grad(fun, argnums=list(inspect.signature(fun).parameters).index(argname))


def grad_and_aux(fun: Function, argnum: Any = 0) -> Function:
    return calque.grad(fun, argnums=places(argnum), has_aux=True)


def of_one(fun: Function, argnum: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Function:
    """The function of the argument (or of the tuple of arguments) at `argnum`, the others held."""

    def unary(x):
        given = list(args)
        for place, value in [(argnum, x)] if isinstance(argnum, int) else zip(argnum, x):
            given[place] = value
        return fun(*given, **kwargs)

    return unary


def chosen(argnum: Any, args: tuple[Any, ...]) -> Any:
    return args[argnum] if isinstance(argnum, int) else tuple(args[k] for k in argnum)


def unary_to_nary(operator: Function) -> Function:
    def nary(fun, argnum=0, *more, **options):
        def of(*args, **kwargs):
            x = chosen(argnum, args)
            return operator(of_one(fun, argnum, args, kwargs), x, *more, **options)

        return of

    return nary


def deriv(fun: Function, argnum: Any = 0) -> Function:
    def derivative(*args, **kwargs):
        x = chosen(argnum, args)
        along = np.ones_like(x) if isinstance(x, np.ndarray) else 1.0
        return calque.jvp(of_one(fun, argnum, args, kwargs), (x,), (along,))[1]

    return derivative


def make_vjp(fun: Function, argnum: Any = 0) -> Function:
    def maker(*args, **kwargs):
        out, pull = calque.vjp(of_one(fun, argnum, args, kwargs), chosen(argnum, args))
        return (lambda g: pull(g)[0]), out

    return maker


def core_make_vjp(fun: Function, x: Any) -> Any:
    return make_vjp(fun)(x)


def make_jvp(fun: Function, argnum: Any = 0) -> Function:
    def maker(*args, **kwargs):
        one = of_one(fun, argnum, args, kwargs)
        return lambda v: calque.jvp(one, (chosen(argnum, args),), (v,))

    return maker


def make_hvp(fun: Function, argnum: Any = 0) -> Function:
    return make_vjp(calque.grad(fun, argnums=places(argnum)), argnum)


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    def product(*args, **kwargs):
        one = of_one(of_number(fun), argnum, args[:-1], kwargs)
        return calque.hvp(one, (args[argnum],), (args[-1],))

    return product


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    def contracted(*args, **kwargs):
        return np.tensordot(args[-1], fun(*args[:-1], **kwargs), axes=np.ndim(args[-1]))

    return calque.jacrev(contracted, argnums=argnum)


def half_of_squares(x: Any) -> Any:
    return 0.5 * np.sum(x**2, axis=-1)


def make_ggnvp(fun: Function, g: Function = half_of_squares, f_argnum: int = 0) -> Function:
    def maker(*args, **kwargs):
        one, x = of_one(fun, f_argnum, args, kwargs), args[f_argnum]

        def ggnvp(v):
            out, change = calque.jvp(one, (x,), (v,))
            return calque.vjp(one, x)[1](calque.hvp(g, (out,), (change,)))[0]

        return ggnvp

    return maker


def multigrad_dict(fun: Function) -> Function:
    names = list(inspect.signature(fun).parameters)

    def gradients(*args, **kwargs):
        bound = inspect.signature(fun).bind(*args, **kwargs)
        bound.apply_defaults()
        found = calque.grad(fun, argnums=tuple(range(len(names))))(*bound.args)
        return dict(zip(names, found, strict=True))

    return gradients


def primitive(fun: Function) -> Any:
    """A function whose rule `defvjp` gives."""
    return calque.custom_vjp(fun)


def defvjp(fun: Any, *makers: Any, argnums: Any = None) -> None:
    places = range(len(makers)) if argnums is None else argnums

    def forward(*args):
        ans = fun.fun(*args)
        return ans, (ans, args)

    def backward(kept, g):
        ans, args = kept
        found = [None for _ in args]
        for place, maker in zip(places, makers):
            found[place] = maker(ans, *args)(g)
        return tuple(found)

    fun.defvjp(forward, backward)


def flatten(value: Any) -> Any:
    return calque.ravel_pytree(value)


def flatten_func(fun: Function, example: Any) -> Any:
    flat, unflatten = calque.ravel_pytree(example)

    def flattened(x, *args):
        return calque.ravel_pytree(fun(unflatten(x), *args))[0]

    return flattened, unflatten, flat


def fixed_point(f: Function, a: Any, x0: Any, distance: Function, tol: float) -> Any:
    return calque.fixed_point(lambda x, of: f(of)(x), x0, a, tolerance=tol)


def wraps(fun: Function, *texts: str, **named: Any) -> Function:
    return functools.wraps(fun)
