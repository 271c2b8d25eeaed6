"""Transformations that interpreted code makes, and what a call of a public function means there.

The module of a public function says beside it what a call means in interpreted code: to be read by
the interpreter, one has to be imported. ``made`` is for those that transform a function.
"""

from __future__ import annotations

from typing import Any

from calque.runtime.inlining import TRACE
from calque.runtime.options import UNSAID, checked, given
from calque.runtime.parameters import check_reach
from calque.runtime.transformed import OTHER_ARGUMENTS
from calque.transpiler.frontend.machine import Args, Kwargs, Machine


def by_argument(kind: str, argnums: Any, argnames: Any) -> Any:
    """The numbers or names to differentiate by: ``argnames``, where it is given.

    >>> by_argument("grad", 0, ["w", "b"]), by_argument("grad", [1, "b"], None)
    (('w', 'b'), (1, 'b'))
    """
    if argnames is None:
        return checked(kind, argnums=argnums)["argnums"]
    if type(argnums) is not int or argnums:
        raise ValueError(f"{kind}: argnums and argnames are both given: leave one of them out")
    found = checked(kind, argnames=argnames)["argnames"]
    return found[0] if isinstance(argnames, str) else found


class InnerTransformation:
    """A transformation of a function defined by interpreted code."""

    def __init__(self, kind: str, function: Any, options: dict[str, Any]):
        self.kind, self.function, self.options = kind, function, options

    def calque_same_arguments(self) -> Any:
        """The function with the same arguments as this one; None if they differ."""
        return None if self.kind in OTHER_ARGUMENTS else self.function

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        return TRACE[self.kind](self, machine, args, kwargs, node)

    def calque_children(self) -> list[Any]:
        """The objects that a snapshot of the heap must follow."""
        return [self.function]


class InnerDecorator:
    """``grad(argnums=1)``, waiting for its function."""

    def __init__(self, kind: str, options: dict[str, Any]):
        self.kind, self.options = kind, options

    def __calque_trace__(self, machine: Machine, args: Args, kwargs: Kwargs, node: Any) -> Any:
        (function,) = given(waiting, args, kwargs).values()
        return made(self.kind, function, self.options)


def waiting(fun: Any) -> Any:
    """The signature of a decorator, by which its argument is bound."""


def made(kind: str, function: Any, options: dict[str, Any]) -> Any:
    """The transformed function; where there is none yet, a decorator."""
    if function is UNSAID:
        return InnerDecorator(kind, options)
    checked(kind, fun=function)
    check_reach(kind, function, options)
    return InnerTransformation(kind, function, options)


def derivative(public: Any) -> Any:
    """Return the implementation of a public function that differentiates, by its name."""
    kind = public.__name__

    def make(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        options = given(public, args, kwargs)
        function = options.pop("fun")
        argnums = by_argument(kind, options.pop("argnums"), options.pop("argnames"))
        return made(kind, function, {**checked(kind, **options), "argnums": argnums})

    return make
