"""Values that a function captures from outside: arrays are hidden inputs, numbers are constants.

``scale * x`` with a global ``scale = 2.0`` becomes ``2.0 * x``, under the guard that ``scale`` is
still 2.0. A number that is known to change from call to call is a hidden input too:
``def f(x, *, scale): return scale * x``, unless a size or a list's index depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from keyword import iskeyword
from types import ModuleType
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError, ImpureFunction, NestedTooDeeply, UnsupportedSyntax
from calque.transpiler.frontend.guarding import Guard, contents, guard_state, place_of
from calque.transpiler.frontend.library.surroundings import holds_surroundings
from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.heap import RecordedList
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
    read: Callable[[], Any]
    var: Var


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

    def lift(self, value: Any, name: str, read: Callable[[], Any]) -> Any:
        """A value found outside the function: arrays become hidden inputs, numbers constants."""
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
            self.guards.append(Guard(lambda: contents(read()), contents(value)))
            return value
        varying = self.settings.varying
        if varying and may_be_input(value) and place_of(read) in varying:
            return self._number(value, name, read)
        self.guards.append(Guard(read, value, name))
        if not isinstance(value, (ModuleType, type)):
            guard_state(self, value, read)
        return value

    def _number(self, value: Any, name: str, read: Callable[[], Any]) -> Array:
        """A number that is read again at every call."""
        place = place_of(read)
        found = self.captures.get(place)
        if found is None:
            var = Var(type_of_constant(value), self._capture_name(name), self.builder.origin)
            self.builder.numbers[var] = place
            if isinstance(value, np.number):
                self.builder.kinds[var] = frozenset([type(value)])
            found = self.captures[place] = Capture(str(var.name), read, var)
        return Array(found.var)

    def _capture(self, value: Any, name: str, read: Callable[[], Any]) -> Any:
        if value.dtype == object:
            raise UnsupportedSyntax(f"{name} is an array of objects.", self.builder.origin)
        if value.dtype.kind in "USMmV":
            self.guards.append(Guard(lambda: _elements(read()), _elements(value)))
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

    def _guard_identity(self, value: Any, read: Callable[[], Any]) -> None:
        """Guard that two names of one object, as now, name one object at each call."""
        first = self.readers.setdefault(id(value), read)
        if first is not read and place_of(first) != place_of(read):
            self.guards.append(Guard(partial(_read_the_same, first, read), True))

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

    def _lift_container(self, value: Any, name: str, read: Callable[[], Any]) -> Any:
        self._guard_identity(value, read)
        if id(value) in self.lifted:
            return self.lifted[id(value)][1]
        if id(value) in self.around:
            raise NestedTooDeeply(
                f"{name} is a {type(value).__name__} that holds itself.", self.builder.origin
            )
        self.guards.append(Guard(lambda: contents(read()), contents(value)))
        self.around.add(id(value))
        if isinstance(value, dict):
            new: Any = {
                k: self.lift(v, f"{name}_{k}", partial(_item, read, k)) for k, v in value.items()
            }
        else:
            items = [
                self.lift(v, f"{name}_{_letter(i)}", partial(_item, read, i))
                for i, v in enumerate(value)
            ]
            if isinstance(value, tuple):
                new = type(value)(*items) if hasattr(value, "_fields") else tuple(items)
            else:
                new = RecordedList(items)
        self.around.discard(id(value))
        self.lifted[id(value)] = (value, new)
        self.foreign[id(new)] = new
        return new


def _elements(value: Any) -> Any:
    """The dtype, shape and bytes of an array of texts, dates or records, compared by a guard."""
    if not isinstance(value, np.ndarray):
        return type(value)
    return (value.dtype.str, value.dtype.descr, value.shape, value.tobytes())


def _read_the_same(first: Callable[[], Any], second: Callable[[], Any]) -> bool:
    return first() is second()


def _item(read: Callable[[], Any], key: Any) -> Any:
    return read()[key]


def _letter(index: int) -> str:
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(97 + rest) + text
    return text
