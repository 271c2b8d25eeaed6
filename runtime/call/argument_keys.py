"""The parts of arguments that generated code depends on: dtype, rank, sizes of 1, or a value."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from calque.runtime.call.addressed import Addressed
from calque.runtime.spec import Spec
from calque.transpiler.errors import DtypeError, UnsupportedFunction
from calque.transpiler.ir import treedefs
from calque.transpiler.ir.types import (
    COMPLEX,
    FLOAT,
    INT,
    LARGE,
    ArrayType,
    DimLike,
    integer_name,
    symbol,
)

_SCALARS = {float: FLOAT, int: INT, complex: COMPLEX}
_ARRAYS = (np.ndarray, np.memmap, Addressed)
_ARRAY = np.ndarray  # one name, looked up once a call and argument
_NUMERIC = "biufc"
_NAMED = {bool, str, type(None), FunctionType, BuiltinFunctionType, np.ufunc}
QuickKey = Callable[[tuple[Any, ...]], tuple[Any, ...] | None]


class Identity:
    """An argument without a hash, known by identity; held, so that no other gets its id."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value


def shape_key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A quick and exact key of arrays, numbers and flags, nested or not; None for other arguments.

    >>> shape_key((np.ones(3), [2.0]))
    (dtype('float64'), (3,), <class 'list'>, 1, <class 'float'>)
    """
    return _nested_key(args, False)


def _nested_key(args: tuple[Any, ...], layout: bool) -> tuple[Any, ...] | None:
    key: list[Any] = []
    try:
        return tuple(key) if _extend(key, args, layout) else None
    except RecursionError:  # a list that holds itself: ``find`` says which argument it is
        return None


def layout_key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A key of shapes that also says which arrays are C-contiguous: kernels depend on it.

    >>> layout_key((np.ones((2, 3)).T,))
    (dtype('float64'), (3, 2), False)
    """
    quick: tuple[Any, ...] = ()
    for value in args:
        if type(value) is not _ARRAY:
            return _nested_key(args, True)
        quick += (value.dtype, value.shape, value.flags.c_contiguous)
    return quick


def valued_key(quick: QuickKey, places: tuple[int, ...]) -> QuickKey:
    """A key that also has the values of integers at some places: generated code may hold them.

    >>> valued_key(shape_key, (1,))((2.0, 3))
    ((<class 'float'>, <class 'int'>), 3)
    """

    def key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        found = quick(args)
        if found is None:
            return None
        return found, *[args[k] if type(args[k]) is int else None for k in places if k < len(args)]

    return key


def is_leaf(value: Any) -> bool:
    """True if an argument with a quick key is one leaf, no container and no object of parts."""
    return isinstance(value, (np.ndarray, np.generic)) or type(value) in _SCALARS or is_named(value)


def is_named(value: Any) -> bool:
    """True if a quick key holds a value itself: a flag, a text, a function."""
    return type(value) in _NAMED or isinstance(value, Enum)


def _extend(key: list[Any], values: Iterable[Any], layout: bool) -> bool:
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            key.append(value.dtype)
            key.append(value.shape)
            if layout:
                key.append(value.flags.c_contiguous)
        elif kind is int:
            if not -LARGE < value < LARGE:
                return False
            key.append(kind)
        elif kind in _SCALARS or isinstance(value, np.generic):
            key.append(kind)
        elif kind is tuple or kind is list:
            key += (kind, len(value))
            if not _extend(key, value, layout):
                return False
        elif kind is dict:
            key += (kind, tuple(value))
            if not _extend(key, value.values(), layout):
                return False
        elif kind in _NAMED or isinstance(value, Enum):
            key += (kind, value)
        elif not _extend_by_object(key, value, layout):
            return False
    return True


def _extend_by_object(key: list[Any], value: Any, layout: bool) -> bool:
    """Extend a key by a namedtuple, or by an instance of a class that is a node of trees."""
    kind = type(value)
    node = treedefs.NODES.get(kind)
    if node is not None:
        try:
            parts, data = node.flatten(value)
            hash(data)
        except Exception:  # the user's code: ``find`` asks it again, and lets it raise
            return False
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        parts, data = value, None
    else:
        return False
    key += (kind, data, len(parts))
    return _extend(key, parts, layout)


def leaf_key(leaf: Any) -> Any:
    """The parts of a leaf that generated code depends on, as a key."""
    kind: Any = type(leaf)
    if kind in _ARRAYS and leaf.dtype.kind in _NUMERIC:
        return (leaf.dtype, tuple([s == 1 for s in leaf.shape]))
    if kind is int and not -LARGE < leaf < LARGE:
        return (kind, leaf)
    if kind in _SCALARS or kind is Spec:
        return kind if kind in _SCALARS else leaf
    if isinstance(leaf, np.generic) and leaf.dtype.kind in _NUMERIC:
        return leaf.dtype
    if is_float0(leaf):
        return (leaf.dtype, leaf.shape)
    if isinstance(leaf, np.ndarray) or (hasattr(leaf, "__array__") and not isinstance(leaf, type)):
        raise _refused(leaf)
    if kind.__hash__ is object.__hash__ and kind.__eq__ is not object.__eq__:
        return Identity(leaf)  # its == may give an array, as that of sparse matrices
    try:
        hash(leaf)
    except (TypeError, ValueError):
        return Identity(leaf)
    return (kind, leaf)


def is_float0(leaf: Any) -> bool:
    """True if a leaf is the tangent of an integer: an array of JAX's ``float0``."""
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind == "V" and not leaf.dtype.itemsize


# by the package of a class: whose arrays they are, and the bridge that takes them
_BRIDGES = {
    "torch": ("PyTorch", "torch"),
    "jax": ("JAX", "jax"),
    "jaxlib": ("JAX", "jax"),
    "casadi": ("CasADi", "casadi"),
    "pytensor": ("PyTensor", "pytensor"),
}


def _refused(leaf: Any) -> Exception:
    name = type(leaf).__name__
    if type(leaf) in _ARRAYS:
        held = f"an array of dtype {leaf.dtype}"
        days = "pass numbers: (x - x[0]) / np.timedelta64(1, 'D')"
        hint = {"O": "pass x.astype(float)", "M": days}
        message = f"An argument is {held}, which holds no numbers to compute with."
        return DtypeError(message, hint=hint.get(leaf.dtype.kind))
    if isinstance(leaf, np.generic):
        return DtypeError(f"An argument is a {name}, which is no number to compute with.")
    home = type(leaf).__module__.partition(".")[0]
    library, bridge = _BRIDGES.get(home, ("", ""))
    own = f"{library}'s {name}" if library else f"a {name}"
    other = f"pass np.asarray(x), or call calque.bridges.{bridge}.wrap(f) from {library}'s side"
    return DtypeError(
        f"An argument is {own}, which has operators of its own.",
        hint=other if library else "pass np.asarray(x)",
    )


def leaf_type(leaf: Any, position: int, pinned: dict[str, int]) -> ArrayType | None:
    """The type of a leaf; None for one whose value is known."""
    if isinstance(leaf, Spec):
        dims = tuple(pinned.get(d, symbol(d)) if isinstance(d, str) else d for d in leaf.dims)
        return ArrayType(leaf.dtype, dims, leaf.weak)
    kind = type(leaf)
    if kind is int and not -LARGE < leaf < LARGE:
        return None
    if kind in _SCALARS:
        return _SCALARS[kind]
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in _NUMERIC:
        dims = tuple(_dim(s, dim_name(position, axis), pinned) for axis, s in enumerate(leaf.shape))
        return ArrayType(leaf.dtype, dims)
    return None


def dim_name(position: int, axis: int) -> str:
    """The internal symbol of an axis of an argument."""
    return f"d{position}_{axis}"


def _dim(size: int, name: str, pinned: dict[str, int]) -> DimLike:
    if size == 1:
        return 1
    return pinned[name] if name in pinned else symbol(name)


def sizes_of(leaves: list[Any]) -> dict[str, int]:
    """The size of each argument symbol in a call."""
    found = {}
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, np.ndarray):
            for axis, size in enumerate(leaf.shape):
                found[dim_name(position, axis)] = size
    return found


def integers_of(leaves: list[Any]) -> dict[str, int]:
    """The value of each integer among the arguments of a call, by its symbol."""
    return {integer_name(i): leaf for i, leaf in enumerate(leaves) if type(leaf) is int}


def known_value(leaf: Any) -> Any:
    """The value of a leaf that became part of the key."""
    return leaf.item() if isinstance(leaf, np.ndarray) else leaf


def is_contiguous(leaf: Any) -> bool:
    """True if an array is C-contiguous; a type stands for an array that is."""
    if isinstance(leaf, Spec):
        return bool(leaf.dims)
    return isinstance(leaf, np.ndarray) and bool(leaf.flags.c_contiguous)


def orders(value: Any) -> tuple[tuple[Any, ...], ...]:
    """The insertion orders of dicts, which iteration shows and a tree's structure does not."""
    if isinstance(value, dict):
        if isinstance(value, OrderedDict) and list(value) != list(dict.keys(value)):
            raise UnsupportedFunction(
                "An argument is an OrderedDict whose items were moved to another place.",
                hint="pass OrderedDict(x), which has them in this order from the start",
            )
        inner = [o for v in dict.values(value) for o in orders(v)]
        order = tuple(dict.keys(value))
        return (order, *inner) if order else ()
    if isinstance(value, (tuple, list)):
        return tuple([o for v in value for o in orders(v)])
    return ()
