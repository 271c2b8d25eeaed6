"""Closure templates (stand-ins) for functions that are made anew, and capture binding.

The stand-in of a closure has cells of its own, that of a partial has its arguments, that of a
method an instance with the attributes of the present one. Where a program does more with a function
than call it, or with an instance than read its attributes, its identity may matter: then there is
no stand-in for it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import CellType, FunctionType, MethodType
from typing import Any

import gast

from calque.transpiler.errors import SourceNotFound
from calque.transpiler.frontend.callables import is_library
from calque.transpiler.frontend.source import source_of

_MARK = "_calque_stand_in"
_PLAIN_BASES = ("typing", "abc", "collections.abc")


def lender_for(function: Any) -> Any:
    """The lender for a function, a partial, a method or an instance; None where none can be."""
    if is_partial(function):
        return PartialLender(function)
    if type(function) is FunctionType:
        return FunctionLender(function)
    return InstanceLender(function) if _may_be_twins(type(_instance(function))) else None


class FunctionLender:
    """A function of some code, with cells of its own."""

    def __init__(self, function: FunctionType):
        code = self.code = function.__code__
        self.defaults = len(function.__defaults__ or ())
        self.keywords = tuple(function.__kwdefaults__ or ())
        self.cells = tuple(CellType() for _ in code.co_freevars)
        self.function = FunctionType(
            code, function.__globals__, function.__name__, None, self.cells
        )
        self.function.__qualname__ = function.__qualname__
        self.function.__module__ = function.__module__
        vars(self.function)[_MARK] = True
        called = only_called(function)
        self.called = frozenset(k for k, name in enumerate(code.co_freevars) if name in called)
        self.inner: dict[int, FunctionLender] = {}

    def fits(self, function: Any) -> bool:
        """True if a function has this code, these globals and as many defaults."""
        return (
            function.__code__ is self.code
            and function.__globals__ is self.function.__globals__
            and len(function.__defaults__ or ()) == self.defaults
            and tuple(function.__kwdefaults__ or ()) == self.keywords
            and is_plain(function)
        )

    def fill(self, function: FunctionType, given: dict[Any, Any]) -> None:
        """Take over what a function has captured; ``given`` has the stand-ins of this call."""
        own = given[function] = self.function
        own.__defaults__, own.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
        for k, (cell, lent) in enumerate(zip(self.cells, function.__closure__ or ())):
            try:
                value = lent.cell_contents
            except ValueError:  # it has no value yet
                continue
            if type(value) is FunctionType and k in self.called:
                value = given[value] if value in given else self._inner(k, value, given)
            cell.cell_contents = value

    def _inner(self, k: int, function: FunctionType, given: dict[Any, Any]) -> FunctionType:
        found = self.inner.get(k)
        if found is None and is_plain(function) and is_made_anew(function):
            found = self.inner[k] = FunctionLender(function)
        if found is None or not found.fits(function):
            return function
        found.fill(function, given)
        return found.function

    def empty(self) -> None:
        """Release all captured values."""
        for cell in self.cells:
            del cell.cell_contents
        own = self.function
        own.__defaults__ = own.__kwdefaults__ = None
        for inner in self.inner.values():
            inner.empty()


class PartialLender:
    """A partial of some function, with as many arguments."""

    def __init__(self, function: functools.partial[Any]):
        self.given = function.func
        self.shape = (len(function.args), tuple(function.keywords))
        self.function: Any = functools.partial(function.func)
        vars(self.function)[_MARK] = True

    def fits(self, function: functools.partial[Any]) -> bool:
        """True if a partial is of this function, with as many arguments."""
        return (
            function.func is self.given
            and (len(function.args), tuple(function.keywords)) == self.shape
            and not vars(function)
        )

    def fill(self, function: functools.partial[Any], given: dict[Any, Any]) -> None:
        """Take over the arguments that a partial carries."""
        state = (function.func, function.args, function.keywords, {_MARK: True})
        self.function.__setstate__(state)

    def empty(self) -> None:
        """Carry no arguments."""
        self.function.__setstate__((self.given, (), {}, {_MARK: True}))


class InstanceLender:
    """An instance that has the attributes of another one for a while, or a method of it."""

    def __init__(self, function: Any):
        own = _instance(function)
        self.cls, self.twin = type(own), object.__new__(type(own))
        self.method = getattr(function, "__func__", None)
        self.function = self.twin if own is function else MethodType(function.__func__, self.twin)

    def fits(self, function: Any) -> bool:
        """True if a function is another instance of the class, or this method of one."""
        own = _instance(function)
        method = getattr(function, "__func__", None)
        return method is self.method and type(own) is self.cls and own is not self.twin

    def fill(self, function: Any, given: dict[Any, Any]) -> None:
        """Take over all attributes."""
        object.__setattr__(self.twin, "__dict__", vars(_instance(function)))

    def empty(self) -> None:
        """Have no attributes."""
        object.__setattr__(self.twin, "__dict__", {})


def _instance(function: Any) -> Any:
    return function.__self__ if type(function) is MethodType else function


def stands_in(function: Any) -> bool:
    """True if a function is a stand-in: a template to which calls bind their captures."""
    return _MARK in getattr(function, "__dict__", ())


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


def _may_be_twins(cls: type) -> bool:
    """True if attributes are all there is to instances, and no method passes ``self`` on."""
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
