"""Recorded duck arrays, and the handlers of NumPy's functions, methods and operators on them.

An ``Array`` is what a Python name refers to: a cell that holds the current version of an array. A
store gives the cell its next version, so ``b = a`` is the same cell; a slice is a view, a cell that
is read and written through its base.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calque.transpiler.errors import AliasUndecided, Origin, UnsupportedFunction
from calque.transpiler.ir.core import Atom, Var
from calque.transpiler.ir.types import ArrayType, DimLike, type_of_constant

# Filled by the primitives: what a NumPy function, a method, an operator means on Arrays.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}
ATTRIBUTES: dict[str, Callable[[Any], Any]] = {}
OPERATORS: dict[str, Callable[..., Any]] = {}

local = threading.local()


def current() -> Any:
    """The builder whose block is open in this thread."""
    stack = getattr(local, "stack", None)
    if not stack:
        raise RuntimeError("no program is being built")
    return stack[-1]


def atom(value: Any) -> Atom:
    """The Core atom of an Array or of a known scalar."""
    if isinstance(value, Array):
        return value.atom
    kind = type(value)
    if kind in (int, bool, float, complex, Var) or isinstance(value, np.generic):
        return value
    if isinstance(value, int):
        return int(value)  # of an IntEnum, say
    return float.__pos__(value) if isinstance(value, float) else value


def type_of(value: Any) -> ArrayType:
    """The type of an Array, a Var or a known value."""
    if isinstance(value, Array):
        return value.type
    return value.type if isinstance(value, Var) else type_of_constant(value)


def known(value: Any) -> bool:
    """True if a value is no Array, and a tuple, list or slice holds none."""
    if isinstance(value, (tuple, list)):
        return all(map(known, value))
    if isinstance(value, slice):
        return known((value.start, value.stop, value.step))
    return not isinstance(value, Array)


def known_int(value: Any, why: str) -> int:
    """A known integer; for a run-time one, raise the request to make its arguments static."""
    if isinstance(value, Array):
        dim = current().dim_of(value) if value.type.dtype.kind in "iu" else None
        if isinstance(dim, int):
            return dim
        raise current().needs_known(value, why)
    return int(value)


class LentMemory(NamedTuple):
    """The arguments, by leaf, whose memory a cell is, or which it copies for a called function.

    ``beside`` are the leaves of all arguments of that function, its own included.
    """

    leaves: frozenset[int]
    beside: frozenset[int]


NOT_LENT = LentMemory(frozenset(), frozenset())


def partners_in(mask: int, known: int = 0) -> list[Array]:
    """The live cells whose bits are set in ``mask`` and not in ``known``."""
    linked, found, mask = current().linked, [], mask & ~known
    while mask:
        lowest = mask & -mask
        cell = linked[lowest.bit_length() - 1]()
        if cell is not None:
            found.append(cell)
        mask ^= lowest
    return found


class Array:
    """A recorded array or run-time scalar: a cell with the current version of a value."""

    __slots__ = (
        "__weakref__",
        "_base",
        "_bit",
        "_how",
        "_partners",
        "_seen",
        "_value",
        "called",
        "is_buffer",
        "kinds",
        "leaf",
        "lent",
        "listed",
        "packed",
        "poison"
    )  # fmt: skip
    __array_priority__ = 1000.0

    def __init__(self, value: Var):
        self._value = value
        self._base: Array | None = None
        self._how: tuple[Any, tuple[Atom, ...], dict[str, Any]] | None = None
        self._seen: Atom = None
        self._partners = 0  # by a bit for each place in the builder's ``linked``
        self._bit = 0
        self.poison: Origin | None = None  # set when a partner was stored into
        self.called: str | None = None  # the name that the user first gave this very cell
        self.listed: Any = None  # of an array that stands for a list: the list that holds it
        self.is_buffer = False  # a 0-d array that was made to be stored into
        self.kinds: frozenset[type] | None = None  # see frontend.kinds; None: by its definition
        self.leaf: int | None = None  # of the arguments, if the caller holds this very array
        self.lent = NOT_LENT
        self.packed: bool | None = None  # C-contiguous or not, whatever its first version's layout

    # cells, versions, views

    @property
    def atom(self) -> Var:
        """The current version."""
        if self.poison is not None:
            reading = current().origin
            raise AliasUndecided(
                "Whether this store changes another array too is not known before run time, and "
                f"that array is read{'' if reading is None else f' at line {reading.line}'}.",
                self.poison,
                "make one of the two with .copy()",
            )
        if self._base is not None:
            now = self._base.atom
            if now is not self._seen:
                assert self._how is not None
                primitive, rest, params = self._how
                args = [_wrap(now), *map(_wrap, rest)]
                self._value = current().apply(primitive, args, params)._value
                self._seen = now
        return self._value

    @property
    def partners(self) -> list[Array]:
        """The cells that may, or may not, share memory with this one."""
        return partners_in(self._partners) if self._partners else []

    @partners.setter
    def partners(self, cells: Iterable[Array]) -> None:
        self._partners = functools.reduce(operator.or_, (cell.bit for cell in cells), 0)

    @property
    def bit(self) -> int:
        """The bit that stands for this cell in a set of partners."""
        if not self._bit:
            linked = current().linked
            self._bit = 1 << len(linked)
            linked.append(weakref.ref(self))
        return self._bit

    def add_partners(self, mask: int) -> None:
        """Note more cells that may share memory with this one."""
        self._partners |= mask

    @property
    def poisoned(self) -> Origin | None:
        """The origin of a store to another cell that may share this memory, else None."""
        return self.poison or (None if self._base is None else self._base.poisoned)

    def is_contiguous(self) -> bool:
        """True if the memory is known to be C-contiguous."""
        return self.packed if self.packed is not None else self.atom in current().contiguous

    def has_memory(self) -> bool:
        """True for an array, which stores change, and for an argument; False for a number."""
        return bool(self.ndim or self.is_buffer or self._value in current().leaf_of_param)

    def is_lasting_number(self) -> bool:
        """True for a number to which no store can give another version, directly or as an alias."""
        fixed = self._base is None and not self.is_buffer and not self._partners
        return fixed and not self._value.type.dims and self.poison is None

    def carried(self) -> Array:
        """This cell for a join, which does not read it: a poisoned cell gives its last version."""
        if self.poisoned is None:
            return self
        return Array(self._value)

    def become_view(
        self, base: Array, primitive: Any, rest: tuple[Atom, ...], params: dict[str, Any]
    ) -> None:
        """From now on this cell is read and written through ``base``."""
        if primitive.view_sometimes and base.ndim > 1 and not base.is_contiguous():
            link(self, base.root())
            return
        self._base, self._how, self._seen = base, (primitive, rest, params), base.atom

    @property
    def how(self) -> tuple[Array, Any, tuple[Atom, ...], dict[str, Any]] | None:
        """Of a view: its base, the primitive and the other arguments that made it."""
        return None if self._base is None or self._how is None else (self._base, *self._how)

    def root(self) -> Array:
        """The cell that owns the memory."""
        return self if self._base is None else self._base.root()

    def replace(self, value: Any) -> None:
        """Give the cell its next version; through a view, store into the base."""
        new = value if isinstance(value, Array) else _wrap(value)
        old = self.atom
        if self._base is not None:
            assert self._how is not None
            primitive, rest, params = self._how
            self._base.replace(primitive.view_back(self._base, new, *map(_wrap, rest), **params))
            return
        builder = current()
        if id(self) in builder.read_only:
            raise ValueError("assignment destination is read-only")
        for lent in (self.lent, *(p.lent for p in self.partners)):
            for leaf in lent.leaves:
                builder.stored[leaf] = builder.stored.get(leaf, frozenset()) | lent.beside
        self._poison_partners()
        fresh = new.atom
        if fresh is old:
            return
        if fresh.name is None:
            fresh.name = self.called or old.name
        if old in builder.contiguous:
            builder.contiguous.add(fresh)
        self._value = fresh

    def _poison_partners(self) -> None:
        origin = current().origin
        for partner in self.partners:  # itself too, where its elements may be one another
            partner.poison = origin or Origin("?", 0, 0, 0, 0, "", "?")

    def state(self) -> tuple[Any, ...]:
        """The fields of a cell that a snapshot of the interpreter keeps."""
        return (self._value, self._base, self._how, self._seen, self._partners, self.poison)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Put a kept state back."""
        self._value, self._base, self._how, self._seen, self._partners, self.poison = state

    # what NumPy code asks of an array

    @property
    def type(self) -> ArrayType:
        """dtype and dimensions; a property of every version."""
        return self._value.type

    @property
    def dtype(self) -> np.dtype:
        """The dtype."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The rank."""
        return self.type.ndim

    @property
    def dims(self) -> tuple[DimLike, ...]:
        """The dimensions, with every known equality substituted."""
        resolve = current().dims.resolve
        return tuple(resolve(d) for d in self.type.dims)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes: ints where known, else recorded integers."""
        builder = current()
        return tuple(builder.size_of(d, self, axis) for axis, d in enumerate(self.type.dims))

    @property
    def size(self) -> Any:
        """The number of elements."""
        dims = self.dims
        if all(isinstance(d, int) for d in dims):
            return math.prod(d for d in dims if isinstance(d, int))
        if sum(d != 1 for d in dims) == 1:
            axis = next(a for a, d in enumerate(dims) if d != 1)
            builder = current()
            at_hand = None if self.atom.name else builder.size_of_argument(dims[axis])
            if at_hand is not None:
                return at_hand
            result = FUNCTIONS["size"](self)
            builder.dim_values.setdefault(result.atom, dims[axis])
            return result
        return FUNCTIONS["size"](self)

    if TYPE_CHECKING:  # the operators are entered from a table below

        def __add__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...

    def __getattr__(self, name: str) -> Any:
        if name in ATTRIBUTES:
            return ATTRIBUTES[name](self)
        if name in METHODS:
            method = METHODS[name]
            return lambda *args, **kwargs: method(self, *args, **kwargs)
        if name.startswith("__"):
            raise AttributeError(name)
        kind = np.ndarray if self.ndim else self.dtype.type
        if self.type.weak and hasattr(kind := type(self.dtype.type(0).item()), name):
            raise current().needs_known(self, f"What {kind.__name__}.{name} is called on")
        if hasattr(kind, name):
            raise UnsupportedFunction(f"ndarray.{name} has no rule.", current().origin)
        shown = kind.__name__ if kind.__module__ == "builtins" else f"numpy.{kind.__name__}"
        raise AttributeError(f"'{shown}' object has no attribute '{name}'")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        target = ufunc if method == "__call__" else (ufunc, method)
        return self.__array_function__(target, (), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handler = FUNCTIONS.get(function)
        if handler is None:
            raise UnsupportedFunction(f"{function_name(function)} has no rule.", current().origin)
        return handler(*args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        return OPERATORS["getitem"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        OPERATORS["setitem"](self, index, value)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        size = self.dims[0]
        if isinstance(size, int):
            return size
        raise current().needs_dims([size], "The length of an array")

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __bool__(self) -> bool:
        hint = "write the test with if, while or np.where, where calque reads it"
        raise current().needs_known(self, "The truth of a run-time value", hint)

    def __int__(self) -> int:
        return known_int(self, "An integer")

    __index__ = __int__

    def __float__(self) -> float:
        raise current().needs_known(self, "A float")

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Array({self.type})"


def link(cell: Array, *others: Array) -> None:
    """Note that a cell and each of some others may, or may not, share memory."""
    for other in others:
        if other is not cell:
            cell.add_partners(other.bit)
            other.add_partners(cell.bit)


def note_twice(buffer: Array) -> None:
    """Note that two elements of a list kept in an array may, or may not, be one."""
    buffer.add_partners(buffer.bit)


def _wrap(value: Any) -> Any:
    return Array(value) if isinstance(value, Var) else value


wrap = _wrap


def function_name(function: Any) -> str:
    """``np.linalg.norm`` and the like, as users write it."""
    if isinstance(function, tuple):
        return f"{function_name(function[0])}.{function[1]}"
    module = getattr(function, "__module__", "") or ""
    name = getattr(function, "__name__", str(function))
    if isinstance(function, np.ufunc) and not module:
        module = "numpy" if getattr(np, name, None) is function else "scipy.special"
    public = [part for part in module.split(".") if not part.startswith("_")]
    if module.startswith("numpy"):
        places = ("linalg", "fft", "random", "ma", "rec")
        prefix = next((f"{p}." for p in places if p in public), "")
        if not prefix and not hasattr(np, name):
            prefix = "".join(f"{p}." for p in public[1:])
        return f"np.{prefix}{name}"
    if module.startswith("scipy"):
        return ".".join([*_public_place(module, function, public), *_object_names(function)])
    return f"{module}.{name}" if module not in ("builtins", "__main__", "") else name


def _public_place(module: str, function: Any, otherwise: list[str]) -> list[str]:
    """The parts of the shortest name of a module that has a function, or its class."""
    parts, name = module.split("."), getattr(function, "__name__", "")
    for length in range(2, len(parts) + 1):
        place = sys.modules.get(".".join(parts[:length]))
        found = getattr(place, name, None)
        if not parts[length - 1].startswith("_") and found is not None:
            if function in (found, getattr(found, "__wrapped__", None)):
                return parts[:length]
    return otherwise


def _object_names(function: Any) -> list[str]:
    """The path to a SciPy function within its module: ``norm``; for a method, object and method."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        return [*_object_names(getattr(owner, "dist", owner)), function.__name__]
    name = getattr(function, "__name__", None) or getattr(function, "name", None)
    return [name or type(function).__name__.removesuffix("_gen")]


def _operator(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Array, other: Any) -> Any:
        return OPERATORS[name](self, other)

    def backward(self: Array, other: Any) -> Any:
        return OPERATORS[name](other, self)

    return forward, backward


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split():
    _forward, _backward = _operator(_name)
    setattr(Array, f"__{_name}__", _forward)
    setattr(Array, f"__r{_name}__", _backward)
for _name in "lt le gt ge eq ne".split():
    setattr(Array, f"__{_name}__", _operator(_name)[0])
for _name in "neg pos invert abs".split():
    setattr(Array, f"__{_name}__", lambda self, _name=_name: OPERATORS[_name](self))
