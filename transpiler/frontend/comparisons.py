"""Comparisons, truth, ``and``, ``or``, ``not`` and conditional expressions."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import gast
import numpy as np

from calque.transpiler.errors import AliasUndecided, NeedsKnownValue
from calque.transpiler.frontend.formatting import Texts
from calque.transpiler.frontend.guarding import guard_native
from calque.transpiler.frontend.library import polyfills
from calque.transpiler.frontend.library.polyfills import Deque, contained
from calque.transpiler.frontend.methods import by_method, method_of
from calque.transpiler.frontend.mixed_operations import operated, operation
from calque.transpiler.frontend.values.containers.list_kinds import rows_of
from calque.transpiler.frontend.values.iterables import Generator, Iterable
from calque.transpiler.frontend.values.key_presence import check_dict, check_key
from calque.transpiler.frontend.values.kinds import Unread
from calque.transpiler.frontend.values.list_arrays import gathered
from calque.transpiler.frontend.values.mixed_numbers import MixedNumber
from calque.transpiler.frontend.values.optional import Maybe
from calque.transpiler.frontend.values.stepwise import NO_SENTINEL, CallSteps, Over, Steps
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir.builder import FUNCTIONS, OPERATORS, Array, known, type_of, wrap
from calque.transpiler.ir.core import Apply, If, Statement
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.elementwise import add, negative, subtract
from calque.transpiler.primitives.logic import and_, bitwise_and, not_, or_

COMPARE: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    gast.Lt: ("lt", operator.lt),
    gast.LtE: ("le", operator.le),
    gast.Gt: ("gt", operator.gt),
    gast.GtE: ("ge", operator.ge),
    gast.Eq: ("eq", operator.eq),
    gast.NotEq: ("ne", operator.ne),
}

_NUMBERS = (Array, int, float, complex, np.generic)
_STRICT: dict[type, type] = {gast.LtE: gast.Lt, gast.GtE: gast.Gt}


class Comparisons(Texts):
    """Expressions that give or need a truth value."""

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

        if isinstance(node.ops[0], (gast.Is, gast.IsNot)):
            left = self.unread_value(node.left)
            if isinstance(left, TaggedValue):
                left = self.of_one_kind(left, getattr(node.left, "id", ""), node)
            return rest(left, 0)
        return rest(self.evaluate(node.left), 0)

    def unread_value(self, node: Any) -> Any:
        """The value of an expression that may be None on some paths."""
        with self.handing_on(node):
            return self.evaluate(node)

    @contextmanager
    def handing_on(self, node: Any) -> Iterator[None]:
        """Inside, the value of ``node`` may be None: also in a tuple's items, and in both arms."""
        before, pending = self.unread, [node]
        self.unread = set(before)
        while pending:
            node = pending.pop()
            self.unread.add(id(node))
            if isinstance(node, gast.Tuple):
                pending += node.elts
            elif isinstance(node, gast.IfExp):
                pending += [node.body, node.orelse]
        try:
            yield
        finally:
            self.unread = before

    def is_truth(self, value: Array, constant: bool, node: Any) -> Any:
        """``value is True``: true for Python's own bool only, never for NumPy's."""
        if value.ndim or value.dtype.kind != "b" or not value.type.weak:
            return False
        return value if constant else self.logical_not(value, node)

    def compare(self, op: Any, left: Any, right: Any, node: Any) -> Any:
        """One comparison."""
        if isinstance(op, (gast.Is, gast.IsNot)):
            self._require_apart(left, right, node)
            same: Any = left is right
            for value, other in ((left, right), (right, left)):
                if isinstance(value, Unread) and other is not None:
                    raise value.refused()
            if isinstance(left, Maybe) and right is None:
                there = left.there
                return there if isinstance(op, gast.IsNot) else self.logical_not(there, node)
            for value, constant in ((left, right), (right, left)):
                if isinstance(value, Array) and isinstance(constant, bool):
                    same = self.is_truth(value, constant, node)
            if isinstance(same, Array):
                return same if isinstance(op, gast.Is) else self.logical_not(same, node)
            return same if isinstance(op, gast.Is) else not same
        left, right = self.settled(left, node), self.settled(right, node)
        if isinstance(op, (gast.Eq, gast.NotEq)):
            self.check_lists(left, right, node)
        if isinstance(op, (gast.In, gast.NotIn)):
            return self._contains(left, right, isinstance(op, gast.NotIn), node)
        check_dict(left, node)
        check_dict(right, node)
        name, function = COMPARE[type(op)]
        own = by_method(self, name, left, right, node)
        if own is NotImplemented and name == "ne" and method_of(left, "eq") is not None:
            return self.logical_not(self.compare(gast.Eq(), left, right, node), node)
        if own is not NotImplemented:
            return own
        if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
            left, right = self.recorded(left), self.recorded(right)
        if any(isinstance(v, Array) and v.ndim for v in (left, right)):
            left, right = gathered(left), gathered(right)
        if self.is_mixed(left, right):
            again = lambda left, right: self.compare(op, left, right, node)
            return operated(self, operation(name), [left, right], again)
        if isinstance(left, Array) or isinstance(right, Array):
            if not numeric(left) or not numeric(right):
                return isinstance(op, gast.NotEq)
            decided = self._known_comparison(function, left, right)
            return OPERATORS[name](left, right) if decided is None else decided
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            if name in ("eq", "ne"):
                return self._compare_sequences(left, right, name == "eq", node)
            if isinstance(left, list) == isinstance(right, list):
                return self._compare_order(op, left, right, node)
        if function in (operator.eq, operator.ne):
            self._require_apart(left, right, node)
        guard_native(self, (left, right), node)
        return function(left, right)

    def _require_apart(self, left: Any, right: Any, node: Any) -> None:
        """Refuse to ask for the identity of objects of which a run-time value chose one."""
        if left is not right and id(left) in self.undecided and id(right) in self.undecided:
            self.fail(
                AliasUndecided,
                node,
                "Run-time data decides whether these are one object.",
                "compare numbers or texts that the objects hold",
            )

    def is_mixed(self, left: Any, right: Any) -> bool:
        """True if one of two numbers, or arrays, is a number whose class differs between paths."""
        mixed = isinstance(left, MixedNumber) or isinstance(right, MixedNumber)
        return mixed and all(isinstance(v, _NUMBERS) for v in (left, right))

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
        result: Any
        if any(rows_of(v) is not None for v in (left, right)):
            if not isinstance(left, list) or not isinstance(right, list):
                return not equal
            same = self.call_value(polyfills.same_lists, [left, right], {}, node)
            result = self.truth(same, node)
            return result if equal else self.logical_not(result, node)
        if len(left) != len(right) or isinstance(left, list) != isinstance(right, list):
            return not equal
        result = True
        for a, b in zip(left, right, strict=True):
            if known(a) and known(b):
                if a != b:
                    return not equal
            elif not self._same_dim(a, b):
                now = self.compare(gast.Eq(), a, b, node)
                result = now if result is True else apply(bitwise_and, result, now)
        return result if equal else self.logical_not(result, node)

    def _compare_order(self, op: Any, left: Any, right: Any, node: Any) -> Any:
        """``<`` and the like of two tuples, or two lists: the first pair that differs decides."""
        if any(rows_of(v) is not None for v in (left, right)):
            by = COMPARE[type(op)][1]
            return self.truth(
                self.call_value(polyfills.ordered_lists, [by, left, right], {}, node), node
            )

        def rest(position: int) -> Any:
            if position == min(len(left), len(right)):
                return COMPARE[type(op)][1](len(left), len(right))
            a, b = left[position], right[position]
            if known(a) and known(b):
                return rest(position + 1) if a == b else COMPARE[type(op)][1](a, b)
            if position + 1 == len(left) == len(right):
                return self.truth(self.compare(op, a, b, node), node)
            now = self.compare(_STRICT.get(type(op), type(op))(), a, b, node)

            def equal() -> Any:
                same = self.compare(gast.Eq(), a, b, node)
                return self.short_circuit(same, lambda: rest(position + 1), node, is_and=True)

            return self.short_circuit(now, equal, node, is_and=False)

        return rest(0)

    def _refuse_whole(self, node: Any) -> NoReturn:
        raise NeedsKnownValue("A list that grows in a loop is used as a whole.", self.origin(node))

    def _same_dim(self, a: Any, b: Any) -> bool:
        integers = all(type_of(v).dtype.kind in "iu" and not type_of(v).ndim for v in (a, b))
        return integers and self.builder.dim_of(a) == self.builder.dim_of(b)

    def iterated(self, value: Any, node: Any) -> Any:
        """The iterator that a user's ``__iter__`` returns; any other value as it is."""
        if isinstance(value, Deque) and rows_of(value.items) is None:
            return Over(value.items, fixed=True)
        if isinstance(value, io.IOBase) and id(value) in self.owned:
            return self.call_value(value.readlines, [], {}, node)
        method = method_of(value, "iter")
        if method is None:
            return value
        found = self.call_value(method, [value], {}, node)
        following = method_of(found, "next")
        return found if following is None else CallSteps(following, [found], NO_SENTINEL, node)

    def _contains(self, item: Any, container: Any, negate: bool, node: Any) -> Any:
        found: Any = False
        own = method_of(container, "contains")
        if own is not None:
            found = self.truth(self.call_value(own, [container, item], {}, node), node)
            return self.logical_not(found, node) if negate else found
        container = self.iterated(container, node)
        if isinstance(container, (Generator, Iterable, Steps)):
            found = self.call_value(contained, [container, item], {}, node)
            return self.logical_not(found, node) if negate else found
        rows = rows_of(container)
        if rows is not None:
            container = rows.stacked()
            if not isinstance(container, Array) or container.ndim != 1:
                self._refuse_whole(node)
        items = container if isinstance(container, (list, tuple)) else ()
        keys = container if isinstance(container, (dict, set, frozenset)) else ()
        if isinstance(container, Array) or not known((item, *items, *keys)):
            if isinstance(container, Array):
                found = np.any(container == item)
            else:
                for other in container:
                    now = self.compare(gast.Eq(), item, other, node)
                    found = (
                        now
                        if found is False
                        else self.short_circuit(found, always(now), node, False)
                    )
            found = FUNCTIONS[bool](found)
            return self.logical_not(found, node) if negate else found
        if isinstance(container, dict):
            check_key(self, container, item, node)
        return (item not in container) if negate else (item in container)

    def eval_BoolOp(self, node: Any) -> Any:
        """``a and b``, ``a or b``: the right side is evaluated only where Python would."""
        return self._operands(node, self.evaluate)

    def condition(self, node: Any) -> Any:
        """The truth value of an expression whose value is not used otherwise.

        The operands of ``a and b`` may be a list on one path and a number on another.
        """
        if isinstance(node, gast.BoolOp):
            return self.truth(self._operands(node, self.condition), node)
        return self.truth(self.evaluate(node), node)

    def _operands(self, node: Any, evaluate: Callable[[Any], Any]) -> Any:
        is_and = isinstance(node.op, gast.And)

        def rest(position: int) -> Any:
            value = evaluate(node.values[position])
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
            found = self.choose(test, rest, lambda: False if is_bool else value, node)
        else:
            found = self.choose(test, lambda: True if is_bool else value, rest, node)
        return self._one_test(found, is_and)

    def _one_test(self, found: Any, is_and: bool) -> Any:
        """Two tests as one value: a cheap second one that cannot raise is always computed."""
        statements = self.builder.blocks[-1].statements
        made = statements[-1] if statements else None
        if not (isinstance(made, If) and isinstance(found, Array) and made.outs == (found.atom,)):
            return found
        arm, other = (made.then, made.orelse) if is_and else (made.orelse, made.then)
        if other.statements or type(other.results[0]) not in (bool, np.bool_):
            return found
        if not arm.statements and arm.results[0] is is_and:
            statements.pop()
            return wrap(made.test)
        if not all(map(_is_harmless, arm.statements)):
            return found
        statements.pop()
        for s in arm.statements:
            self.builder.emit(s)
        return apply(and_ if is_and else or_, wrap(made.test), wrap(arm.results[0]))

    def eval_IfExp(self, node: Any) -> Any:
        """``a if test else b``."""
        test = self.condition(node.test)
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
            for name in ("bool", "len"):
                own = method_of(value, name)
                if own is not None:
                    return self.truth(self.call_value(own, [value], {}, node), node)
            check_dict(value, node)
            rows = rows_of(value)
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

    def recorded(self, value: Any) -> Any:
        """A known NumPy array as a recorded one."""
        return FUNCTIONS[np.asarray](value) if isinstance(value, np.ndarray) else value


def always(value: Any) -> Callable[[], Any]:
    """A function that gives one value."""
    return lambda: value


def _is_harmless(s: Statement) -> bool:
    """True if a statement compares or adds numbers or reads a size: cheap, and never raises."""
    if not isinstance(s, Apply) or s.outs[0].type.ndim:
        return False
    if s.primitive.kind == "size":
        return True
    counts = s.primitive in (add, subtract, negative) and s.outs[0].type.weak
    kind = s.outs[0].type.dtype.kind
    return s.primitive.kind == "elementwise" and (kind == "b" or (counts and kind == "i"))


def numeric(value: Any) -> bool:
    """True if NumPy can compare or compute with a value: an array, a number, a list or a tuple."""
    return isinstance(value, (Array, int, float, complex, np.generic, list, tuple))
