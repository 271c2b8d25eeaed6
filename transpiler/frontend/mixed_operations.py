"""Operations on numbers whose class differs between paths (see values.mixed_numbers).

An operation that NumPy does in one dtype, whatever the class, is recorded once, in that dtype. One
that it does in several is a branch on the class, each arm with numbers of one class.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from calque.transpiler.frontend.machine import Machine
from calque.transpiler.frontend.values.containers.container_kinds import all_within, renewed
from calque.transpiler.frontend.values.mixed_numbers import (
    Alternative,
    MixedNumber,
    alternatives_of,
    converted,
    united,
)
from calque.transpiler.ir.builder import METHODS, Array, type_of
from calque.transpiler.ir.types import ArrayType

# What NumPy has for Python's operators.
UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "neg": np.negative,
    "pos": np.positive,
    "abs": np.absolute,
    "invert": np.invert,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_EXACT = ("neg", "pos", "abs")  # the same in every floating dtype
_BITWISE = ("and", "or", "xor")
_PYTHON: dict[str, Any] = {"b": np.dtype(bool), "i": int, "f": float, "c": complex}
_CONVERSIONS = (bool, int, float, complex)
_NUMBERS = (Array, int, float, complex, np.generic)
_MOST_CASES = 16
Again = Callable[..., Any]


@dataclass(frozen=True)
class Operation:
    """An operation on numbers: its ufunc, and how Python computes it; none for NumPy's own."""

    name: str
    ufunc: np.ufunc
    python: Callable[..., Any] | None = None

    def loops(self, types: Sequence[ArrayType]) -> tuple[Any, ...]:
        """The dtypes that operands of these types are brought to, and the result's type."""
        if all(t.weak for t in types):
            if self.python is not None:
                return self._pythons(types)
            types = [ArrayType(types[0].dtype, types[0].dims), *types[1:]]
        given = [_PYTHON[t.dtype.kind] if t.weak else t.dtype for t in types]
        try:
            found = self.ufunc.resolve_dtypes((*given, *[None] * self.ufunc.nout))
        except TypeError as error:
            return "refused", str(error)
        return *found[: len(types)], ArrayType(found[-1])

    def _pythons(self, types: Sequence[ArrayType]) -> tuple[Any, ...]:
        kinds = [t.dtype.kind for t in types]
        if self.name == "pow" and set(kinds) <= set("bi"):
            return "a power of Python's integers", *types  # an integer, or a float
        ones = [{"b": True, "i": 1, "f": 1.0, "c": 1j}[k] for k in kinds]
        assert self.python is not None
        try:
            made = self.python(*ones)
        except TypeError as error:
            return "refused", str(error)
        result = type_of(made)
        common = result.dtype
        if self.name in _COMPARISONS:
            common = np.result_type(*(t.dtype for t in types), np.int64)
        elif self.name not in _BITWISE or result.dtype.kind != "b":
            common = np.result_type(result.dtype, np.int64)
        return *[common] * len(types), result


def operation(name: str) -> Operation:
    """The operation of one of Python's operators."""
    attribute = f"{name}_" if name in ("and", "or") else name
    return Operation(name, UFUNCS[name], getattr(operator, attribute))


@dataclass(frozen=True)
class _Case:
    """One choice of a class for each number among the operands."""

    operands: tuple[Any, ...]  # alternatives of numbers; types of arrays
    loops: tuple[Any, ...]

    @property
    def known(self) -> list[Any] | None:
        """The values of the operands, if all are known here."""
        values = [o.known if isinstance(o, Alternative) else None for o in self.operands]
        return None if any(v is None for v in values) else values


def told(machine: Machine, value: Any) -> Any:
    """A number of the one class that the tests around imply; else the value unchanged."""
    if not isinstance(value, MixedNumber) or not isinstance(value.which, Array):
        return value
    if len(value.alternatives) != 2:
        return value
    known = machine.flags.follows(value.which.atom, machine.facts, machine.builder.definitions)
    return value if known is None else value.alternative(0 if known else 1)


def operated(machine: Machine, op: Operation, args: Sequence[Any], again: Again) -> Any:
    """An operation on numbers of which some are of several classes; ``again`` is the operation."""
    args = [told(machine, a) for a in args]
    if not any(isinstance(a, MixedNumber) for a in args):
        return again(*args)
    found = list(itertools.islice(_cases(op, args), _MOST_CASES + 1))
    recorded = _Once(op, args, found).recorded(again) if len(found) <= _MOST_CASES else None
    return branched(machine, args, again) if recorded is None else recorded[0]


def _cases(op: Operation, args: Sequence[Any]) -> Iterator[_Case]:
    numbers = {id(a): a.alternatives for a in args if isinstance(a, MixedNumber)}
    for chosen in itertools.product(*numbers.values()):
        now = dict(zip(numbers, chosen, strict=True))
        operands = []
        for a in args:
            own = alternatives_of(a)
            operands.append(now[id(a)] if id(a) in now else type_of(a) if own is None else own[0])
        types = [o.type if isinstance(o, Alternative) else o for o in operands]
        yield _Case(tuple(operands), op.loops(types))


class _Once:
    """An operation that may be recorded once for all classes of its operands."""

    def __init__(self, op: Operation, args: Sequence[Any], cases: list[_Case]):
        self.op, self.args, self.cases = op, list(args), cases

    def recorded(self, again: Again) -> tuple[Any] | None:
        """The result of one recorded operation; None if classes need different ones."""
        groups = {c.loops[:-1] for c in self.cases}
        if any(isinstance(g[0], str) for g in groups):
            return None
        if len(groups) == 1:
            return self._made(again, groups.pop(), [self._result(c) for c in self.cases])
        if self.op.name in _EXACT and all(d.kind == "f" for g in groups for d in g):
            return self._widest(again)
        if self.op.name in _COMPARISONS and self._compares_exactly():
            return self._widest(again)
        return self._with_known(again)

    def _result(self, case: _Case) -> Alternative:
        return Alternative(case.loops[-1], self._computed(case))

    def _computed(self, case: _Case) -> Any:
        """The value of a case whose operands are known; None if it has none."""
        values = case.known
        if values is None:
            return None
        try:
            with np.errstate(all="ignore"):
                return (self.op.python or self.op.ufunc)(*values)
        except (ArithmeticError, TypeError, ValueError):
            return None

    def _widest(self, again: Again) -> tuple[Any] | None:
        """The operation on the common values, without rounding; None if these are inexact."""
        if not all(a.is_exact() for a in self.args if isinstance(a, MixedNumber)):
            return None
        common = [a.common if isinstance(a, MixedNumber) else a for a in self.args]
        return self._wrapped(lambda: again(*common), [self._result(c) for c in self.cases])

    def _compares_exactly(self) -> bool:
        """True if all dtypes in which numbers are compared hold them exactly."""
        return all(_held(o, d) for c in self.cases for o, d in zip(c.operands, c.loops[:-1]))

    def _with_known(self, again: Again) -> tuple[Any] | None:
        """The operation, if known values give the same number in the dtypes of the others."""
        rest = [c for c in self.cases if self._computed(c) is None and not self._is_zero(c)]
        groups = {c.loops[:-1] for c in rest}
        if len(groups) != 1:
            return None
        dtypes = groups.pop()
        results = []
        for case in self.cases:
            result = self._result(case)
            if result.known is not None and case.loops[:-1] != dtypes:
                if not self._same_in(dtypes, case, result.known):
                    return None
            elif result.known is None and case not in rest:
                result = Alternative(result.type, None, any_float=True)
            results.append(result)
        return self._made(again, dtypes, results)

    def _is_zero(self, case: _Case) -> bool:
        """True if this multiplies a float by a known zero: zero, or NaN, in every dtype.

        A factor that float32 has as infinity only would make it NaN there; NumPy's own next
        product with it does.
        """
        if self.op.name != "mul" or any(isinstance(d, str) for d in case.loops):
            return False
        zero = [isinstance(o, Alternative) and _is_nought(o.known) for o in case.operands]
        return any(zero) and case.loops[-1].dtype.kind == "f"

    def _same_in(self, dtypes: tuple[Any, ...], case: _Case, value: Any) -> bool:
        """True if a known result is what the operation gives in other dtypes, exactly."""
        values = case.known
        assert values is not None
        try:
            with np.errstate(all="ignore"):
                made = self.op.ufunc(*(d.type(v) for v, d in zip(values, dtypes, strict=True)))
        except (ArithmeticError, TypeError, ValueError):
            return False
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, (bool, int)):
            return bool(made.item() == plain)
        return repr(complex(made)) == repr(complex(plain))

    def _made(
        self, again: Again, dtypes: tuple[Any, ...], results: list[Alternative]
    ) -> tuple[Any] | None:
        """The operation in these dtypes."""
        return self._wrapped(lambda: again(*self._brought(dtypes)), results)

    def _brought(self, dtypes: tuple[Any, ...]) -> list[Any]:
        """The operands, such that NumPy computes in these dtypes."""
        plain = [a.common if isinstance(a, MixedNumber) else a for a in self.args]
        as_they_are = self.op.loops([type_of(p) for p in plain])[:-1] == dtypes
        for k, a in enumerate(self.args):
            if not isinstance(a, MixedNumber):
                continue
            own = a.common.dtype
            kept = all(c.held_by(own) or own == dtypes[k] for c in a.alternatives)
            if not (as_they_are and kept):
                plain[k] = a.as_dtype(dtypes[k])
        return plain

    def _wrapped(
        self, record: Callable[[], Any], results: list[Alternative]
    ) -> tuple[Any] | None:
        """The recorded result with the classes that it may have; None if it cannot say which."""
        alternatives = united(results)
        which = None
        numbers = [a for a in self.args if isinstance(a, MixedNumber)]
        if len(alternatives) > 1 and numbers[0].which is not None:
            order = [alternatives.index(r) if r in alternatives else -1 for r in results]
            if any(a is not numbers[0] for a in numbers) or sorted(order) != [0, 1]:
                return None
            which = numbers[0].is_alternative(order[0])
        result = record()
        if not isinstance(result, Array) or result.ndim or result.is_buffer:
            return (result,)
        if len(alternatives) == 1 and result.type.dtype != alternatives[0].type.dtype:
            return (converted(result, alternatives[0].type),)
        if alternatives == (Alternative(result.type),):
            return (result,)
        return (MixedNumber(result._value, alternatives, which),)


def _held(operand: Any, dtype: np.dtype) -> bool:
    """True if a dtype holds an operand, an alternative or the type of an array, exactly."""
    if not isinstance(operand, Alternative):
        operand = Alternative(ArrayType(operand.dtype))
    return operand.held_by(dtype)


def _is_nought(value: Any) -> bool:
    return value is not None and not isinstance(value, (bool, np.bool_)) and value == 0


def branched(machine: Machine, args: Sequence[Any], again: Again) -> Any:
    """The operation in an arm for each class of the first number that has several."""
    k = next(i for i, a in enumerate(args) if isinstance(a, MixedNumber))
    number = args[k]
    number.require_classes()

    def with_class(place: int) -> Any:
        chosen = number.alternative(place)
        return again(*(chosen if a is number else a for a in args))

    def from_class(place: int) -> Any:
        if place == len(number.alternatives) - 1:
            return with_class(place)
        test = number.is_alternative(place)
        rest = partial(from_class, place + 1)
        return machine.choose(test, partial(with_class, place), rest, None)

    return from_class(0)


def called_library(
    machine: Machine, function: Any, args: Sequence[Any], kwargs: dict[str, Any], again: Again
) -> Any:
    """A call of NumPy's or Python's own function, which ``again`` makes."""
    if isinstance(function, np.ufunc) and function.nout == 1 and not kwargs:
        if len(args) == function.nin and all(isinstance(a, _NUMBERS) for a in args):
            return operated(machine, Operation(function.__name__, function), args, again)
    converts = function in _CONVERSIONS or getattr(function, "__module__", "") == "math"
    return called(machine, args, kwargs, again, converts)


def called(
    machine: Machine, args: Any, kwargs: dict[str, Any], again: Again, converts: bool = False
) -> Any:
    """A call with numbers of several classes among the arguments, or in lists and tuples of these.

    Those whose classes are of one dtype are NumPy's; for others the call is made in arms. One that
    ``converts`` numbers asks for their values alone.
    """
    given = all_within([*args, *kwargs.values()])
    for number in {id(v): v for v in given if isinstance(v, MixedNumber)}.values():
        plain = told(machine, number)
        if isinstance(plain, MixedNumber):
            of_one = len({a.type.dtype for a in plain.alternatives}) == 1
            if not of_one and not (converts and plain.is_exact()):
                with_class = partial(_with_class, machine, args, kwargs, again, converts, number)
                return branched(machine, [plain], with_class)
            plain = plain.common
        args, kwargs = _replaced(args, number, plain), _replaced(kwargs, number, plain)
    return again(*args, **kwargs)


def stored(machine: Machine, array: Array, index: Any, value: Any, again: Again) -> None:
    """A store of a number of several classes, or at such an index, which ``again`` makes."""
    value = told(machine, value)
    if isinstance(value, MixedNumber) and _is_converted(value, array.dtype):
        value = _brought_to(value, array.dtype)
    called(machine, [index, value], {}, again)


def added_to(machine: Machine, array: Array, name: str, value: Any) -> Any:
    """A number to which ``array[index] op= value`` brings one of several classes, if it is one."""
    value = told(machine, value)
    if not isinstance(value, MixedNumber):
        return value
    element = ArrayType(array.dtype)
    loops = {operation(name).loops([element, a.type])[:-1] for a in value.alternatives}
    if len(loops) != 1:
        return value
    dtype = loops.pop()[-1]
    return value if isinstance(dtype, str) else _brought_to(value, dtype)


def _is_converted(value: MixedNumber, dtype: np.dtype) -> bool:
    """True if a store into this dtype is the same conversion for each class."""
    kinds = {a.type.dtype.kind for a in value.alternatives}
    return dtype.kind == "c" or (dtype.kind == "f" and "c" not in kinds)


def _brought_to(value: MixedNumber, dtype: np.dtype) -> Array:
    own = value.common.dtype
    kept = all(a.held_by(own) or own == dtype for a in value.alternatives)
    return value.common if kept else value.as_dtype(dtype)


def attribute_of_mixed(machine: Machine, value: MixedNumber, name: str, node: Any) -> Any:
    """An attribute of a number of several classes: that of its class."""
    plain = told(machine, value)
    if not isinstance(plain, MixedNumber):
        return machine.attribute(plain, name, node)
    if name not in METHODS:
        return called(machine, [plain], {}, lambda v: machine.attribute(v, name, node))

    def method(*args: Any, **kwargs: Any) -> Any:
        def again(value: Any, *args: Any, **kwargs: Any) -> Any:
            own = machine.attribute(value, name, node)
            return machine.call_value(own, list(args), kwargs, node)

        return called(machine, [plain, *args], kwargs, again)

    return method


def _with_class(
    machine: Machine,
    args: Any,
    kwargs: dict[str, Any],
    again: Again,
    converts: bool,
    number: MixedNumber,
    plain: Any,
) -> Any:
    """The call where one of the numbers is of this class."""
    given, named = _replaced(args, number, plain), _replaced(kwargs, number, plain)
    return called(machine, given, named, again, converts)


def _replaced(value: Any, number: MixedNumber, plain: Any) -> Any:
    """A value with a number replaced, in containers too: new ones where it is in them."""
    if value is number or not isinstance(value, (dict, list, tuple)):
        return plain if value is number else value
    return renewed(value, lambda part: _replaced(part, number, plain))


def holds_mixed(values: Any) -> bool:
    """True if a number of several classes is among values, or in their lists and tuples.

    >>> holds_mixed([1.0, (2, 3)])
    False
    """
    return any(isinstance(v, MixedNumber) for v in all_within(values))
