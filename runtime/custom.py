"""``custom_jvp``, ``custom_vjp`` and ``checkpoint``, with JAX's names and semantics.

Called on plain arrays they run the function. Where a derivative passes through a call of one, its
rule takes the place of what the function's own statements would give.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any

from calque.runtime import typed
from calque.runtime.fitting import fitting, function, function_or_none
from calque.runtime.options import UNSAID, checked, given
from calque.runtime.parameters import within
from calque.transpiler.autodiff.rules.custom_jvp import call_custom_jvp, total
from calque.transpiler.autodiff.rules.custom_vjp import call_custom_vjp
from calque.transpiler.autodiff.rules.segmented_loops import Every, call_checkpoint
from calque.transpiler.errors import MissingRule
from calque.transpiler.frontend.guarding import Guard
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Closure, Kwargs, Machine
from calque.transpiler.frontend.paths import of_object, step
from calque.transpiler.transformations.derivatives import positions_of


class Wrapped:
    """A function with something to say to derivative passes; called, it is the function."""

    maker = "checkpoint"  # what users call to make it

    def __init__(self, fun: Any):
        checked(self.maker, fun=fun)
        self.fun = fun
        self.__name__ = getattr(fun, "__name__", getattr(fun, "name", "function"))
        if not isinstance(fun, Closure):
            functools.update_wrapper(self, fun, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<calque {type(self).__name__} of {self.__name__}>"

    def __reduce__(self) -> Any:
        return getattr(self, "__qualname__", self.__name__)  # by name, as functions are

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.fun]

    def calque_same_arguments(self) -> Any:
        """The function that takes the same positional arguments as this one."""
        return self.fun


class Custom(Wrapped):
    """A function with rules of its own."""

    rules: tuple[Any, ...] | None = None
    missing = ""

    def __init__(self, fun: Any, nondiff_argnums: int | Sequence[int] = ()):
        super().__init__(fun)
        self.nondiff_argnums = checked(self.maker, nondiff_argnums=nondiff_argnums)[
            "nondiff_argnums"
        ]
        within(self.maker, "nondiff_argnums", self.nondiff_argnums, fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.required()
        return self.fun(*args, **kwargs)

    def required(self) -> tuple[Any, ...]:
        """The rules; an error that is an AttributeError too, as in JAX, where none was given."""
        if self.rules is None:
            raise MissingRule(f"{self.__name__} has no rule yet: {self.missing}")
        return self.rules

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.fun, *(self.rules or ())]

    def positional(self, machine: Machine, args: Args, kwargs: Kwargs) -> list[Any]:
        """The arguments by position, defaults put in."""
        if isinstance(self.fun, Closure):
            names = [a.id for a in self.fun.node.args.args]
            defaults = dict(zip(names[::-1], self.fun.defaults[::-1], strict=False))
            known = {**defaults, **kwargs}
            return [*args, *(known[n] for n in names[len(args) :] if n in known)]
        if not kwargs and not isinstance(self.fun, (FunctionType, MethodType)):
            return list(args)  # a ufunc, say, has no signature
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.__name__}: the keyword-only argument {next(iter(bound.kwargs))} "
                "cannot be given to a function with rules of its own"
            )
        return list(bound.args)

    def numbers(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The positions of the arguments that are not differentiated."""
        return tuple(
            sorted(positions_of(self.nondiff_argnums, len(args), self.__name__, "nondiff_argnums"))
        )

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        rules = self.required()
        machine.guards.append(Guard(step(getattr, of_object(self), "rules"), rules))
        return self.trace(machine, self.positional(machine, args, kwargs), node)

    def trace(self, machine: Machine, args: list[Any], node: Any) -> Any:
        """The call, recorded."""
        raise NotImplementedError


class Definition:
    """``f.defjvp`` and the like, for plain Python and for interpreted code alike."""

    def __init__(self, define: Callable[..., Any]):
        self.define = define

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.define(*args, **kwargs)

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return self.define(*args, **kwargs)


class CustomJvp(Custom):
    """See ``custom_jvp``."""

    missing, maker = "give it one with defjvp or defjvps", "custom_jvp"

    def __init__(self, fun: Any, nondiff_argnums: int | Sequence[int] = ()):
        super().__init__(fun, nondiff_argnums)
        self.defjvp, self.defjvps = Definition(self._defjvp), Definition(self._defjvps)

    def _defjvp(self, jvp: Any, symbolic_zeros: bool = False) -> Any:
        checked("defjvp", symbolic_zeros=symbolic_zeros)
        fitting(function, jvp, "defjvp", "jvp")
        self.rules = (jvp,)
        return jvp

    def _defjvps(self, *jvps: Any) -> None:
        if self.nondiff_argnums:
            raise TypeError("defjvps cannot be used with nondiff_argnums: use defjvp")
        for number, jvp in enumerate(jvps):
            fitting(function_or_none, jvp, "defjvps", f"jvps[{number}]")
        self.rules = (Sum(self, jvps),)

    def trace(self, machine: Machine, args: list[Any], node: Any) -> Any:
        """The call, recorded with its rule."""
        (rule,) = self.required()
        return call_custom_jvp(machine, self.fun, rule, self.numbers(args), args, node)


class Sum:
    """The rule that ``defjvps`` means: a sum of one term an argument."""

    def __init__(self, function: CustomJvp, jvps: Sequence[Any]):
        self.function, self.jvps = function, tuple(jvps)
        self.__name__ = function.__name__

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        primals, tangents = args
        out = machine.call_value(self.function, list(primals), {}, node)
        terms = [
            machine.call_value(jvp, [t, out, *primals], {}, node)
            for jvp, t in zip(self.jvps, tangents, strict=True)
            if jvp is not None
        ]
        return out, total(terms, out)

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [j for j in self.jvps if j is not None]


class CustomVjp(Custom):
    """See ``custom_vjp``."""

    missing, maker = "give it one with defvjp", "custom_vjp"

    def __init__(self, fun: Any, nondiff_argnums: int | Sequence[int] = ()):
        super().__init__(fun, nondiff_argnums)
        self.defvjp = Definition(self._defvjp)

    def _defvjp(
        self, fwd: Any, bwd: Any, symbolic_zeros: bool = False, optimize_remat: bool = False
    ) -> None:
        options = {"symbolic_zeros": symbolic_zeros, "optimize_remat": optimize_remat}
        checked("defvjp", fwd=fwd, bwd=bwd, **options)
        self.rules = (fwd, bwd)

    def trace(self, machine: Machine, args: list[Any], node: Any) -> Any:
        """The call, recorded with its rules."""
        fwd, bwd = self.required()
        where = self.numbers(args)
        return call_custom_vjp(machine, self.fun, (fwd, bwd), where, args, node)


@typed.tangent_rules
def custom_jvp(fun: Any = UNSAID, nondiff_argnums: int | Sequence[int] = ()) -> Any:
    """A function with a tangent rule of its own, as ``jax.custom_jvp``; also ``@custom_jvp``.

    ``f.defjvp(rule)`` declares ``rule(*nondiff, primals, tangents)``, which returns the value and
    its tangent; ``f.defjvps(*rules)`` one rule ``rule(t, primal_out, *primals)`` an argument.
    Reverse mode transposes the rule, which must be linear in the tangents. Raises CustomRuleError
    where a rule does not fit its function, NotDifferentiable where a captured value would be
    differentiated.

    ``fun`` is the function; ``nondiff_argnums`` are positions of arguments that are no numbers, or
    have no tangent: rules get them first.

    >>> import numpy as np, calque
    >>> @custom_jvp
    ... def log1pexp(x):
    ...     return np.log(1.0 + np.exp(x))
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(primals, tangents):
    ...     (x,), (x_dot,) = primals, tangents
    ...     return log1pexp(x), x_dot / (1.0 + np.exp(-x))
    >>> float(calque.grad(log1pexp)(0.0))
    0.5
    """
    if fun is UNSAID:
        checked("custom_jvp", nondiff_argnums=nondiff_argnums)
        return functools.partial(custom_jvp, nondiff_argnums=nondiff_argnums)
    return CustomJvp(fun, nondiff_argnums)


@typed.cotangent_rules
def custom_vjp(fun: Any = UNSAID, nondiff_argnums: int | Sequence[int] = ()) -> Any:
    """A function with a cotangent rule of its own, as ``jax.custom_vjp``; also ``@custom_vjp``.

    ``f.defvjp(fwd, bwd)``: ``fwd(*args)`` returns the value and residuals, any pytree;
    ``bwd(*nondiff, residuals, out_bar)`` a tuple of cotangents, one for each differentiable
    argument, None for zero. Forward mode over such a call raises NotDifferentiable, a rule that
    does not fit CustomRuleError.

    ``fun`` is the function; ``nondiff_argnums`` are positions of arguments that are no numbers, or
    have no cotangent: ``bwd`` gets them first.

    >>> import calque
    >>> @custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (min(g, 1.0),))
    >>> float(calque.grad(lambda x: 5.0 * clipped(x))(3.0))
    1.0
    """
    if fun is UNSAID:
        checked("custom_vjp", nondiff_argnums=nondiff_argnums)
        return functools.partial(custom_vjp, nondiff_argnums=nondiff_argnums)
    return CustomVjp(fun, nondiff_argnums)


class Checkpoint(Wrapped):
    """See ``checkpoint``."""

    def __init__(self, fun: Any, every: Every, memory: int | None):
        super().__init__(fun)
        self.every, self.memory = every, memory

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return call_checkpoint(machine, self.fun, self.every, self.memory, args, kwargs, node)


@typed.checkpointing
def checkpoint(
    fun: Any = UNSAID,
    *,
    every: Every = None,
    memory: int | str | None = None,
    prevent_cse: bool = True,
    policy: None = None,
    static_argnums: int | Sequence[int] = (),
) -> Any:
    """``fun``, none of whose values are saved for reverse mode, as ``jax.checkpoint``.

    The reverse phase runs the function again. ``every=k`` instead saves the carried values of its
    outermost loops at every k-th iteration, and runs again one segment of k iterations at a time;
    ``every="sqrt"`` lets k be about the square root of the trip count (of a ``while``, whose trip
    count is not known before, each segment is one iteration longer than the one before).

    ``memory`` is the number of bytes, or a text such as ``"500MB"``, that the states of loops may
    take: as many are saved as it holds, all if it holds all; iterations between them are run again,
    about once if it holds the root of twice the iterations (Griewank and Walther 2000). The loops
    share it; it is at least one state a loop. Arguments that are known numbers are static anyway;
    ``prevent_cse`` has nothing to prevent here.

    ``policy`` must be None: which values are saved is not to be chosen. ``static_argnums`` are
    positions of arguments that are known values.

    >>> import numpy as np, calque
    >>> f = checkpoint(lambda x: np.sin(np.sin(x)))
    >>> float(calque.grad(f)(0.0))
    1.0
    """
    options = checked(
        "checkpoint",
        every=every,
        memory=memory,
        prevent_cse=prevent_cse,
        policy=policy,
        static_argnums=static_argnums,
    )
    if fun is UNSAID:
        return functools.partial(checkpoint, **options)
    within("checkpoint", "static_argnums", options["static_argnums"], fun)
    if options["every"] is not None and options["memory"] is not None:
        raise ValueError("checkpoint: every and memory both say what is saved: give one of them")
    return Checkpoint(fun, options["every"], options["memory"])


remat = checkpoint


def _maker(make: Any) -> Any:
    def handle(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        return make(**given(make, args, kwargs))

    return handle


for _make in (custom_jvp, custom_vjp, checkpoint):
    builtin(_make)(_maker(_make))
