"""Expressions: known operands are computed by Python, run-time ones recorded."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from calque.transpiler.builder import FUNCTIONS, OPERATORS, Array, known, type_of
from calque.transpiler.errors import CalqueError, NeedsKnownValue, UnsupportedSyntax
from calque.transpiler.frontend.heap import RecordedList
from calque.transpiler.frontend.interpreter import Closure
from calque.transpiler.frontend.iteration import Rows, is_runtime_iterable
from calque.transpiler.frontend.text import RuntimeText, Texts
from calque.transpiler.primitives.base import PRIMITIVES, Primitive, apply, register
from calque.transpiler.types import BOOL

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
COMPARE: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    gast.Lt: ("lt", operator.lt),
    gast.LtE: ("le", operator.le),
    gast.Gt: ("gt", operator.gt),
    gast.GtE: ("ge", operator.ge),
    gast.Eq: ("eq", operator.eq),
    gast.NotEq: ("ne", operator.ne),
}
UNARY: dict[type, tuple[str, Callable[[Any], Any]]] = {
    gast.USub: ("neg", operator.neg),
    gast.UAdd: ("pos", operator.pos),
    gast.Invert: ("invert", operator.invert),
}

not_ = register(
    Primitive(
        "not",
        operator.not_,
        lambda x: BOOL,
        "not {0}",
        kind="elementwise",
        nondifferentiable=True,
        cheap=True,
        samples=lambda rng: [((True,), {}), ((False,), {})],
    )
)

and_ = register(
    Primitive(
        "and",
        lambda a, b: a and b,
        lambda a, b: BOOL,
        "{0} and {1}",
        kind="elementwise",
        nondifferentiable=True,
        cheap=True,
        samples=lambda rng: [((True, False), {}), ((False, True), {})],
    )
)


class Expressions(Texts):
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
        return self.own(set(self._elements(node.elts)))

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

    def hashable(self, key: Any, node: Any) -> Any:
        """A dict key, which must be known."""
        key = self.settled(key, node)
        if isinstance(key, Array):
            with self.at(node):
                dim = self.builder.dim_of(key) if key.dtype.kind in "iu" and not key.ndim else None
                if isinstance(dim, int):
                    return dim
                raise self.builder.needs_known(key, "A key")
        return key

    # operators

    def binary(self, kind: type, left: Any, right: Any, node: Any) -> Any:
        """``left op right``."""
        name, function = BINARY[kind]
        if isinstance(left, RuntimeText) or isinstance(right, RuntimeText):
            if kind is gast.Add and all(isinstance(v, (str, RuntimeText)) for v in (left, right)):
                return RuntimeText([left]).joined(right)
            left, right = self.settled(left, node), self.settled(right, node)
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            left, right = self.recorded(left), self.recorded(right)
        if not isinstance(left, Array) and not isinstance(right, Array):
            if _has_rows(left) or _has_rows(right):
                raise NeedsKnownValue("A list that grows in a loop is used as a whole.", self.origin(node))
            result = function(left, right)
            return self.own(RecordedList(result)) if isinstance(result, list) else result
        if not _numeric(left) or not _numeric(right):
            method = getattr(type(left), f"__{name}__", None)
            if method is None or isinstance(left, (list, tuple, np.generic)):
                return OPERATORS[name](left, right)
            return function(left, right)
        return OPERATORS[name](left, right)

    def eval_BinOp(self, node: Any) -> Any:
        """``a op b``."""
        left = self.evaluate(node.left)
        return self.binary(type(node.op), left, self.evaluate(node.right), node)

    def eval_UnaryOp(self, node: Any) -> Any:
        """``-a``, ``+a``, ``~a``, ``not a``."""
        value = self.evaluate(node.operand)
        if isinstance(node.op, gast.Not):
            return self.logical_not(value, node)
        name, function = UNARY[type(node.op)]
        value = self.recorded(value) if isinstance(value, np.ndarray) else value
        if not isinstance(value, Array):
            return function(value)
        return OPERATORS[name](value)

    def logical_not(self, value: Any, node: Any) -> Any:
        """``not value``."""
        value = self.truth(value, node)
        return apply(not_, value) if isinstance(value, Array) else not value

    def eval_Compare(self, node: Any) -> Any:
        """Chained comparisons; operands are evaluated once, later ones only if needed."""

        def rest(left: Any, position: int) -> Any:
            right = self.evaluate(node.comparators[position])
            result = self.compare(node.ops[position], left, right, node)
            if position + 1 == len(node.ops):
                return result
            return self.short_circuit(result, lambda: rest(right, position + 1), node, is_and=True)

        return rest(self.evaluate(node.left), 0)

    def compare(self, op: Any, left: Any, right: Any, node: Any) -> Any:
        """One comparison."""
        if isinstance(op, (gast.Is, gast.IsNot)):
            same = left is right
            return same if isinstance(op, gast.Is) else not same
        left, right = self.settled(left, node), self.settled(right, node)
        if isinstance(op, (gast.In, gast.NotIn)):
            return self._contains(left, right, isinstance(op, gast.NotIn), node)
        name, function = COMPARE[type(op)]
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            left, right = self.recorded(left), self.recorded(right)
        if isinstance(left, Array) or isinstance(right, Array):
            if not _numeric(left) or not _numeric(right):
                return isinstance(op, gast.NotEq)
            decided = self._known_comparison(function, left, right)
            return OPERATORS[name](left, right) if decided is None else decided
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)) and name in ("eq", "ne"):
            return self._compare_sequences(left, right, name == "eq", node)
        return function(left, right)

    def _known_comparison(self, function: Any, left: Any, right: Any) -> bool | None:
        """Comparisons of sizes that differ by a constant, and of an argument's size with 1."""
        if any(type_of(v).ndim or type_of(v).dtype.kind not in "iu" for v in (left, right)):
            return None
        difference = self.builder.dim_of(left) - self.builder.dim_of(right)
        difference = self.builder.dims.resolve(difference)
        if isinstance(difference, int):
            return bool(function(difference, 0))
        arguments = self.builder.dims.arguments
        if function in (operator.eq, operator.ne) and difference.const in (1, -1):
            if [abs(c) for _, c in difference.terms] == [1] and difference.symbols() <= arguments:
                if difference.terms[0][1] * difference.const == -1:
                    return function is operator.ne
        return None

    def _compare_sequences(self, left: Any, right: Any, equal: bool, node: Any) -> Any:
        """Shapes and the like: elements that are known decide first."""
        if len(left) != len(right) or type(left).__name__ != type(right).__name__:
            return not equal
        result: Any = True
        for a, b in zip(left, right, strict=True):
            if known(a) and known(b):
                if a != b:
                    return not equal
            elif not self._same_dim(a, b):
                now = self.compare(gast.Eq(), a, b, node)
                result = now if result is True else apply(PRIMITIVES["np.bitwise_and"], result, now)
        return result if equal else self.logical_not(result, node)

    def _same_dim(self, a: Any, b: Any) -> bool:
        integers = all(type_of(v).dtype.kind in "iu" and not type_of(v).ndim for v in (a, b))
        return integers and self.builder.dim_of(a) == self.builder.dim_of(b)

    def _contains(self, item: Any, container: Any, negate: bool, node: Any) -> Any:
        if isinstance(item, Array) or isinstance(container, Array):
            if isinstance(container, Array):
                found: Any = np.any(container == item)
            else:
                found = False
                for other in container:
                    now = self.compare(gast.Eq(), item, other, node)
                    found = now if found is False else self.short_circuit(found, lambda n=now: n, node, False)
            return self.logical_not(found, node) if negate else found
        return (item not in container) if negate else (item in container)

    def eval_BoolOp(self, node: Any) -> Any:
        """``a and b``, ``a or b``: the right side is evaluated only where Python would."""
        is_and = isinstance(node.op, gast.And)

        def rest(position: int) -> Any:
            value = self.evaluate(node.values[position])
            if position + 1 == len(node.values):
                return value
            return self.short_circuit(value, lambda: rest(position + 1), node, is_and)

        return rest(0)

    def short_circuit(self, value: Any, rest: Callable[[], Any], node: Any, is_and: bool) -> Any:
        """``value and rest()`` or ``value or rest()``."""
        test = self.truth(value, node)
        if not isinstance(test, Array):
            return rest() if bool(test) == is_and else value
        is_bool = test.dtype.kind == "b"
        if is_and:
            return self.choose(test, rest, lambda: False if is_bool else value, node)
        return self.choose(test, lambda: True if is_bool else value, rest, node)

    def eval_IfExp(self, node: Any) -> Any:
        """``a if test else b``."""
        test = self.truth(self.evaluate(node.test), node.test)
        if not isinstance(test, Array):
            return self.evaluate(node.body if test else node.orelse)
        return self.choose(
            test, lambda: self.evaluate(node.body), lambda: self.evaluate(node.orelse), node
        )

    def truth(self, value: Any, node: Any) -> Any:
        """The truth of a value: a Python bool where known, else a recorded scalar."""
        if isinstance(value, np.ndarray):
            value = self.recorded(value)
        if not isinstance(value, Array):
            rows = getattr(value, "rows", None)
            return bool(value) if rows is None else rows.length() != 0
        if value.ndim:
            if all(d == 1 for d in value.dims):
                value = value.reshape(())
            elif all(isinstance(d, int) for d in value.dims) and value.size != 1:
                self.fail(
                    NeedsKnownValue,
                    node,
                    "The truth value of an array with more than one element is ambiguous.",
                    "use np.any(...) or np.all(...)",
                )
            else:
                raise self.builder.needs_dims(value.dims, "The truth value of an array: its size")
        if value.dtype.kind in "iu":
            dim = self.builder.dim_of(value)
            if isinstance(dim, int):
                return bool(dim)
        return value

    def choose(self, test: Array, then: Callable[[], Any], orelse: Callable[[], Any], node: Any) -> Any:
        """A conditional expression on a run-time test (see branches)."""
        raise NotImplementedError

    # attributes, subscripts, functions

    def eval_Attribute(self, node: Any) -> Any:
        """``value.name``."""
        return self.attribute(self.evaluate(node.value), node.attr, node)

    def attribute(self, value: Any, name: str, node: Any) -> Any:
        """An attribute: of an Array, a module, or an object, whose arrays become hidden inputs."""
        if isinstance(value, Array):
            return getattr(value, name)
        value = self.settled(value, node)
        if isinstance(value, super):
            return self._inherited(value, name, node)
        rows = getattr(value, "rows", None)
        if rows is not None and hasattr(rows, name):
            return getattr(rows, name)
        for base in type(value).__mro__:
            member = vars(base).get(name)
            if isinstance(member, property) and member.fget is not None and not isinstance(value, type):
                return self.call_value(member.fget, [value], {}, node)
            if member is not None:
                break
        try:
            found = getattr(value, name)
        except AttributeError as error:
            return self.fail(UnsupportedSyntax, node, str(error) + ".")
        if isinstance(value, type(np)) or id(value) in self.owned or isinstance(value, (list, tuple, dict)):
            return self.checked(found, name, node)
        if callable(found) and not isinstance(found, np.ndarray):
            return found
        return self.lift(found, name, lambda: getattr(value, name))

    def _inherited(self, value: Any, name: str, node: Any) -> Any:
        """An attribute of ``super()``."""
        order = value.__self_class__.__mro__
        for base in order[order.index(value.__thisclass__) + 1 :]:
            member = vars(base).get(name)
            if isinstance(member, property) and member.fget is not None:
                return self.call_value(member.fget, [value.__self__], {}, node)
            if member is not None:
                break
        return getattr(value, name)

    def consumed(self, node: Any) -> Any:
        """An expression whose value is consumed at once (see comprehensions)."""
        raise NotImplementedError

    def call_value(self, function: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        """Call anything (see calls)."""
        raise NotImplementedError

    def eval_Subscript(self, node: Any) -> Any:
        """``value[index]``."""
        value = self.evaluate(node.value)
        return self.subscript(value, self.evaluate(node.slice), node)

    def subscript(self, value: Any, index: Any, node: Any) -> Any:
        """``value[index]`` of arrays and of known containers."""
        if isinstance(value, np.ndarray):
            value = self.recorded(value)
        if isinstance(value, Array):
            return value[index]
        value, index = self.settled(value, node), self.settled(index, node)
        rows = getattr(value, "rows", None)
        if rows is not None:
            return rows[index]
        if isinstance(value, Rows):
            return value.element(index)
        if isinstance(index, (Array, slice)) and isinstance(value, (list, tuple)):
            index = self._known_index(index, value, node)
        if not isinstance(value, (list, tuple, dict, str, range)) and not isinstance(value, type):
            method = getattr(type(value), "__getitem__", None)
            if method is not None:
                return self.call_value(method, [value, index], {}, node)
        try:
            result = value[self.hashable(index, node) if isinstance(value, dict) else index]
        except (KeyError, IndexError) as error:
            error.add_note(str(CalqueError("", self.origin(node))))
            raise
        self.checked(result, "this element", node)
        return self.own(RecordedList(result)) if type(result) is list else result

    def _known_index(self, index: Any, value: Any, node: Any) -> Any:
        if isinstance(index, slice):
            parts = [index.start, index.stop, index.step]
            return slice(*[self._known_index(p, value, node) for p in parts])
        if isinstance(index, Array):
            dim = self.builder.dim_of(index) if index.dtype.kind in "iu" else None
            if isinstance(dim, int):
                return dim
            if value and all(isinstance(v, (Array, int, float)) for v in value):
                same = {(type_of(v).dims, type_of(v).dtype) for v in value}
                if len(same) == 1 and not self._is_loop_index(index):
                    raise self.builder.needs_known(index, "The index of a list")
            raise self.builder.needs_known(
                index, "The index of a list", "make the list an array with np.array"
            )
        return index

    def _is_loop_index(self, index: Array) -> bool:
        return index.atom in self.builder.dim_values

    def eval_Slice(self, node: Any) -> Any:
        """``a:b:c`` within a subscript."""
        parts = [None if p is None else self.evaluate(p) for p in (node.lower, node.upper, node.step)]
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
        """A function defined here: its defaults are evaluated now, its free names when they are read."""
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

    def recorded(self, value: Any) -> Any:
        """A known NumPy array as a recorded one."""
        return FUNCTIONS[np.asarray](value) if isinstance(value, np.ndarray) else value

    def known_items(self, value: Any, node: Any) -> list[Any]:
        """The items of an iterable whose length is known."""
        if isinstance(value, (list, tuple, dict, set, str, range)) and not _has_rows(value):
            return list(value)
        if isinstance(value, Array):
            return list(value)
        if is_runtime_iterable(value):
            length = value.length()
            if isinstance(length, Array):
                raise self.builder.needs_known(length, "The number of values")
            return [value.element(i) for i in range(length)]
        rows = getattr(value, "rows", None)
        if rows is not None:
            return list(rows)
        try:
            return list(value)
        except TypeError:
            return self.fail(UnsupportedSyntax, node, f"{type(value).__name__} cannot be iterated.")


def _numeric(value: Any) -> bool:
    return isinstance(value, (Array, int, float, complex, np.generic, list, tuple))


def _has_rows(value: Any) -> bool:
    return getattr(value, "rows", None) is not None
