"""Liveness and definite assignment of variables on the syntax tree of a function.

A name is live after a statement if it is read later on some path; it is surely assigned if it is
assigned on every path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gast

Live = frozenset[str]
NONE: Live = frozenset()


def mentions(tree: Any) -> Iterator[tuple[str, bool]]:
    """The names in a tree in the order of evaluation, each with True if it is assigned.

    >>> list(mentions(gast.parse("s += y").body[0]))
    [('s', False), ('y', False), ('s', True)]
    """
    match tree:
        case gast.Name():
            yield tree.id, isinstance(tree.ctx, gast.Store)
        case gast.Assign():
            yield from mentions(tree.value)
            yield from (m for t in tree.targets for m in mentions(t))
        case gast.AugAssign():
            if isinstance(tree.target, gast.Name):
                yield tree.target.id, False
            yield from mentions(tree.value)
            yield from mentions(tree.target)
        case gast.For():
            yield from mentions(tree.iter)
            yield from mentions(tree.target)
            yield from (m for s in tree.body for m in mentions(s))
        case gast.Constant():
            return
        case gast.AST():
            for field in tree._fields:
                yield from mentions(getattr(tree, field, None))
        case list():
            for part in tree:
                yield from mentions(part)


def read_in(tree: Any) -> Live:
    """The names that a tree reads."""
    return frozenset(name for name, assigned in mentions(tree) if not assigned)


def assigned_in(trees: Iterable[Any]) -> Live:
    """The names that trees assign, also within loops and branches."""
    return frozenset(name for t in trees for name, assigned in mentions(t) if assigned)


class LiveNames:
    """The names that are live after each statement of a function's body, by the statement's id."""

    def __init__(self, body: Sequence[Any]):
        self.after: dict[int, Live] = {}
        self._lines: dict[int, tuple[Live, Live]] = {}  # the names that each reads and assigns
        self.before = self._block(body, NONE, NONE, NONE)

    def before_alone(self, s: Any) -> Live:
        """The names that would be live before a statement if it were the last one."""
        return self._statement(s, NONE, NONE, NONE)

    def _block(self, body: Sequence[Any], live: Live, left: Live, again: Live) -> Live:
        """The names live before statements; ``left``: at ``break``, ``again``: at ``continue``."""
        for s in reversed(body):
            self.after[id(s)] = live
            live = self._statement(s, live, left, again)
        return live

    def _statement(self, s: Any, live: Live, left: Live, again: Live) -> Live:
        match s:
            case gast.If():
                then = self._block(s.body, live, left, again)
                return then | self._block(s.orelse, live, left, again) | read_in(s.test)
            case gast.For():
                return self._loop(s.body, live, assigned_in([s.target]), NONE) | read_in(s.iter)
            case gast.While():
                return self._loop(s.body, live, NONE, read_in(s.test))
            case gast.Break():
                return left
            case gast.Continue():
                return again
            case gast.Return() | gast.Raise():
                return read_in(s)
        if id(s) not in self._lines:
            self._lines[id(s)] = read_in(s), assigned_in([s])
        read, assigned = self._lines[id(s)]
        return live - assigned | read

    def _loop(self, body: Sequence[Any], live: Live, counter: Live, test: Live) -> Live:
        head = live | test
        while True:
            found = head | (self._block(body, head, live, head) - counter)
            if found == head:
                return head
            head = found


def surely_assigned(body: Sequence[Any]) -> Live:
    """The names that statements assign on every path through them.

    >>> sorted(surely_assigned(gast.parse("if a:\\n    b = c = 2\\nelse:\\n    b = 3").body))
    ['b']
    """
    found: Live = NONE
    for s in body:
        if isinstance(s, gast.If):
            found |= surely_assigned(s.body) & surely_assigned(s.orelse)
        elif not isinstance(s, (gast.For, gast.While)):
            found |= assigned_in([s])
    return found
