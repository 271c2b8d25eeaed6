"""Builds Core by running NumPy code on recorded arrays.

``Array`` is a duck array (NEP 13, NEP 18, operators, methods): an operation on it appends a
statement to the block that is open. The interpreter of the user's code, the rules of primitives and
the passes all write Core this way, so a rule is a plain NumPy function.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from calque.transpiler.errors import IndexOutOfRange, Origin, ShapeError
from calque.transpiler.ir import core
from calque.transpiler.ir.arrays import (
    ATTRIBUTES,
    FUNCTIONS,
    METHODS,
    OPERATORS,
    Array,
    atom,
    current,
    function_name,
    known,
    known_int,
    link,
    local,
    note_twice,
    type_of,
    wrap,
)
from calque.transpiler.ir.core import Apply, Atom, Block, EqualDims, Var
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.naming import described, first_word, word_within
from calque.transpiler.ir.sizes import Sizes
from calque.transpiler.ir.types import INT, ArrayType, DimLike, dim_symbols
from calque.transpiler.ir.value_ranges import Magnitudes

__all__ = [
    "ATTRIBUTES",
    "FUNCTIONS",
    "METHODS",
    "OPERATORS",
    "Array",
    "Builder",
    "atom",
    "current",
    "function_name",
    "known",
    "known_int",
    "link",
    "loop_index",
    "note_twice",
    "type_of",
    "wrap",
]


# a multiple by less of an integer that dispatch takes for a run-time value fits into 64 bits
_LARGE_FACTOR = 1 << 28


class Builder(Sizes):
    """The program being built: its open blocks, definitions, and what is known of sizes."""

    def __init__(self, argument_symbols: Sequence[str] = (), pinned: dict[str, int] | None = None):
        self.pinned = pinned or {}  # sizes that became part of the signature
        self.blocks: list[Block] = []
        self.origin: Origin | None = None
        self.dims = Dims(set(argument_symbols))
        self.dims.places = {name: place for place, name in enumerate(argument_symbols)}
        self.definitions: dict[Var, core.Statement] = {}
        self.dim_values: dict[Var, DimLike] = {}
        self.contiguous: set[Var] = set()
        self.leaf_of_param: dict[Var, int] = {}
        self.numbers: dict[Var, Any] = {}  # captured ones that are inputs, and where they are
        self.magnitudes = Magnitudes(
            self.dims, self.definitions, self.dim_values, self.leaf_of_param
        )
        self.stored: dict[int, frozenset[int]] = {}  # by leaf: see LentMemory
        self.words: dict[Any, str] = {}  # for leaves of arguments that have no name
        self.equal_dims: list[EqualDims] = []
        self.doubted: list[tuple[DimLike, DimLike]] = []
        self.spread: set[frozenset[DimLike]] = set()
        self.compared: set[frozenset[DimLike]] = set()
        self._reads: dict[Any, DimLike] = {}
        self.imports: dict[str, str] = {}
        self.kinds: dict[Var, frozenset[type]] = {}  # of arguments: their classes in plain Python
        self.celled: dict[Var, frozenset[type]] = {}  # those of other cells of one version
        self.read_only: dict[int, Array] = {}  # cells that the program forbids to store into
        self.linked: list[weakref.ref[Array]] = []  # cells that may share memory with others
        self.quiet = False  # arithmetic is defined everywhere: no warning, and no slope
        self.axes: dict[Any, Any] = {}  # the named axes in scope: name -> NamedAxis
        self.varying: Any = None  # which values differ along the axes that are checked
        self.lanes: Any = None  # what batches the present call of a function with rules
        self.vmaps = 0  # how many batches the present code is one example of
        self.whole_batches = False  # both arms of a branch are for all examples, whatever they are
        self.lanes_taken = False  # some examples of a batch were taken apart from the others
        self.machine: Any = None  # the interpreter of the user's code; it runs the user's rules
        self.symmetries: dict[Var, Any] = {}  # of matrices, while a derivative is taken
        self.unmasked: set[Var] = set()  # vectors of which no mask has chosen the elements
        self.selections: Any = None  # of a sweep back: see primitives.guards
        self.remarks: dict[Any, None] | None = None  # of passes, in order, if they are asked for
        self.fold: Any = None  # what folds products with a basis of unit vectors away
        self._sizes: list[dict[DimLike, Var]] = []

    @contextmanager
    def active(self) -> Iterator[Builder]:
        """Make this the thread's current builder."""
        stack = local.__dict__.setdefault("stack", [])
        stack.append(self)
        try:
            yield self
        finally:
            stack.pop()

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Open a new block; statements go there until it is left."""
        block = Block()
        self.blocks.append(block)
        self._sizes.append({})
        try:
            yield block
        finally:
            self.blocks.pop()
            self._sizes.pop()

    @contextmanager
    def at(self, origin: Origin | None) -> Iterator[None]:
        """Statements built inside carry this origin."""
        before, self.origin = self.origin, origin
        try:
            yield
        finally:
            self.origin = before

    def emit(self, statement: core.Statement) -> None:
        """Append a statement to the open block."""
        self.blocks[-1].statements.append(statement)
        self.note(statement)

    def note(self, statement: core.Statement) -> None:
        """Record what a statement defines, and the loop that changes what it carries."""
        for out in statement.outs:
            self.definitions[out] = statement
        if isinstance(statement, (core.For, core.While)):
            self.magnitudes.note(statement)

    def apply(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record ``primitive(*args, **params)``; the result's type is inferred."""
        simpler = primitive.simplify(self, args, params) if primitive.simplify else None
        if simpler is None and self.fold is not None:
            simpler = self.fold(primitive, args, params)
        if simpler is not None:
            return simpler
        affine = self._affine_value(primitive.arithmetic, args)
        if affine is not None:
            for value in args:
                if isinstance(value, Array) and self.dim_of(value) == affine:
                    return value
            if isinstance(affine, int):
                return affine
            for simpler in (self.at_hand(affine), self._merged_constants(primitive, args)):
                if simpler is not None:
                    return simpler
        try:
            types = primitive.infer(*args, **params)
        except (ShapeError, IndexOutOfRange, TypeError) as error:
            if getattr(error, "origin", self) is None:
                error.origin = self.origin  # type: ignore[union-attr]
            raise
        single = isinstance(types, ArrayType)
        outs = tuple(Var(t, None, self.origin) for t in ((types,) if single else types))
        statement = Apply(outs, primitive, tuple(map(atom, args)), params, self.origin)
        self.emit(statement)
        self._note_layout(statement)
        if affine is not None:
            self.dim_values[outs[0]] = affine
            self._sizes[-1].setdefault(affine, outs[0])
        results = tuple(Array(out) for out in outs)
        if _is_view(primitive, args, params):
            results[0].is_buffer = not outs[0].type.ndim
            results[0].become_view(args[0], primitive, statement.args[1:], params)
        return results[0] if single else results

    def record(self, statement: Apply) -> None:
        """Append a statement whose types are known, and note what it says of sizes and layout."""
        self.emit(statement)
        self._note_layout(statement)
        args = [wrap(a) for a in statement.args]
        value = self._affine_value(statement.primitive.arithmetic, args)
        if statement.primitive.kind == "size" and "axis" in statement.params:
            value = type_of(args[0]).dims[statement.params["axis"]]
        if value is not None:
            self.dim_values[statement.out] = value
            self._sizes[-1].setdefault(value, statement.out)

    def at_hand(self, dim: DimLike) -> Array | None:
        """A recorded integer of this value in scope."""
        if dim_symbols(dim).isdisjoint(self.dims.growing):  # else it was so then
            for sizes in reversed(self._sizes):
                if dim in sizes:
                    return Array(sizes[dim])
        return None

    def _merged_constants(self, primitive: Any, args: Sequence[Any]) -> Any:
        """(n - 1) - 1 -> n - 2."""
        signs = {"add": 1, "subtract": -1}
        if (
            primitive.arithmetic not in signs
            or not isinstance(args[0], Array)
            or type(args[1]) is not int
        ):
            return None
        made = self.definitions.get(args[0].atom)
        if not isinstance(made, Apply) or made.primitive.arithmetic not in signs:
            return None
        inner, constant = made.args
        if not isinstance(inner, Var) or type(constant) is not int:
            return None
        total = signs[primitive.arithmetic] * args[1] + signs[made.primitive.arithmetic] * constant
        return Array(inner) + total if total >= 0 else Array(inner) - (-total)

    def _affine_value(self, arithmetic: str, args: Sequence[Any]) -> DimLike | None:
        """The value of a sum, difference or known multiple of integers as a dimension."""
        if arithmetic not in ("add", "subtract", "multiply", "negative"):
            return None
        types = [type_of(a) for a in args]
        if any(t.ndim or t.dtype.kind not in "iu" or not t.weak for t in types):
            return None
        values = [self.dim_of(a) for a in args]
        match arithmetic, values:
            case "add", [a, b]:
                return a + b
            case "subtract", [a, b]:
                return a - b
            case "negative", [a]:
                return a * -1
            case "multiply", [int() as a, b] | [b, int() as a] if abs(a) < _LARGE_FACTOR:
                return b * a
        return None

    def _note_layout(self, statement: Apply) -> None:
        inputs = [a for a in statement.args if isinstance(a, Var) and a.type.ndim]
        flat = statement.primitive.kind == "elementwise" and statement.out.type.ndim == 1
        if statement.primitive.keeps_layout and (flat or all(a in self.contiguous for a in inputs)):
            self.contiguous.update(statement.outs)
        elif statement.primitive.fresh:
            self.contiguous.update(statement.outs)

    def effect(self, template: str, args: Sequence[Any]) -> None:
        """Record a print, an assert or a raise."""
        self.emit(core.Effect(template, tuple(map(atom, args)), self.origin))

    def value_key(self, value: Atom, depth: int = 6) -> Any:
        """A key that is equal for two values made by the same operations on the same operands."""
        made = self.definitions.get(value) if depth and isinstance(value, Var) else None
        if not isinstance(made, Apply) or made.primitive.kind != "elementwise" or made.params:
            return value
        return made.primitive.name, *(self.value_key(a, depth - 1) for a in made.args)

    # words

    def word(self, value: Atom) -> str | None:
        """A word for a value within a longer name: its own name, else one that it is made of."""
        if not isinstance(value, Var):
            return None
        return word_within(value, lambda v: v.name or self.words.get(v), self.definitions)

    def name_of_adjoint(self, primal: Var) -> str | None:
        """``x_bar`` for a value with a name or a word, else None."""
        word = primal.name or self.words.get(primal)
        return f"{word}_bar" if word else None

    def name_of_flag(self, primal: Var) -> str | None:
        """``x_used`` for a value with a name or a word, else None."""
        word = primal.name or self.words.get(primal)
        return f"{word}_used" if word else None

    def described(self, value: Var) -> str | None:
        """A name for a value: the user's, or one that describes the operation that makes it."""
        made = self.definitions.get(value)
        known = value.name or self.words.get(value)
        if known or not isinstance(made, Apply) or first_word(made, self.word) is None:
            return known
        return described(made, self.word, self.named, self.definitions)

    def named(self, value: Atom) -> str | None:
        """The user's name for a value."""
        return value.name or self.words.get(value) if isinstance(value, Var) else None

    # dimensions

    def dim_of(self, value: Any) -> DimLike:
        """An integer (known, or recorded) as a dimension; a symbol of its own if need be."""
        value = atom(value)
        if not isinstance(value, Var):
            return int(value)
        if value not in self.dim_values:
            read = self._read_of(value)
            if read in self._reads:
                self.dim_values[value] = self._reads[read]
            else:
                self.dim_values[value] = made = self.dims.fresh()
                self.magnitudes.owners[made.terms[0][0]] = value
                self._note_choices(value, made.terms[0][0])
                if read is not None:
                    self._reads[read] = made
        return self.dims.resolve(self.dim_values[value])

    def _read_of(self, value: Var) -> tuple[Any, ...] | None:
        """A key of the read or computation that makes a number: equal keys mean equal numbers."""
        made = self.definitions.get(value)
        if not isinstance(made, Apply):
            return None
        if made.primitive.kind not in ("indexing", "elementwise"):
            return None
        if not all(isinstance(a, (Var, int)) for a in made.args):
            return None
        return (made.primitive.name, *made.args, repr(made.params))

    def _note_choices(self, value: Var, name: str) -> None:
        """Note that an integer is a maximum or minimum of others, a quotient or a remainder."""
        made = self.definitions.get(value)
        if not isinstance(made, Apply) or value.type.dtype.kind not in "iu":
            return
        match made.primitive.arithmetic:
            case "max":
                choices, enough = self.dims.largest, any
            case "min":
                choices, enough = self.dims.smallest, all
            case "floor_divide" if type(made.args[1]) is int and made.args[1] > 0:
                dividend = self.dim_of(wrap(made.args[0]))
                self.dims.floors[name] = dividend, made.args[1]
                if self.dims.always_nonnegative(dividend):
                    self.dims.natural.add(name)
                return
            case "remainder":
                divisor = self.dim_of(wrap(made.args[1]))
                exists = value.type.weak or isinstance(divisor, int)  # NumPy's own by 0 are 0
                if exists and self.dims.always_nonnegative(divisor - (not value.type.weak)):
                    self.dims.ranges[name] = (0, divisor - 1)
                return
            case _:
                return
        choices[name] = found = [self.dim_of(wrap(a)) for a in made.args]
        if enough(map(self.dims.always_nonnegative, found)):
            self.dims.natural.add(name)

    def know_dim(self, array: Array, dim: DimLike) -> Array:
        """Note that an integer Array has this affine value."""
        self.dim_values[array.atom] = dim
        return array

    def size_of(self, dim: DimLike, array: Any, axis: int) -> Any:
        """Axis ``axis`` of ``array`` as an int, or a recorded integer, one at hand if possible."""
        dim = self.dims.resolve(dim)
        if isinstance(dim, int):
            return dim
        if (known := self.at_hand(dim)) is not None:
            return known
        made = self.definitions.get(atom(array))
        if isinstance(made, Apply) and made.primitive.imported:  # not called for a size alone
            elsewhere = self.size_of_argument(dim)
            if elsewhere is not None:
                return elsewhere
        carried = made is None and atom(array) not in self.leaf_of_param
        if carried and dim_symbols(dim) <= self.dims.arguments:
            found = self.size_of_argument(dim)  # at hand everywhere, in a sweep back too
            if found is not None:
                return found
        from_table = FUNCTIONS["size of axis"]
        result = from_table(array, axis)
        self.dim_values[result.atom] = dim
        self._sizes[-1][dim] = result.atom
        return result

    def size_of_argument(self, dim: DimLike) -> Any:
        """A size read from an argument that has it; None if no argument has."""
        for var in self.leaf_of_param:
            for axis, own in enumerate(var.type.dims):
                if self.dims.resolve(own) == dim:
                    return self.size_of(dim, Array(var), axis)
        return None

    def remember_size(self, value: Any) -> None:
        """Let later sizes equal to this integer's value be read from it."""
        value = atom(value)
        if isinstance(value, Var) and value in self.dim_values:
            self._sizes[-1].setdefault(self.dims.resolve(self.dim_values[value]), value)


def _is_view(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """True if a result shares its first operand's memory; a NumPy scalar has none to share."""
    if primitive.view_back is None or not isinstance(args[0], Array):
        return False
    return args[0].has_memory() and not (primitive.copies and primitive.copies(*args, **params))


def loop_index(
    low: DimLike, high: DimLike, name: str | None, ends: tuple[DimLike, ...] = ()
) -> Array:
    """A loop's index Var, an integer between two dimensions (both included).

    ``ends`` are the bounds as the loop computes them, where they differ from ``low`` and ``high``.
    """
    builder = current()
    var = Var(INT, name, builder.origin)
    index = builder.dims.fresh()
    builder.dim_values[var] = index
    (own,) = dim_symbols(index)
    builder.dims.ranges[own], builder.dims.ends[own] = (low, high), ends or (low, high)
    return Array(var)
