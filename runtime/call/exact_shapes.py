"""The table by exact shapes: the fast path of all calls, and what is left to check in it.

It holds calls with nothing but arrays, numbers, flags and names, in containers and objects or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from calque.runtime.call.addressed import addressed
from calque.runtime.call.argument_keys import QuickKey, is_leaf, is_named, valued_key
from calque.runtime.call.loading import Program, exact_key, is_equal, overlaps_itself
from calque.transpiler.frontend.callables import code_of, default_of
from calque.transpiler.frontend.guarding import is_unshadowed
from calque.transpiler.frontend.paths import Path

_MOST = 1024
_NOTHING: dict[str, Any] = {}
ReadyCall = tuple[Callable[..., Any], dict[str, Any]]  # what runs, and the captured arrays
Read = Callable[[Any], Any]  # of what a function has captured
Stored = tuple[tuple[int, tuple[int, ...]], ...]  # the arguments stored into, and those beside


class ExactShapes:
    """The programs that calls of known shapes run, by keys that are quickly made."""

    def __init__(self, quick: QuickKey):
        self.quick = quick
        self.key = quick  # with the integers that programs hold, once there is one
        self.valued: frozenset[int] = frozenset()  # the places of these
        self.entries: dict[Any, Ready] = {}

    def find(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        programs: Any,
        foreign: bool = False,
    ) -> ReadyCall | None:
        """The program that is ready for a dispatcher's call; None if there is none, or it changed.

        Arguments that are ``foreign`` are asked whether they may be stored into: not here.
        """
        if kwargs:
            names = sorted(kwargs)
            values = (*args, *[kwargs[n] for n in names])
            ready = self.entries.get((len(args), *names, self.key(values)))
        else:
            ready = self.entries.get(self.key(args))
        if ready is None:
            return None
        for function, code, defaults in ready.functions:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return None
        for holds in ready.unshadowed:
            if not holds():
                return None
        if ready.alone is not None:
            return ready.alone
        if foreign and ready.stored:
            return None
        hidden = ready.hidden(args, programs.root)
        if hidden is None:
            return None
        return ready.call if ready.compared is None else programs.comparing(ready.compared), hidden

    def enter(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        program: Program,
        call: Callable[..., Any],
        root: Any,
    ) -> None:
        """Keep what runs a program for further calls of these shapes, where shapes tell it."""
        names = sorted(kwargs)
        values = (*args, *[kwargs[n] for n in names])
        if program.asks_memory or self.quick(values) is None:
            return
        plain = all(map(is_leaf, values))
        if not plain and (program.stored or program.known_leaves | program.asked_leaves):
            return
        if program.stored and (program.captures or names):
            return  # each call asks whether arrays that are not at hand share memory
        place = [k for k, value in enumerate(values) if value is not None]  # of each leaf
        asked = program.known_leaves | program.asked_leaves
        known = {k: values[k] for k in map(place.__getitem__, asked)}
        if not all(type(v) is int or is_named(v) for v in known.values()):
            return
        if len(self.entries) >= _MOST:
            self.entries.clear()
        if not self.valued.issuperset(known):
            self.valued |= known.keys()
            self.key = valued_key(self.quick, tuple(sorted(self.valued)))
            self.entries.clear()
        key: Any = (len(args), *names, self.key(values)) if names else self.key(values)
        found = program.stored.items()
        stored = tuple((place[i], tuple(place[k] for k in beside)) for i, beside in found)
        self.entries[key] = Ready.of(program, stored, call, root)


@dataclass(frozen=True, slots=True)
class Ready:
    """A program for arguments of exactly these shapes: what is left to check at each call."""

    call: Callable[..., Any]
    functions: tuple[tuple[FunctionType, CodeType, Any], ...]  # with their code and defaults
    unshadowed: tuple[partial[Any], ...]  # whether globals have no names of builtins
    guards: tuple[tuple[Read, Any], ...]
    captures: tuple[tuple[str, Read, Any], ...]
    stored: Stored  # arguments, as in the program
    compared: Program | None  # which compares sizes, for one of several functions of one code
    alone: ReadyCall | None  # where nothing is to check but functions and names

    @classmethod
    def of(
        cls, program: Program, stored: Stored, call: Callable[..., Any], root: Any
    ) -> Ready:
        """The checks for a program's next call, with the present values of all that it reads."""
        functions = {}
        unshadowed, guards = [], []
        for path, _ in program.guards:
            if _reads_function(path):
                known = path.base.value
                functions[known] = (known, known.__code__, known.__defaults__)
            elif path.operation is is_unshadowed:
                unshadowed.append(partial(path.base.value.keys().isdisjoint, path.keys[0]))
            else:
                guards.append((path.read, path.read(root)))
        captures = tuple(
            (name, path.read, exact_key(path.read(root))) for name, path in program.captures
        )
        compared = program if root is not None and program.traced.compares else None
        return cls(
            call,
            tuple(functions.values()),
            tuple(unshadowed),
            tuple(guards),
            captures,
            stored,
            compared,
            None if guards or captures or stored or compared else (call, _NOTHING),
        )

    def hidden(self, args: tuple[Any, ...], root: Any) -> dict[str, Any] | None:
        """The captured arrays; None where one has changed, or arguments may share memory."""
        found = {}
        for position, beside in self.stored:
            mine = addressed(args[position])
            if overlaps_itself(mine):
                return None
            for other in [addressed(args[k]) for k in beside]:
                if isinstance(other, np.ndarray) and np.may_share_memory(mine, other):
                    return None
        try:
            for read, value in self.guards:
                now = read(root)
                if now is not value and not is_equal(now, value):
                    return None
            for name, read, key in self.captures:
                value = read(root)
                if exact_key(value) != key:
                    return None
                found[name] = value
        except Exception:
            return None  # what was captured is gone, in whatever way
        return found


def _reads_function(path: Path) -> bool:
    """True if a guard reads the code, or a default, of a plain function that stays."""
    if not isinstance(path.base.value, FunctionType):
        return False
    of_default = path.operation is default_of and isinstance(path.keys[0], int)
    return path.operation is code_of or of_default
