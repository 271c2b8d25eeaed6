"""Split long kernels: their loops become functions that the kernel calls.

Numba and LLVM take more than twice as long for a function twice as long. Before::

    @kernel
    def f_kernel(x, y, z):
        ...
        for i in prange(x.size):
            y[i] = exp(x[i])
        ...

After, if the kernel has many loops::

    @kernel_part
    def set_y(x, y):
        for i in prange(x.size):
            y[i] = exp(x[i])


    @kernel
    def f_kernel(x, y, z):
        ...
        set_y(x, y)
        ...

Loops that differ only in the names of their variables, with equal comments, share one function.
Branches that hold a loop count as loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gast

from calque.transpiler.codegen.text.layout import Notes
from calque.transpiler.codegen.text.spelling import call, name, target
from calque.transpiler.codegen.text.tree_variables import (
    Live,
    LiveNames,
    assigned_in,
    mentions,
    surely_assigned,
)

MANY = 24  # the number of loops from which a kernel is split
LEAST, MOST = 3, 40  # statements of such a function; larger loops are split inside
PART = "kernel_part"  # the decorator of such a function
_NAMED = 2  # arrays in its name
_LONGEST = 40  # letters


def in_parts(trees: Sequence[Any], notes: Notes, reserved: Iterable[str]) -> list[Any]:
    """The functions of a module, with the parts of long kernels before each."""
    split = [t for t in trees if _is_proven(t) and sum(1 for _ in _candidates(t.body)) >= MANY]
    if not split:
        return list(trees)
    taken = {*reserved, *(n for t in trees for n, _ in mentions(t))}
    taken |= {t.name for t in trees} | {a.id for t in trees for a in t.args.args}
    parts = _Parts(notes, taken)
    made: list[Any] = []
    for tree in trees:
        if tree in split:
            parts.split(tree)
            made += parts.new
            parts.new = []
        made.append(tree)
    return made


def _is_proven(tree: Any) -> bool:
    """True if a function is a kernel without bounds checks, which parts do not have either."""
    if not tree.decorator_list:
        return False
    head = tree.decorator_list[-1]
    keywords = head.keywords if isinstance(head, gast.Call) else []
    called = head.func if isinstance(head, gast.Call) else head
    return called.id == "kernel" and all(k.arg != "boundscheck" for k in keywords)


def _candidates(body: Sequence[Any]) -> Iterator[Any]:
    """The outermost loops, and branches with a loop, that may become functions."""
    for s in body:
        if isinstance(s, (gast.For, gast.While, gast.If)):
            if _may_be_part(s):
                yield s
            else:
                yield from _candidates(s.body)
                yield from _candidates(s.orelse)


def _may_be_part(s: Any) -> bool:
    """True if a statement has a suitable size, holds a loop, and has no jump out of it."""
    if isinstance(s, gast.While):
        return False
    inner = list(_statements(s))
    if not LEAST <= len(inner) <= MOST or not any(isinstance(t, gast.For) for t in inner):
        return False
    leaves = (gast.Return, gast.Raise, gast.Assert, gast.Break, gast.Continue)
    return not any(isinstance(t, leaves) for t in inner)


def _statements(s: Any) -> Iterator[Any]:
    """A statement and those within it."""
    yield s
    if isinstance(s, (gast.For, gast.While, gast.If)):
        for inner in (*s.body, *s.orelse):
            if not Notes.is_note(inner):
                yield from _statements(inner)


class _Parts:
    def __init__(self, notes: Notes, taken: set[str]):
        self.notes, self.taken = notes, taken
        self.new: list[Any] = []
        self.known: dict[Any, str] = {}

    def split(self, kernel: Any) -> None:
        """Write calls for the loops of a kernel, in place."""
        given = frozenset(a.id for a in kernel.args.args)
        self.variables = given | assigned_in(kernel.body)
        self.live = LiveNames(kernel.body)
        self.after = dict(self.live.after)
        self._block(kernel.body, given)

    def _block(self, body: list[Any], assigned: Live) -> None:
        """Write calls in a block, before which the names ``assigned`` surely have values."""
        for k, s in enumerate(body):
            if _may_be_part(s):
                body[k] = self._called(s, assigned)
            elif isinstance(s, (gast.For, gast.While, gast.If)):
                inside = assigned_in([s.target]) if isinstance(s, gast.For) else frozenset()
                self._block(s.body, assigned | inside)
                self._block(s.orelse, assigned)
            assigned |= surely_assigned([body[k]])

    def _called(self, s: Any, assigned: Live) -> Any:
        """The call of a function with the statement in it; or the statement itself."""
        own = self.live.before_alone(s) & self.variables
        stored = assigned_in([s])
        outs = stored & self.after[id(s)]
        own |= outs - surely_assigned([s])  # returned unchanged by a zero-trip loop
        if not own <= assigned:
            return s
        order = [n for n in dict.fromkeys(n for n, _ in mentions(s)) if n in own | outs]
        params, given_back = [n for n in order if n in own], [n for n in order if n in outs]
        places = [tuple(map(order.index, names)) for names in (params, given_back)]
        key = self._form(s, {}), *places
        if key not in self.known:
            self.known[key] = self._written(s, params, given_back)
        value = call(name(self.known[key]), *map(name, params))
        if not given_back:
            return gast.Expr(value)
        return gast.Assign([_one_or_tuple([target(name(n)) for n in given_back])], value, None)

    def _written(self, s: Any, params: list[str], given_back: list[str]) -> str:
        """A new function of one statement."""
        title = self._title(s, given_back)
        body = [s]
        if given_back:
            body.append(gast.Return(_one_or_tuple([name(n) for n in given_back], gast.Load)))
        taken = [gast.Name(p, gast.Param(), None, None) for p in params]
        arguments = gast.arguments(taken, [], None, [], [], None, [])
        self.new.append(gast.FunctionDef(title, arguments, body, [name(PART)], None, None, []))
        return title

    def _title(self, s: Any, given_back: list[str]) -> str:
        """A name: ``set_x`` for a loop that sets elements of ``x``, or ``x`` itself."""
        stores = [t.value.id for t in gast.walk(s) if _is_element(t)]
        what = list(dict.fromkeys([*given_back, *stores]))
        wish = "set_" + "_and_".join(what[:_NAMED])
        wish = wish if len(wish) <= _LONGEST else "set_" + "_and_".join(what[:1])
        wishes = (f"{wish}_{number}" if number > 1 else wish for number in itertools.count(1))
        found = next(w for w in wishes if w not in self.taken)
        self.taken.add(found)
        return found

    def _form(self, tree: Any, numbers: dict[str, int]) -> Any:
        """A key that is equal for trees that differ in the names of variables alone."""
        if isinstance(tree, list):
            return tuple([self._form(part, numbers) for part in tree])
        if not isinstance(tree, gast.AST):
            return type(tree), repr(tree)
        if self.notes.is_note(tree):
            return self.notes.told(tree)
        if isinstance(tree, gast.Name) and tree.id in self.variables:
            return numbers.setdefault(tree.id, len(numbers))
        fields = (value for field, value in gast.iter_fields(tree) if field != "ctx")
        return type(tree), *[self._form(value, numbers) for value in fields]


def _is_element(tree: Any) -> bool:
    """True if a tree is an assigned element of an array with a name."""
    is_store = isinstance(tree, gast.Subscript) and isinstance(tree.ctx, gast.Store)
    return is_store and isinstance(tree.value, gast.Name)


def _one_or_tuple(items: list[Any], context: Any = gast.Store) -> Any:
    return items[0] if len(items) == 1 else gast.Tuple(items, context())
