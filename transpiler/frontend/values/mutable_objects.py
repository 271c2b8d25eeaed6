"""Objects that may change between calls: a program is valid while all it read of them is equal.

Attributes, items and methods that the interpreter reads itself are guarded one by one. What Python
reads while the function is interpreted (an item of a ``deque``, the ``repr`` of an instance) may be
anything that the object holds: its whole state is compared at each call, exactly. An object whose
state cannot be told (a lock, what C keeps to itself) is refused where Python reads it.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import sys
from collections.abc import Iterable
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import Array

_CALLED = (FunctionType, BuiltinFunctionType, MethodWrapperType, WrapperDescriptorType, CodeType)
_FIELD_KIND: type = type(dataclasses._FIELD)  # type: ignore[attr-defined]  # three constants
_INDEXED = {type(maker) for maker in (np.mgrid, np.ogrid, np.r_, np.c_, np.s_)}
_NAMED = (
    *(type, ModuleType, enum.Enum, np.ufunc, property, GetSetDescriptorType, _FIELD_KIND),
    *(*_CALLED, *_INDEXED),
)
_VALUES = (bool, int, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, np.dtype)
_LIBRARY = sys.stdlib_module_names | {"builtins", "numpy", "scipy"}
_ATTRIBUTES_ALONE = (SimpleNamespace, argparse.Namespace)  # read as instances of the user's classes
CACHING = type(functools.lru_cache(len))
_MOST = 10_000  # objects within one, beyond which a call would take long to compare them


class Unguarded(ValueError):
    """The state of an object cannot be read completely."""


class Same:
    """A wrapper that is equal only to a wrapper of the same object."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def is_mutable(value: Any) -> bool:
    """True if a value is an instance that may hold another state at the next call.

    >>> from decimal import Decimal
    >>> is_mutable(bytearray(b"a")), is_mutable(Decimal(1)), is_mutable("a"), is_mutable(len)
    (True, False, False, False)
    """
    if isinstance(value, (*_NAMED, *_VALUES, float, complex, np.generic, np.ndarray, Array)):
        return False
    if isinstance(value, (slice, MethodType, functools.partial, BaseException)):
        return False
    if (type(value).__module__ or "").startswith("calque."):
        return False  # the interpreter's own
    if isinstance(value, memoryview) or type(value).__module__ == "ctypes":
        return True
    own_hash = type(value).__hash__ not in (None, object.__hash__)
    return not (own_hash and is_from_library(type(value)))  # there what has a hash does not change


def is_from_library(kind: type | FunctionType) -> bool:
    """True if a class, or a function, is one of Python's own, NumPy's or SciPy's."""
    module = kind.__module__  # of classes of Cython's, a descriptor
    return isinstance(module, str) and module.split(".")[0] in _LIBRARY


def is_read_by_python(value: Any) -> bool:
    """True if methods of a library, which Python runs, may read all that an object holds.

    Plain lists and dicts are read item by item, instances of the user's own classes attribute by
    attribute.
    """
    if type(value) in (list, dict) or isinstance(value, (tuple, *_ATTRIBUTES_ALONE)):
        return False
    if not is_mutable(value):
        return False
    return any(is_from_library(base) and not _is_abstract(base) for base in type(value).__mro__)


def _is_abstract(base: type) -> bool:
    """True if a library's class gives its instances no state."""
    return base is object or base.__module__ in ("typing", "abc", "_collections_abc", "enum")


def state(value: Any) -> Any:
    """The whole state of an object, for comparison; raises ``Unguarded`` if it is not readable.

    Two states are equal if types, numbers (0.0 is not -0.0), orders and identities are the same.

    >>> from collections import deque
    >>> state(deque([[1]])) == state(deque([[1]])), state(deque([0.0])) == state(deque([-0.0]))
    (True, False)
    """
    return _State().of(value)


class _State:
    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no object that is made on the way gets another's id

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in _VALUES:
            return (kind, value)
        if isinstance(value, (float, complex, np.generic)):
            return (kind, repr(value))
        if isinstance(value, _NAMED):
            return Same(value)
        if id(value) in self.seen:
            return ("again", self.seen[id(value)])
        if len(self.seen) >= _MOST:
            raise Unguarded
        self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        if kind in (list, tuple):
            return (kind, *map(self.of, value))
        if kind is dict:
            return (kind, *self._pairs(value.items()))
        if kind in (set, frozenset):
            return (kind, frozenset(map(self.of, value)))
        return (kind, *self._parts(value))

    def _pairs(self, items: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
        return [(self.of(k), self.of(v)) for k, v in items]

    def _parts(self, value: Any) -> Iterable[Any]:
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return [value.shape, *map(self.of, value.ravel().tolist())]
            return [value.dtype, value.shape, value.tobytes()]
        if isinstance(value, MethodType):
            return [Same(value.__func__), self.of(value.__self__)]
        if isinstance(value, slice):
            return map(self.of, (value.start, value.stop, value.step))
        if isinstance(value, (MappingProxyType, type({}.keys()), type({}.values()))):
            return [self.of(dict(value) if isinstance(value, MappingProxyType) else list(value))]
        if isinstance(value, memoryview):
            return [value.format, value.shape, value.tobytes()]
        if isinstance(value, Array):
            raise Unguarded
        return self._as_pickled(value)

    def _as_pickled(self, value: Any) -> Iterable[Any]:
        """The parts of an object that ``pickle`` keeps; the user's own code for that is not run."""
        for name in ("__reduce_ex__", "__reduce__", "__getstate__"):
            owners = (k for k in type(value).__mro__ if name in vars(k))
            if not all(map(is_from_library, list(owners)[:1])):
                raise Unguarded
        try:
            found = value.__reduce_ex__(4)
        except Exception:  # a lock, a generator: whatever it raises, nothing is told
            raise Unguarded from None
        if isinstance(found, str) and not isinstance(value, CACHING):
            return [Same(value)]  # a function of C, known by its name
        if not isinstance(found, tuple):
            raise Unguarded
        make, args, *rest = found
        held, listed, paired = (*rest, None, None, None)[:3]
        made = [self.of(make), self.of(tuple(args)), self.of(held)]
        made += [tuple(map(self.of, listed))] if listed is not None else []
        made += [tuple(self._pairs(paired))] if paired is not None else []
        return made
