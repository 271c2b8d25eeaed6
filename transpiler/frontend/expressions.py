"""Expressions: known operands are computed by Python, run-time ones recorded."""

from __future__ import annotations

import dataclasses
import operator
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import (
    NeedsKnownValue,
    SpecializationNeeded,
    UnsupportedFunction,
    UnsupportedSyntax,
)
from calque.transpiler.frontend.attributes import read_attribute
from calque.transpiler.frontend.comparisons import Comparisons, numeric
from calque.transpiler.frontend.control.chosen_elements import (
    CACHED,
    ELEMENT,
    KEY,
    NEW_KEY,
    Lookup,
    common_description,
    element_at,
    looked_up,
    may_be_tagged,
    place_in,
    value_under,
)
from calque.transpiler.frontend.library.polyfills import joined_lists
from calque.transpiler.frontend.library.scipy_objects import is_sparse
from calque.transpiler.frontend.machine import Closure
from calque.transpiler.frontend.methods import by_method, method_of
from calque.transpiler.frontend.mixed_operations import (
    UFUNCS,
    called,
    holds_mixed,
    operated,
    operation,
)
from calque.transpiler.frontend.pythons_powers import is_pythons_power, pythons_power
from calque.transpiler.frontend.values.containers.container_kinds import MISSING, kind_of
from calque.transpiler.frontend.values.containers.list_kinds import RecordedList, rows_of
from calque.transpiler.frontend.values.iterables import (
    FlatElements,
    Iterable,
    Rows,
    positional,
    refuse_unending,
)
from calque.transpiler.frontend.values.key_presence import check_dict, check_key
from calque.transpiler.frontend.values.kinds import check_items, noted
from calque.transpiler.frontend.values.list_arrays import gathered
from calque.transpiler.frontend.values.memory_questions import KnownFlags
from calque.transpiler.frontend.values.mixed_numbers import MixedNumber
from calque.transpiler.frontend.values.nested_lists import hold, hold_again, holder
from calque.transpiler.frontend.values.stepwise import stepping
from calque.transpiler.frontend.values.strings import RuntimeText
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir.builder import OPERATORS, Array, known, known_int
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.numpy_errors import asked
from calque.transpiler.primitives.base import SPARSE

BINARY: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    gast.Add: ("add", operator.add),
    gast.Sub: ("sub", operator.sub),
    gast.Mult: ("mul", operator.mul),
    gast.Div: ("truediv", operator.truediv),
    gast.FloorDiv: ("floordiv", operator.floordiv),
    gast.Mod: ("mod", operator.mod),
    gast.Pow: ("pow", operator.pow),
    gast.MatMult: ("matmul", operator.matmul),
    gast.BitAnd: ("and", operator.and_),
    gast.BitOr: ("or", operator.or_),
    gast.BitXor: ("xor", operator.xor),
    gast.LShift: ("lshift", operator.lshift),
    gast.RShift: ("rshift", operator.rshift),
}
UNARY: dict[type, tuple[str, Callable[[Any], Any]]] = {
    gast.USub: ("neg", operator.neg),
    gast.UAdd: ("pos", operator.pos),
    gast.Invert: ("invert", operator.invert),
}


_INSTEAD_OF = {
    KEY: "make the values an array, and the key an index into it",
    NEW_KEY: "append the values to a list, or store them into an array",
    CACHED: "use functools.lru_cache, which is passed over, or call what is cached directly",
    ELEMENT: "keep a list, or take np.unique of an array",
}


class Expressions(Comparisons):
    """Evaluation of every kind of expression."""

    def evaluate(self, node: Any) -> Any:
        """The value of an expression."""
        with self.at(node):
            return getattr(self, f"eval_{type(node).__name__}", self._unsupported)(node)

    def _unsupported(self, node: Any) -> Any:
        word = {"Await": "await", "Yield": "yield", "YieldFrom": "yield from"}.get(
            type(node).__name__, type(node).__name__
        )
        return self.fail(
            UnsupportedSyntax,
            node,
            f"`{word}` is not supported.",
            "return a list of the values instead" if word.startswith("yield") else None,
        )

    def eval_Constant(self, node: Any) -> Any:
        """A literal."""
        return node.value

    def eval_Name(self, node: Any) -> Any:
        """A name."""
        return self.read_name(node.id, node)

    def eval_Tuple(self, node: Any) -> Any:
        """A tuple display."""
        return tuple(self._elements(node.elts))

    def eval_List(self, node: Any) -> Any:
        """A list display."""
        return self.own(RecordedList(self._elements(node.elts)))

    def eval_Set(self, node: Any) -> Any:
        """A set display."""
        return self.own({self.hashable(v, node, ELEMENT) for v in self._elements(node.elts)})

    def _elements(self, nodes: list[Any]) -> list[Any]:
        values: list[Any] = []
        for item in nodes:
            if isinstance(item, gast.Starred):
                values += self.known_items(self.consumed(item.value), item)
            else:
                values.append(self.evaluate(item))
        return values

    def eval_Dict(self, node: Any) -> Any:
        """A dict display."""
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.evaluate(value))
            else:
                result[self.hashable(self.evaluate(key), key)] = self.evaluate(value)
        return self.own(result)

    def hashable(self, key: Any, node: Any, what: str = KEY) -> Any:
        """A key of a dict, or an element of a set, which must be known; so must its parts."""
        key = self.settled(key, node)
        if isinstance(key, tuple):
            parts = [self.hashable(part, node, what) for part in key]
            return type(key)(*parts) if hasattr(key, "_fields") else tuple(parts)
        if dataclasses.is_dataclass(key) and not isinstance(key, type):
            fields = dataclasses.fields(key)
            parts = [self.hashable(getattr(key, f.name), node, what) for f in fields]
            if not any(isinstance(v, Array) for v in vars(key).values()):
                return key
            return type(key)(*parts)
        if isinstance(key, Array):
            if key.ndim or key.is_buffer:
                raise TypeError("unhashable type: 'numpy.ndarray'")
            with self.at(node):
                dim = self.builder.dim_of(key) if key.dtype.kind in "iu" and not key.ndim else None
                if isinstance(dim, int):
                    return dim
                raise self.builder.needs_known(key, what, _INSTEAD_OF[what])
        return key

    # operators

    def binary(self, kind: type, left: Any, right: Any, node: Any) -> Any:
        """``left op right``."""
        name, function = BINARY[kind]
        if isinstance(left, (str, RuntimeText)) or isinstance(right, RuntimeText):
            text = self.text_operator(kind, left, right)
            if text is not NotImplemented:
                return text
            left, right = self.settled(left, node), self.settled(right, node)
        own = by_method(self, name, left, right, node)
        if own is not NotImplemented:
            return own
        if is_sparse(left) or is_sparse(right):
            self._refuse_sparse(left, right, node)
        if kind in (gast.Add, gast.Mult):
            self.check_lists(left, right, node)
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            left, right = self.recorded(left), self.recorded(right)
        if any(isinstance(v, Array) and v.ndim for v in (left, right)):
            left, right = gathered(left), gathered(right)
        if kind is gast.Mult:
            for values, count in ((left, right), (right, left)):
                made = self.repeated(values, count)
                if made is not None:
                    return made
            left, right = _repeats(left, right), _repeats(right, left)
        if self.is_mixed(left, right) and name in UFUNCS:
            again = lambda left, right: self.binary(kind, left, right, node)
            return operated(self, operation(name), [left, right], again)
        if kind is gast.Pow and is_pythons_power(left, right):
            return pythons_power(self, left, right, node)
        if not isinstance(left, Array) and not isinstance(right, Array):
            if _has_rows(left) or _has_rows(right):
                if kind is not gast.Add or not all(isinstance(v, list) for v in (left, right)):
                    self._refuse_whole(node)
                return self.call_value(joined_lists, [left, right], {}, node)
            result = function(left, right)
            if type(result) is list:
                return self.own(RecordedList(result))
            return self.own(result) if isinstance(result, (list, dict, set)) else result
        if not numeric(left) or not numeric(right):
            method = getattr(type(left), f"__{name}__", None)
            if method is None or isinstance(left, (list, tuple, np.generic)):
                return asked(function, OPERATORS[name], left, right)
            return function(left, right)
        return asked(function, OPERATORS[name], left, right)

    def _refuse_sparse(self, left: Any, right: Any, node: Any) -> None:
        """Refuse a SciPy sparse matrix with a run-time value: only SciPy computes with it."""
        if not known((left, right)) or any(isinstance(v, np.ndarray) for v in (left, right)):
            kind = type(left if is_sparse(left) else right).__name__
            message = f"A {kind} of SciPy's has no rules for run-time values."
            self.fail(UnsupportedFunction, node, message, SPARSE)

    def eval_BinOp(self, node: Any) -> Any:
        """``a op b``."""
        left = self.evaluate(node.left)
        right = self.evaluate(node.right)
        result = self.binary(type(node.op), left, right, node)
        if isinstance(result, Array) and numeric(left) and numeric(right):
            return noted(result, np.add, [left, right], {})  # an operator gives no 0-d array
        return result

    def eval_UnaryOp(self, node: Any) -> Any:
        """``-a``, ``+a``, ``~a``, ``not a``."""
        if isinstance(node.op, gast.Not):
            return self.logical_not(self.condition(node.operand), node)
        return self.unary(type(node.op), self.evaluate(node.operand), node)

    def unary(self, kind: type, value: Any, node: Any) -> Any:
        """``op value``."""
        name, function = UNARY[kind]
        value = self.recorded(value) if isinstance(value, np.ndarray) else value
        if isinstance(value, MixedNumber):
            again = lambda value: self.unary(kind, value, node)
            return operated(self, operation(name), [value], again)
        own = method_of(value, name)
        if own is not None:
            return self.call_value(own, [value], {}, node)
        if not isinstance(value, Array):
            return function(value)
        return noted(OPERATORS[name](value), np.negative, [value], {})

    # attributes, subscripts, functions

    def eval_Attribute(self, node: Any) -> Any:
        """``value.name``."""
        return self.attribute(self.evaluate(node.value), node.attr, node)

    def attribute(self, value: Any, name: str, node: Any) -> Any:
        """An attribute: of an Array, a module, or an object, whose arrays become hidden inputs."""
        return read_attribute(self, value, name, node)

    def eval_Subscript(self, node: Any) -> Any:
        """``value[index]``; of ``table[row][column]``, the column may be taken first."""
        if not isinstance(node.value, gast.Subscript):
            value = self.evaluate(node.value)
            return self.subscript(value, self.evaluate(node.slice), node)
        table = self.settled(self.evaluate(node.value.value), node)
        row = self.evaluate(node.value.slice)
        if not _is_table(table, row):
            value = self.subscript(table, row, node.value)
            return self.subscript(value, self.evaluate(node.slice), node)
        column = self.evaluate(node.slice)
        return self.subscript([self.subscript(t, column, node) for t in table], row, node.value)

    def subscript(self, value: Any, index: Any, node: Any) -> Any:
        """``value[index]`` of arrays and of known containers."""
        if isinstance(value, np.ndarray):
            value = self.recorded(value)
        if isinstance(value, Array):
            check_items(value, stores=False)
            if isinstance(index, slice):
                self.check_apart(value, node)
            if holds_mixed([index]):
                return called(self, [index], {}, lambda index: self.subscript(value, index, node))
            found = asked(operator.getitem, OPERATORS["getitem"], value, gathered(index))
            found = noted(found, operator.getitem, [value, index], {})
            return hold_again(found, value.listed)
        if isinstance(value, KnownFlags):
            return value.by_name(index)
        value, index = self.settled(value, node), self.settled(index, node)
        rows = rows_of(value)
        if rows is not None and isinstance(index, slice):
            part = RecordedList()
            part.rows = self.own(rows.part(index))
            return self.own(part)
        if rows is not None:
            return rows[index]
        if isinstance(value, Rows):
            return value.element(index)
        if isinstance(value, FlatElements):
            return asked(operator.getitem, operator.getitem, value, gathered(index))
        if isinstance(value, dict):
            found = self.looked_up(value, index, node)
            if found is not None:
                return self.checked(value_under(self, found, index, node), "this value", node)
            index = self.hashable(index, node)
        if isinstance(value, dict) and kind_of(value).lacking(value) is MISSING:
            held = value.get(index)
            if not isinstance(held, TaggedValue) and not self.is_unsure(held):  # told by the read
                check_key(self, value, index, node)
        if isinstance(value, defaultdict) and value.default_factory and index not in value:
            self.store(value, index, self.call_value(value.default_factory, [], {}, node), node)
        if isinstance(index, (Array, slice)) and isinstance(value, (list, tuple, str)):
            index = self._known_index(index, value, node)
            if isinstance(index, Array):
                found = element_at(self, value, index, node)
                return self.checked(found, "this element", node)
        if not isinstance(value, (list, tuple, dict, str, range)) and not isinstance(value, type):
            method = getattr(type(value), "__getitem__", None)
            if method is not None:
                return self.call_value(method, [value, index], {}, node)
        result = value[index]
        key = isinstance(value, dict) and isinstance(index, str)
        result = self.checked(result, index if key else "this element", node)
        if type(result) is not list:
            return result
        return hold(self.own(RecordedList(result)), holder(result))

    def _known_index(self, index: Any, value: Any, node: Any) -> Any:
        if isinstance(index, slice):
            parts = [index.start, index.stop, index.step]
            return slice(*[self._known_index(p, value, node) for p in parts])
        if isinstance(index, Array):
            index = place_in(value, index)
            dim = self.builder.dim_of(index)
            if isinstance(dim, int):
                return dim
            wanted = self.builder.needs_known(
                index, "The index of a list", "make the list an array with np.array"
            )
            if isinstance(wanted, SpecializationNeeded):
                raise wanted
            if common_description(value) is None and not may_be_tagged(self, value, wanted):
                raise wanted
            unrolled = self.loops_around() and not self.indexing
            if unrolled and not self._is_of_data(index.atom):
                if isinstance(wanted, NeedsKnownValue):
                    wanted.of_list = True
                raise wanted  # an unrolled loop may know it
        return index

    def _is_of_data(self, index: Var) -> bool:
        """True if an integer depends on an array's elements, so that unrolling would not help."""
        pending: list[Any] = [index]
        while pending:
            value = pending.pop()
            if not isinstance(value, Var):
                continue
            made = self.builder.definitions.get(value)
            if not isinstance(made, Apply) and value.type.ndim:
                return True
            if isinstance(made, Apply) and made.primitive.kind != "size":
                pending += made.args
        return False

    def looked_up(self, table: dict[Any, Any], key: Any, node: Any) -> Lookup | None:
        """The place of a run-time number among the keys of a dict; None for a known key."""
        if not isinstance(key, Array) or key.ndim or key.is_buffer:
            return None
        if key.dtype.kind in "iu" and isinstance(self.builder.dim_of(key), int):
            return None
        wanted = self.builder.needs_known(key, KEY)
        lacking = kind_of(table).lacking(table) is not MISSING
        if isinstance(wanted, SpecializationNeeded) or lacking or type(table) is not dict:
            return None
        check_dict(table, node)
        return looked_up(self, table, key, wanted)

    def eval_Slice(self, node: Any) -> Any:
        """``a:b:c`` within a subscript."""
        parts = [
            None if p is None else self.evaluate(p) for p in (node.lower, node.upper, node.step)
        ]
        return slice(*parts)

    def eval_NamedExpr(self, node: Any) -> Any:
        """``(name := value)``."""
        value = self.evaluate(node.value)
        call = self.call
        inner = call.frame
        while call.frame.comprehension and call.frame.parent is not None:
            call.frame = call.frame.parent
        try:
            self.write_name(node.target.id, value, node)
        finally:
            call.frame = inner
        return value

    def eval_Lambda(self, node: Any) -> Any:
        """A lambda."""
        return self.closure(node, "lambda")

    def closure(self, node: Any, name: str) -> Closure:
        """A function defined here: defaults are evaluated now, free names when they are read."""
        arguments = node.args
        defaults = tuple(self.evaluate(d) for d in arguments.defaults)
        kw_defaults = {
            a.id: self.evaluate(d)
            for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if d is not None
        }
        call = self.call
        return Closure(
            call.source, node, call.frame, call.globals, call.cells, defaults, kw_defaults, name
        )

    def known_items(self, value: Any, node: Any) -> list[Any]:
        """The items of an iterable whose length is known."""
        if isinstance(value, (list, tuple, dict, set, str, range)) and not _has_rows(value):
            check_dict(value, node)
            return list(value)
        if isinstance(value, Array):
            return list(value)
        if isinstance(value, Iterable) and value.cursor is None:
            with self.at(node):
                value = positional(value)
            length = value.length()
            if isinstance(length, Array):
                raise self.builder.needs_known(length, "The number of values")
            return [value.element(i) for i in range(length)]
        rows = rows_of(value)
        if rows is not None:
            return list(rows)
        with self.at(node):
            try:
                steps = stepping(value)
            except TypeError:
                message = f"{type(value).__name__} cannot be iterated."
                return self.fail(UnsupportedSyntax, node, message)
            if not steps.ends():
                refuse_unending(steps)
            return list(steps)


def _repeats(value: Any, other: Any) -> Any:
    """A factor of ``sequence * count``: an integer count must be known; others as they are."""
    if not isinstance(other, (list, tuple, str)) or not is_count(value):
        return value
    return known_int(value, "How often a sequence is repeated")


def _is_table(value: Any, row: Any) -> bool:
    """True if a run-time ``row`` indexes lists of one length, or dicts with the same keys."""
    if not is_count(row) or not isinstance(value, (list, tuple)) or not value or _has_rows(value):
        return False
    if all(type(t) is dict for t in value):
        return all(t.keys() == value[0].keys() for t in value)
    known_rows = all(isinstance(t, (list, tuple)) and not _has_rows(t) for t in value)
    return known_rows and len({len(t) for t in value}) == 1


def is_count(value: Any) -> bool:
    """True if a value is a run-time integer."""
    scalar = isinstance(value, Array) and not value.ndim and not value.is_buffer
    return scalar and value.dtype.kind in "iu"


def _has_rows(value: Any) -> bool:
    return rows_of(value) is not None
