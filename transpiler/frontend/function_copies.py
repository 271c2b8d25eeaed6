"""Copies of functions that are made anew, of which programs are made that serve all of them.

In ``for x in batches: p = p - grad(lambda p: loss(p, x))(p)`` each iteration makes another function
of the same code. A program for all of them is made of a copy of one, and reads what is captured by
paths from the function of a call. Only the program that is being made has the copy: what is found
there is not found in any other way. Where a program does more with a function than call it, or with
an instance than read its attributes, its identity may matter: no copy is made.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import gast

from calque.transpiler.errors import SourceNotFound
from calque.transpiler.frontend.callables import is_in, is_library
from calque.transpiler.frontend.paths import FUNCTION, step
from calque.transpiler.frontend.source import source_of
from calque.transpiler.frontend.values.mutable_objects import Same
from calque.transpiler.ir.builder import FUNCTIONS

_PLAIN_BASES = ("typing", "abc", "collections.abc")


class CopiedFunction:
    """The copy of a function, and the path to each of its parts that is a copy too."""

    def __init__(self, function: Any):
        self.function = function
        self.path, own = FUNCTION, function
        if type(function) is MethodType:
            self.path, own = step(getattr, FUNCTION, "__self__"), function.__self__
        self.part = copied(own)
        self.copy = self.part if own is function else MethodType(function.__func__, self.part)


def copied(function: Any) -> Any:
    """A function with the same cells, a partial with its arguments, or a twin of an instance."""
    if is_partial(function):
        return functools.partial(function.func, *function.args, **function.keywords)
    if type(function) is not FunctionType:
        twin = object.__new__(type(function))
        object.__setattr__(twin, "__dict__", vars(function))
        return twin
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def kind_of(function: FunctionType) -> tuple[Any, ...]:
    """All that functions of one code have in common: another function of this kind may differ."""
    return (
        Same(function.__code__),
        Same(function.__globals__),
        len(function.__defaults__ or ()),
        tuple(function.__kwdefaults__ or ()),
        is_plain(function),
    )


def may_be_copied(function: Any) -> bool:
    """True for a function that is made anew, and is no more than code, defaults and cells."""
    return (
        type(function) is FunctionType
        and is_plain(function)
        and is_made_anew(function)
        and not is_in(function, FUNCTIONS)
    )


def is_made_anew(function: Any) -> bool:
    """True if a function is likely to be made again: its module does not have it by its name.

    >>> is_made_anew(lambda x: x), is_made_anew(is_made_anew), is_made_anew(functools.partial(len))
    (True, False, True)
    """
    if type(function) is FunctionType:
        return function.__globals__.get(function.__name__) is not function
    return is_partial(function) or type(function) is MethodType


def is_partial(function: Any) -> bool:
    """True if a function is a ``functools.partial``, and of no subclass."""
    return type(function) is functools.partial


def is_plain(function: FunctionType) -> bool:
    """True if code, defaults and cells are all that makes a function what it is."""
    return not vars(function) and function.__name__ == function.__code__.co_name


def only_called(function: FunctionType) -> frozenset[str]:
    """The names that a function does nothing with but call them.

    >>> f = g = len
    >>> sorted(only_called(lambda x: f(g, x) + f(x, 2.0)))
    ['f']
    """
    names: dict[str, bool] = {}
    for name, parent, child in _names(_node(function)):
        called = isinstance(parent, gast.Call) and child is parent.func
        names[name] = names.get(name, True) and called
    return frozenset(name for name, called in names.items() if called)


def _node(function: FunctionType) -> Any:
    try:
        return source_of(function).node
    except SourceNotFound:
        return None


def _names(node: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each name within a node, and what it is directly in."""
    for child in gast.iter_child_nodes(node) if node is not None else ():
        if isinstance(child, gast.Name):
            yield child.id, node, child
        else:
            yield from _names(child)


def has_twins(function: Any) -> bool:
    """True for a method, or an instance that is called, if attributes are all there is to it.

    No method of the class passes ``self`` on.
    """
    cls = type(function.__self__ if type(function) is MethodType else function)
    own = [base for base in cls.__mro__ if base.__module__ not in _PLAIN_BASES]
    if own[-1] is not object or type(cls).__call__ is not type.__call__:
        return False
    return all(
        not vars(base).get("__slots__")
        and base.__module__ != "builtins"
        and all(map(_reads_attributes, vars(base).values()))
        for base in own[:-1]
    )


def _reads_attributes(member: Any) -> bool:
    """True if a method only reads attributes of ``self``, calls them, or takes their items."""
    if isinstance(member, (staticmethod, classmethod)):
        return True
    parts = (member.fget, member.fset, member.fdel) if isinstance(member, property) else (member,)
    return all(map(_reads, parts))


def _reads(member: Any) -> bool:
    plain = getattr(member, "func", member) if type(member) is functools.cached_property else member
    plain = inspect.unwrap(plain) if callable(plain) else plain
    if not isinstance(plain, FunctionType):
        return True
    node = _node(plain)
    if node is None or is_library(plain):
        return plain.__name__.startswith("__")  # made by dataclass: nothing but Python calls it
    if not node.args.args:
        return False
    own = node.args.args[0].id
    places = ((p, c) for name, p, c in _names(node) if name == own and isinstance(c.ctx, gast.Load))
    return all(
        (isinstance(p, (gast.Attribute, gast.Subscript)) and c is p.value)
        or (isinstance(p, gast.Call) and c is p.func)
        for p, c in places
    )
