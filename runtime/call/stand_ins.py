"""Functions that are made anew share programs: calls bind their captures to closure templates.

In ``for x in batches: p = p - grad(lambda p: loss(p, x))(p)`` each iteration makes another function
of the same code. From the second on, programs belong to a closure template, its stand-in: a
function of this code with closure cells of its own, which hold the captures of the present function
while its program is looked up. So captures are checked as ever, and an array that changes is an
input. Closures that these only call (``def predict(p)`` in the loop, ``lambda p:
loss(predict(p))``) have stand-ins too.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from calque.runtime.call.lenders import is_made_anew, is_partial, is_plain, lender_for
from calque.transpiler.forking import run_in_children
from calque.transpiler.frontend.callables import is_in, is_library
from calque.transpiler.ir.builder import FUNCTIONS

_MOST = 256  # kinds of functions made anew that are remembered
_PATIENCE = 5.0  # seconds, until a call goes on with programs of its own
_seen: dict[Any, Any] = {}  # what is made anew: first what must live on, then its stand-in
_all: weakref.WeakSet[Any] = weakref.WeakSet()


class _Seen:
    """Functions that were made anew, but for which no stand-in can be: each is its own."""

    def __init__(self, kept: tuple[Any, ...]):
        self.kept = kept  # so that nothing else gets its id
        self.alone = False  # nothing can stand in for them


class StandIn:
    """A closure template: programs are generated of it in place of functions made anew."""

    def __init__(self, lender: Any):
        self.lock = threading.Lock()
        self.owner = 0  # the thread that has it
        self.homes: dict[Any, Any] = {}  # the transformations of it
        self.lender = lender
        self.function = lender.function
        _all.add(self)

    def take(self) -> bool:
        """Lock the stand-in; False where this thread has it, or another one has it for long."""
        if self.owner == threading.get_ident() or not self.lock.acquire(timeout=_PATIENCE):
            return False
        self.owner = threading.get_ident()
        return True

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *error: object) -> None:
        """Release the captures bound to the stand-in, and its lock."""
        self.lender.empty()
        self.owner = 0
        self.lock.release()


def stand_in_for(function: Any) -> StandIn | None:
    """The stand-in of a function that was made anew; None for others, and at the first one."""
    kind = type(function)
    if kind is FunctionType:
        if not is_plain(function) or not is_made_anew(function) or is_in(function, FUNCTIONS):
            return None
        kept: tuple[Any, ...] = (function.__code__, function.__globals__)
        key: Any = tuple(map(id, kept))
    elif is_partial(function) and type(function.func) is FunctionType and not vars(function):
        kept = (function.func,)
        key = (id(function.func), len(function.args), *function.keywords)
    elif kind is MethodType and not isinstance(function.__self__, type):
        kept = (function.__func__, type(function.__self__))
        key = (*map(id, kept), "method")
    elif _is_called_as_a_user_says(kind):
        kept = (kind,)
        key = (id(kind), "instance")
    else:
        return None
    found = _seen.get(key)
    if found is None:
        while len(_seen) >= _MOST:
            _seen.pop(next(iter(_seen)), None)
        _seen[key] = _Seen(kept)
        return None
    if isinstance(found, _Seen):
        lender = None if found.alone else lender_for(function)
        if lender is None:
            found.alone = True
            return None
        found = _seen[key] = StandIn(lender)
    return found if found.lender.fits(function) else None


def _is_called_as_a_user_says(kind: type) -> bool:
    called: Any = getattr(kind, "__call__")  # noqa: B004, B009
    own = (kind.__module__ or "").startswith("calque.")
    return type(called) is FunctionType and not own and not is_library(called)


def _free_all() -> None:
    """Free all stand-ins in a forked child, in which no other thread has one."""
    for stand_in in list(_all):
        stand_in.lock, stand_in.owner = threading.Lock(), 0


run_in_children(_free_all)


class Lent:
    """Calls of one transformed function through the stand-in for the function that it is of."""

    __slots__ = ("dispatcher", "function", "home", "missed", "stand_in")

    def __init__(self, stand_in: StandIn, function: Any, home: Any):
        self.stand_in, self.function, self.home = stand_in, function, home
        self.dispatcher = home._dispatcher
        self.missed = 0  # calls for which a program was made

    def take(self) -> bool:
        """Lend what the function captured; False where it needs programs of its own."""
        if self.missed > 1 or not self.stand_in.take():
            return False
        self.stand_in.lender.fill(self.function, {})
        return True

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], check: Callable[[Any], None]
    ) -> Any:
        """Run the program for a call, and release the stand-in."""
        dispatcher = self.dispatcher
        with self.stand_in:
            found = dispatcher.shapes.find(args, kwargs)
            if found is None:
                return self._counted(dispatcher, args, kwargs, check)
        call, hidden = found
        return call(*args, **kwargs, **hidden)

    def call_first(
        self,
        programs: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        check: Callable[[Any], None],
    ) -> Any:
        """Run a program for a call that no table knows, found by the stand-in's own dispatcher."""
        with self.stand_in:
            return self._counted(programs, args, kwargs, check)

    def _counted(
        self,
        programs: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        check: Callable[[Any], None],
    ) -> Any:
        check(args)
        before = len(programs.account.reasons)
        result = programs.call(args, kwargs)
        self.missed += len(programs.account.reasons) > before
        return result
