"""Statements whose expressions may raise, rewritten so that each such part is a statement.

Before, within a ``try``::

    y = scale(a[i]) / b + f(x)

After, where ``%1`` and so on are hidden names and each marked line may leave the ``try``::

    %1 = scale(a[i])   # marked
    %2 = %1 / b        # marked
    %3 = f(x)          # marked
    y = %2 + %3

What is evaluated before a marked part stays before it. Parts of comprehensions, lambdas and
chained comparisons stay where they are: an error within them is refused, if there is a handler.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import gast

HIDDEN = "%raising"  # how the hidden names begin
_names = itertools.count(1)
_OF_OWN_SCOPE = (
    gast.Lambda,
    gast.ListComp,
    gast.SetComp,
    gast.DictComp,
    gast.GeneratorExp,
    gast.NamedExpr,
    gast.JoinedStr,
    gast.Yield,
    gast.YieldFrom,
    gast.Await,
)
_PARTS = {  # the expression that a statement evaluates first
    gast.Assign: "value",
    gast.AugAssign: "value",
    gast.AnnAssign: "value",
    gast.Expr: "value",
    gast.Return: "value",
    gast.If: "test",
    gast.For: "iter",
}


class Hoisted(gast.Pass):
    """A statement that binds a hidden name to the value of an expression that may raise."""

    _fields = ("value",)

    def __init__(self, name: str, value: Any):
        super().__init__()
        self.name, self.value = name, value


class Forgotten(gast.Pass):
    """A statement after which hidden names have no value any more."""

    def __init__(self, names: list[str]):
        super().__init__()
        self.names = names


class Hoisting:
    """The rewriting of one statement; ``raises`` tells expressions that may raise by themselves.

    ``plainly``: such an expression is to be bound to a name, and raises nothing.
    """

    def __init__(self, raises: Callable[[Any], bool], plainly: bool = False):
        self.raises, self.plainly = raises, plainly
        self.statements: list[Any] = []
        self.names: list[str] = []

    def of(self, statement: Any) -> list[Any] | None:
        """The statements to run in the place of one; None if no part of it is marked."""
        field = _PARTS.get(type(statement))
        value = None if field is None else getattr(statement, field)
        if value is None or not self.may_raise(value):
            return None
        new = self._lifted(value)
        last = _copy(statement, **{str(field): new})
        forgotten = gast.copy_location(Forgotten(self.names), statement)
        if isinstance(statement, gast.If):
            arms = [[forgotten, *arm] for arm in (statement.body, statement.orelse)]
            return [*self.statements, _copy(last, body=arms[0], orelse=arms[1])]
        return [*self.statements, last, forgotten]

    def may_raise(self, node: Any) -> bool:
        """True if an expression has a part that may raise and can be a statement."""
        if not isinstance(node, gast.AST) or isinstance(node, _OF_OWN_SCOPE):
            return False
        if isinstance(node, gast.Compare) and len(node.ops) > 1:
            return self.may_raise(node.left)
        return self.raises(node) or any(map(self.may_raise, gast.iter_child_nodes(node)))

    def _bound(self, value: Any, marked: bool) -> Any:
        """A hidden name, bound to the value of an expression."""
        name = f"{HIDDEN}{next(_names)}"
        self.names.append(name)
        made: Any = Hoisted(name, value)
        if not marked or self.plainly:
            made = gast.Assign(targets=[_name(name, gast.Store(), value)], value=value)
        self.statements.append(gast.copy_location(made, value))
        return _name(name, gast.Load(), value)

    def _lifted(self, node: Any) -> Any:
        """An expression in which marked parts are hidden names."""
        if not self.may_raise(node):
            return node
        if isinstance(node, gast.IfExp):
            test = self._lifted(node.test)
            return self._chosen(test, node.body, node.orelse, node)
        if isinstance(node, gast.BoolOp):
            return self._short(node.op, node.values, node)
        if isinstance(node, gast.Compare) and len(node.ops) > 1:
            return _copy(node, left=self._lifted(node.left))
        new = self._with_parts(node)
        return self._bound(new, True) if self.raises(node) else new

    def _with_parts(self, node: Any) -> Any:
        """An expression with its parts lifted, and those before a marked one bound to names."""
        places: list[tuple[str, int | None, Any]] = []
        for field in node._fields:
            part = getattr(node, field)
            if isinstance(part, list):
                places += [(field, k, p) for k, p in enumerate(part)]
            else:
                places.append((field, None, part))
        marked = [k for k, (_, _, part) in enumerate(places) if self.may_raise(part)]
        new: dict[str, Any] = {f: _own(getattr(node, f)) for f in node._fields}
        for k, (field, at, part) in enumerate(places):
            made = part
            if k in marked:
                made = self._lifted(part)
            elif marked and k < marked[-1] and _has_value(part, node, field):
                made = self._bound(part, False)
            if at is None:
                new[field] = made
            else:
                new[field][at] = made
        return gast.copy_location(type(node)(**new), node)

    def _chosen(self, test: Any, then: Any, orelse: Any, node: Any) -> Any:
        """``then if test else orelse`` as a statement."""
        name = f"{HIDDEN}{next(_names)}"
        arms = [self._into(name, then), self._into(name, orelse)]
        self.names.append(name)
        made = gast.If(test=test, body=arms[0], orelse=arms[1])
        self.statements.append(gast.copy_location(made, node))
        return _name(name, gast.Load(), node)

    def _into(self, name: str, value: Any) -> list[Any]:
        """Statements that bind a hidden name to a value."""
        inner = Hoisting(self.raises, self.plainly)
        new = inner._lifted(value)
        bound = gast.Assign(targets=[_name(name, gast.Store(), value)], value=new)
        self.names += inner.names
        return [*inner.statements, gast.copy_location(bound, value)]

    def _short(self, op: Any, values: list[Any], node: Any) -> Any:
        """``a and b``, or ``a or b``, as statements."""
        first, *rest = values
        value = self._bound(self._lifted(first), False)
        if not rest:
            return value
        others = rest[0] if len(rest) == 1 else _copy(node, values=rest)
        arms = (others, value) if isinstance(op, gast.And) else (value, others)
        return self._chosen(value, *arms, node)


def _name(name: str, context: Any, node: Any) -> Any:
    made = gast.Name(id=name, ctx=context, annotation=None, type_comment=None)
    return gast.copy_location(made, node)


def _own(part: Any) -> Any:
    return list(part) if isinstance(part, list) else part


def _copy(node: Any, **changes: Any) -> Any:
    """A node with some fields changed."""
    fields = {f: getattr(node, f) for f in node._fields} | changes
    return gast.copy_location(type(node)(**fields), node)


def _has_value(part: Any, node: Any, field: str) -> bool:
    """True for an expression whose value might be another one later."""
    if isinstance(node, gast.Call) and field == "func":
        return False
    plain = (gast.Constant, gast.Starred, gast.Slice, *_OF_OWN_SCOPE)
    return isinstance(part, gast.expr) and not isinstance(part, plain)
