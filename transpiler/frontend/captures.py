"""Values that a function captures from outside: arrays are hidden inputs, numbers are constants.

``scale * x`` with a global ``scale = 2.0`` becomes ``2.0 * x``, under the guard that ``scale`` is
still 2.0. A number that is known to change from call to call is a hidden input too:
``def f(x, *, scale): return scale * x``, unless a size or a list's index depends on it.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from keyword import iskeyword
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError, ImpureFunction, NestedTooDeeply, UnsupportedSyntax
from calque.transpiler.frontend.function_copies import (
    CopiedFunction,
    copied,
    kind_of,
    may_be_copied,
    only_called,
)
from calque.transpiler.frontend.guarding import Guard, contents, guard_state
from calque.transpiler.frontend.library.surroundings import ProcessTable, holds_surroundings
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.paths import Path, both, in_cell, of_object, step
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList
from calque.transpiler.frontend.values.mutable_objects import is_from_library
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.ir.types import LARGE, ArrayType, DimLike, symbol, type_of_constant


class Captured(Array):
    """The read-only cell of a hidden input."""

    __slots__ = ()

    def replace(self, value: Any) -> None:
        """Refuse a store, which would change an array outside the function."""
        raise ImpureFunction(
            f"{self._value.name} lives outside the function, and is stored into.",
            current().origin,
            "work on a copy made inside the function, or pass the array in and return it",
        )


@dataclass(frozen=True)
class Capture:
    """A hidden input: a value of a global, a closure cell or an attribute, and its reader."""

    name: str
    path: Path
    var: Var


@dataclass(frozen=True)
class CapturedCell:
    """A closure cell, and the path to its value; whether the function only calls that."""

    cell: CellType
    read: Path
    called: bool = False


def captured_cells(function: FunctionType, path: Path) -> dict[str, CapturedCell]:
    """The closure cells of a function, by the names of the captured variables."""
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    if not path.moves:
        return {
            name: CapturedCell(cell, step(getattr, of_object(cell), "cell_contents"))
            for name, cell in zip(names, cells, strict=True)
        }
    called = only_called(function) if names else ()
    return {
        name: CapturedCell(cell, step(in_cell, path, k), name in called)
        for k, (name, cell) in enumerate(zip(names, cells, strict=True))
    }


def may_be_input(value: Any) -> bool:
    """True for a captured number that can be an input: generated code needs only its type.

    >>> may_be_input(0.5), may_be_input(np.float32(3)), may_be_input(True), may_be_input(1 << 40)
    (True, True, False, False)
    """
    if type(value) is int:
        return -LARGE < value < LARGE
    return type(value) in (float, complex) or isinstance(value, np.number)


class Captures(Machine):
    """The captured values of a program, each found once."""

    def read_by_paths(self, copy: CopiedFunction) -> None:
        """Read what is captured by paths from the function of a call, of which this is a copy."""
        self.paths[id(copy.part)] = copy.part, copy.path
        self.function_copies[id(copy.function)] = copy.function, copy.copy

    def path_of(self, value: Any) -> Path:
        """The path to a function or an instance."""
        found = self.paths.get(id(value))
        return of_object(value) if found is None else found[1]

    def lift_from_cell(self, value: Any, name: str, cell: CapturedCell) -> Any:
        """The value of a closure cell; of a function that is only called and made anew, a copy."""
        if not cell.called or type(value) is not FunctionType:
            return self.lift(value, name, cell.read)
        if id(value) in self.function_copies:
            copy = self.function_copies[id(value)][1]
            first = self.readers.setdefault(id(value), self.path_of(copy))
            if first.place != cell.read.place:
                self.guards.append(Guard(both(operator.is_, first, cell.read), True))
            return copy
        if not may_be_copied(value):
            return self.lift(value, name, cell.read)
        copy = copied(value)
        self.function_copies[id(value)], self.paths[id(copy)] = (value, copy), (copy, cell.read)
        self.guards.append(Guard(step(kind_of, cell.read), kind_of(value)))
        return copy

    def lift(self, value: Any, name: str, read: Path) -> Any:
        """A value found outside the function: arrays become hidden inputs, numbers constants."""
        if id(value) in ProcessTable.views:
            return ProcessTable.views[id(value)]
        if holds_surroundings(value):
            raise ImpureFunction(
                f"{name} is read outside the function, and changes between calls.",
                self.builder.origin,
                "read it outside, and pass the values in",
            )
        if isinstance(value, np.ndarray) or is_device_array(value):
            return self._capture(value, name, read)
        if isinstance(value, (list, tuple, dict)) and not isinstance(value, RecordedList):
            return self._lift_container(value, name, read)
        if isinstance(value, set):
            return self._lift_set(value, name, read)
        varying = self.settings.varying
        if varying and may_be_input(value) and read.place in varying:
            return self._number(value, name, read)
        self.guards.append(Guard(read, value, name))
        if not isinstance(value, (ModuleType, type)):
            guard_state(self, value, read)
        return value

    def _number(self, value: Any, name: str, read: Path) -> Array:
        """A number that is read again at every call."""
        place = read.place
        found = self.captures.get(place)
        if found is None:
            var = Var(type_of_constant(value), self._capture_name(name), self.builder.origin)
            self.builder.numbers[var] = place
            if isinstance(value, np.number):
                self.builder.kinds[var] = frozenset([type(value)])
            found = self.captures[place] = Capture(str(var.name), read, var)
        return Array(found.var)

    def _capture(self, value: Any, name: str, read: Path) -> Any:
        if value.dtype == object:
            raise UnsupportedSyntax(f"{name} is an array of objects.", self.builder.origin)
        if value.dtype.kind in "USMmV":
            self.guards.append(Guard(step(_elements, read), _elements(value)))
            return value
        if type(value) not in (np.ndarray, np.memmap) and not is_device_array(value):
            raise DtypeError(
                f"{name} is a {type(value).__name__}, which has operators of its own.",
                self.builder.origin,
                f"take np.asarray({name}) outside",
            )
        self._guard_identity(value, read)
        found = self.captures.get(id(value))
        if found is None:
            name = self._capture_name(name)
            dims = [self._captured_dim(name, axis, size) for axis, size in enumerate(value.shape)]
            var = Var(ArrayType(value.dtype, tuple(dims)), name, self.builder.origin)
            self.builder.kinds[var] = frozenset([np.ndarray])
            found = Capture(var.name or name, read, var)
            self.captures[id(value)] = found
            self.lifted[id(var)] = (value, Captured(var))
            if value.flags.c_contiguous:
                self.builder.contiguous.add(var)
        return self.lifted[id(found.var)][1]

    def _guard_identity(self, value: Any, read: Path) -> None:
        """Guard that two names of one object, as now, name one object at each call."""
        first = self.readers.setdefault(id(value), read)
        if first is not read and first.place != read.place:
            self.guards.append(Guard(both(operator.is_, first, read), True))

    def _captured_dim(self, name: str, axis: int, size: int) -> DimLike:
        if size == 1:
            return 1
        label = f"{name}.{axis}"
        if label in self.builder.pinned:
            return self.builder.pinned[label]
        self.builder.dims.arguments.add(label)
        return symbol(label)

    def _capture_name(self, name: str) -> str:
        name = "".join(c if c.isalnum() else "_" for c in name).strip("_") or "captured"
        taken = {*self.parameters, *(c.name for c in self.captures.values())}
        while name in taken or iskeyword(name):  # of a lambda
            name += "_captured"
        return name

    def _lift_container(self, value: Any, name: str, read: Path) -> Any:
        self._guard_identity(value, read)
        if id(value) in self.lifted:
            return self.lifted[id(value)][1]
        if id(value) in self.around:
            raise NestedTooDeeply(
                f"{name} is a {type(value).__name__} that holds itself.", self.builder.origin
            )
        self.guards.append(Guard(step(contents, read), contents(value)))
        self.around.add(id(value))
        if isinstance(value, dict):
            new: Any = {
                k: self.lift(v, f"{name}_{k}", step(operator.getitem, read, k))
                for k, v in value.items()
            }
            new = self._of_class(value, new, read)
        else:
            items = [
                self.lift(v, f"{name}_{_letter(i)}", step(operator.getitem, read, i))
                for i, v in enumerate(value)
            ]
            if isinstance(value, tuple):
                new = type(value)(*items) if hasattr(value, "_fields") else tuple(items)
            else:
                new = RecordedList(items)
        self.around.discard(id(value))
        self.lifted[id(value)] = (value, new)
        self.foreign[id(new)] = new
        self.outside.paths[id(new)] = name, read
        return new

    def _lift_set(self, value: set[Any], name: str, read: Path) -> Any:
        if id(value) in self.lifted:
            return self.lifted[id(value)][1]
        self.guards.append(Guard(step(contents, read), contents(value)))
        new = set(value) if read.place in self.settings.outside else value
        self.lifted[id(value)], self.foreign[id(new)] = (value, new), new
        self.outside.paths[id(new)] = name, read
        return new


    def _of_class(self, value: dict[Any, Any], items: dict[Any, Any], read: Path) -> Any:
        """The items in a captured dict's class, if that is the user's, or has own attributes."""
        if is_from_library(type(value)) and not hasattr(type(value), "__getattr__"):
            return items
        made: Any = dict.__new__(type(value))
        dict.update(made, items)
        pytrees.set_contents(made, dict(pytrees.contents(value)))
        self.paths[id(made)] = made, read
        return made


def _elements(value: Any) -> Any:
    """The dtype, shape and bytes of an array of texts, dates or records, compared by a guard."""
    if not isinstance(value, np.ndarray):
        return type(value)
    return (value.dtype.str, value.dtype.descr, value.shape, value.tobytes())


def _letter(index: int) -> str:
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(97 + rest) + text
    return text
