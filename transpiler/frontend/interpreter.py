"""The interpreter of the user's Python: known values are computed, run-time values are recorded.

Each kind of statement has a method. Branches, loops and calls on run-time values are in their own
files, and ``machine`` has their state; this file has names, origins in the source and ownership.
"""

from __future__ import annotations

import builtins
import operator
from types import ModuleType
from typing import Any

import numpy as np

from calque.transpiler.errors import (
    MOST_CALLS,
    AliasUndecided,
    AxisOutOfRange,
    BranchMismatch,
    CalqueError,
    DtypeError,
    ImpureFunction,
    IndexOutOfRange,
    Origin,
    OutsideChanged,
    ShapeError,
    SpecializationNeeded,
    UndefinedOnPath,
    UndefinedVariable,
    UnrollingNeeded,
    called_from,
)
from calque.transpiler.frontend.captures import Captures
from calque.transpiler.frontend.control.python_errors import UNASSIGNED, UNDEFINED
from calque.transpiler.frontend.control.value_join import fill
from calque.transpiler.frontend.guarding import Guard, guard_builtin
from calque.transpiler.frontend.library.scipy_objects import is_users_code
from calque.transpiler.frontend.library.surroundings import holds_surroundings
from calque.transpiler.frontend.machine import Activation
from calque.transpiler.frontend.outside_writes import is_defined, write_global, written_value
from calque.transpiler.frontend.paths import of_object, step
from calque.transpiler.frontend.values.containers.container_kinds import MISSING
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.heap import shown_name
from calque.transpiler.frontend.values.optional import Maybe, Mismatch
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import map_tree

_CONVERTED = {
    TypeError: DtypeError,
    ValueError: ShapeError,
    IndexError: IndexOutOfRange,
    np.exceptions.AxisError: AxisOutOfRange,
}
PYTHON_ERRORS = (ShapeError, DtypeError, IndexOutOfRange)  # those that plain Python would raise too
_PLACED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_RULES = tuple(
    f"calque.transpiler.{n}" for n in ("primitives", "ir.builder", "ir.types", "ir.dims")
)


def place(error: Any, origin: Origin | None) -> None:
    """Note where a Python error arose; an error that a rule raised becomes one of calque's."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    module = "" if step is None else step.tb_frame.f_globals.get("__name__", "")
    kind = _CONVERTED.get(type(error))
    if kind is not None and module.startswith((*_RULES, "numpy")):
        raise kind(f"{str(error).rstrip('.')}.", origin) from None
    error.calque_placed, error.calque_origin = True, origin
    if origin is not None:
        error.add_note(str(CalqueError("", origin)).rstrip())


class At:
    """A context manager that sets the origin in the user's code while it is interpreted.

    It is a class, not a generator, for speed: every expression is interpreted within one.
    """

    __slots__ = ("before", "builder", "origin")

    def __init__(self, builder: Builder, origin: Origin | None):
        self.builder, self.origin = builder, origin

    def __enter__(self) -> None:
        self.before, self.builder.origin = self.builder.origin, self.origin

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        now, self.builder.origin = self.builder.origin, self.before
        if error is None:
            return
        if isinstance(error, CalqueError):
            if error.origin is None:
                error.origin = now
        elif isinstance(error, _PLACED) and not hasattr(error, "calque_placed"):
            place(error, now)


class State(Captures):
    """Names, origins and ownership."""

    # places

    @property
    def call(self) -> Activation:
        """The innermost call in progress."""
        return self.calls[-1]

    def origin(self, node: Any) -> Any:
        """The place of a node in the user's file."""
        if node is None or not self.calls:
            return self.builder.origin or self.return_origin
        return self.call.source.origin(node, self.statement, self.call.place)

    def call_place(self, node: Any) -> Origin | None:
        """The place of a call that is about to be made; of deep calls, that of an outer one."""
        if not self.calls or node is None:
            return None
        made = self.on_behalf or self.origin(node)
        return made if len([*made.calls()]) < MOST_CALLS else self.call.place

    def fail(
        self, kind: type[CalqueError], node: Any, message: str, hint: str | None = None
    ) -> Any:
        """Raise an error that shows ``node``."""
        raise kind(message, self.origin(node), hint)

    def at(self, node: Any) -> At:
        """Statements recorded inside come from ``node``; errors without a place get it."""
        return At(self.builder, self.on_behalf or self.origin(node))

    def note_call(self, error: Exception, node: Any) -> None:
        """Tell an error that leaves the innermost call from where the user made that call."""
        if node is None or len(self.calls) < 2 or self.on_behalf is not None:
            return
        origin = self.calls[-2].source.origin(node)
        if not is_users_code(origin.file):
            return  # a library calls the user's function back
        notes = getattr(error, "__notes__", ())
        if isinstance(error, (CalqueError, SpecializationNeeded)):
            error.calls.append(origin)
        elif getattr(error, "calque_placed", False) and len(notes) <= MOST_CALLS:
            error.add_note(called_from(origin))

    # ownership

    def own(self, value: Any) -> Any:
        """Note that the program itself made this mutable object."""
        self.owned[id(value)] = value
        return value

    def check_writable(self, value: Any, node: Any, what: str) -> None:
        """Refuse to change an object that lives outside the function."""
        self.check_apart(value, node)
        if id(value) in self.undecided:
            self.fail(
                AliasUndecided,
                node,
                f"{what} changes an object of which another name may, or may not, be an alias.",
                "make a copy of it before the branch or the loop",
            )
        if id(value) in self.outside.containers:
            self.outside.containers[id(value)].origin = self.origin(node)
        if id(value) in self.foreign and id(value) in self.outside.paths:
            raise OutsideChanged(*self.outside.paths[id(value)], self.origin(node))
        if id(value) in self.foreign or (
            id(value) not in self.owned and not isinstance(value, Array)
        ):
            self.fail(
                ImpureFunction,
                node,
                f"{what} changes an object that lives outside the function; "
                "generated code could not do that once per call.",
                "return the new value, or work on a copy made inside the function",
            )

    def check_apart(self, value: Any, node: Any) -> None:
        """Ask for unrolling if a change of ``value`` needs a list itself, not its arrays."""
        held = self.held.get(id(value), (None, None))[1]
        rows = value.listed if isinstance(value, Array) else held
        if rows is not None:
            raise UnrollingNeeded(frozenset(rows.how.loops), self.origin(node))

    def check_lists(self, left: Any, right: Any, node: Any) -> None:
        """Ask for lists themselves in ``+``, ``*`` and ``==`` of lists kept as arrays."""
        for value, other in ((left, right), (right, left)):
            plain = isinstance(other, Array) and other.ndim and other.listed is None
            if isinstance(value, Array) and not plain:
                self.check_apart(value, node)

    # names

    def read_name(self, name: str, node: Any) -> Any:
        """The value of a name: local, enclosing, closure cell, global, builtin."""
        call = self.call
        frame: Frame | None = call.frame if name not in call.globals_written else None
        while frame is not None:
            if name in frame.locals:
                return self.checked(frame.locals[name], name, node)
            if name in frame.names:
                self._unassigned(name, frame, node)
            frame = frame.parent
        if name in call.cells:
            cell = call.cells[name]
            try:
                value = cell.cell.cell_contents
            except ValueError:
                self.fail(UndefinedVariable, node, f"{name} has no value yet.")
            return self.lift_from_cell(value, name, cell)
        scope = call.globals
        if (id(scope), name) in self.outside.written:
            return written_value(self, (id(scope), name), node)
        if name in scope:
            if isinstance(scope[name], ModuleType) and not holds_surroundings(scope[name]):
                return scope[name]  # what was imported stays
            return self.lift(scope[name], name, step(operator.getitem, of_object(scope), name))
        if hasattr(builtins, name):
            guard_builtin(self, name, scope)
            return getattr(builtins, name)
        self.guards.append(Guard(step(is_defined, of_object(scope), name), False))
        return self.fail(
            UndefinedVariable,
            node,
            f"name '{name}' {UNDEFINED}",
            f"give {name} a value before this line",
        )

    def checked(self, value: Any, name: str, node: Any) -> Any:
        """A value that may be read: neither missing nor a mismatch."""
        if isinstance(value, TaggedValue):
            return self.of_one_kind(value, shown_name(name) or "this value", node)
        if isinstance(value, Mismatch):
            name = shown_name(name) or "this value"
            self.ask_for(value.test)
            if value.undefined:
                self._undefined(name, node)
            raise BranchMismatch(
                f"{name} cannot be used here: {value.message}.",
                value.origin or self.origin(node),
                "give it values of one kind on every path",
            )
        if isinstance(value, Maybe):
            value = self.decided(value)
            if isinstance(value, Maybe) and id(node) not in self.unread:
                value = self.required(value, shown_name(name) or "this value", node)
        if value is MISSING:
            self._undefined(name, node)
        if self.is_unsure(value) and not self._is_there(value):
            self.ask_for(self.unsure[value._value])
            self._undefined(name, node)
        return value

    def _is_there(self, value: Array) -> bool:
        """True if the tests around imply that a name has a value, which some paths do not give."""
        presence = self.presence.get(value._value, False)
        definitions = self.builder.definitions
        there = self.flags.present(presence, self.facts, definitions)
        if there:
            fill(value._value, definitions)
        return there

    def _unassigned(self, name: str, frame: Frame, node: Any) -> None:
        """Refuse a name that a function assigns later: it hides outer names from the start."""
        inner: Frame | None = self.call.frame
        while inner is not None and inner.comprehension:
            inner = inner.parent
        kind, where = ("local", "") if inner is frame else ("free", " in enclosing scope")
        self.fail(
            UndefinedVariable,
            node,
            f"cannot access {kind} variable '{name}' {UNASSIGNED}{where}.",
            f"give {name} a value before this line",
        )

    def _undefined(self, name: str, node: Any) -> None:
        name = shown_name(name) or "this value"
        self.fail(
            UndefinedOnPath,
            node,
            f"{name} has no value on every path to here.",
            f"give {name} a value before the branch or the loop",
        )

    def ask_for(self, test: Any) -> None:
        """Ask for arguments to be static if a test depends only on their sizes and integers."""
        if test is not None:
            request = self.builder.needs_known(
                test, "A test on which the structure of a value depends"
            )
            if isinstance(request, SpecializationNeeded):
                raise request

    def write_name(self, name: str, value: Any, node: Any) -> None:
        """Bind a local name; a nonlocal one in the frame that has it."""
        call = self.call
        if name in call.globals_written:
            write_global(self, call.globals, name, value, node)
            return
        frame: Frame | None = call.frame
        if name in call.nonlocals:
            frame = call.frame.parent
            while frame is not None and name not in frame.locals:
                frame = frame.parent
            if frame is None:
                self.fail(
                    ImpureFunction,
                    node,
                    f"The nonlocal {name} lives outside the transformed function and is written.",
                    "return the value",
                )
        assert frame is not None
        self.name_value(value, name)
        frame.locals[name] = value

    def name_value(self, value: Any, name: str) -> None:
        """Give a fresh run-time value the user's name for it."""
        if self.on_behalf is not None and not self.in_library:
            return  # a rule's names are not those of the function to which it is applied
        if rows_of(value) is not None:
            map_tree(lambda buffer: self.name_value(buffer, name), value.rows.buffers)
        elif isinstance(value, Array) and value.poison is None and value._base is None:
            var = value._value
            if not name.startswith("%"):
                var.name = name if var.name is None else var.name
                value.called = value.called or name  # a copy's memory begins as another's value
        elif isinstance(value, Array) and value._base is not None and value._value.name is None:
            value._value.name = name

    def fresh_name(self, stem: str) -> str:
        """A hidden local that no user can write."""
        self.temporary += 1
        return f"%{stem}{self.temporary}"
