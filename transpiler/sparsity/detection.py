"""Detection: a program is followed for sizes, with the inputs that elements reach for their values.

What does not depend on the inputs is computed, as NumPy does. A branch on a value that is not known
is followed both ways, a loop that ends by such a value until nothing is added: the pattern holds
for all inputs of these sizes.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calque.transpiler.errors import Origin
from calque.transpiler.ir.core import (
    Apply,
    Atom,
    Block,
    Effect,
    For,
    Function,
    If,
    Statement,
    Var,
    While,
)
from calque.transpiler.sparsity import filter_rules, place_rules, product_rules  # noqa: F401  (fill a table)
from calque.transpiler.sparsity.lanes import LaneRun, NotInLanes
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none
from calque.transpiler.sparsity.rules import Coarse, Question, like, reached
from calque.transpiler.sparsity.unknown_sizes import (
    either_in_part,
    is_in_part,
    needs_parts,
    reached_in_part,
    size_is_known,
    sized,
)

_PYTHON = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_INTEGERS: dict[Any, Any] = {  # of Python, which have no bounds
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.negative: operator.neg,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
}
_DEPTH = 4  # of operations by which two masks are told to be one
_MOST_TURNS = 20_000  # of a while loop in an arm that no run may take: it may have no end


class ArmRefused(Exception):
    """NumPy or Python refuses an operation on these known values: no run does it here."""

    def __init__(self, error: Exception):
        super().__init__(str(error))
        self.error = error


@dataclass
class Detection:
    """One run over a program; ``inputs`` is how many inputs there are, ``coarse`` what it found."""

    inputs: int
    coarse: list[Coarse] = field(default_factory=list)
    values: dict[Var, Any] = field(default_factory=dict)
    certain: bool = True  # no arm is followed that may not be taken
    unsized: Origin | None = None  # the first operation whose result has no known size
    defined: dict[Var, int] = field(default_factory=dict)  # counts definitions: loops have several
    masks: dict[Any, int] = field(default_factory=dict)  # the numbers of masks
    made: dict[Var, Apply] = field(default_factory=dict)  # by elementwise operations

    def follow(self, function: Function, values: dict[Var, Any]) -> None:
        """Follow a program, given the values of its parameters: known, or what they reach."""
        self.values = values
        with np.errstate(all="ignore"):
            try:
                self.run(function.body)
            except ArmRefused as refused:
                raise refused.error from None

    def read(self, atom: Atom) -> Any:
        """The known value of an atom, or what it reaches."""
        return self.values[atom] if isinstance(atom, Var) else atom

    def define(self, var: Var, value: Any) -> None:
        """Give a variable its value; Python's numbers stay Python's."""
        if not isinstance(value, ReachedInputs) and var.type.weak and not var.type.ndim:
            if np.ndim(value) == 0:
                value = _PYTHON[var.type.dtype.kind](value)
        self.values[var] = value
        self.defined[var] = self.defined.get(var, 0) + 1

    def run(self, block: Block) -> list[Any]:
        """Follow a block's statements; its results."""
        for s in block.statements:
            for var, value in zip(_outs(s), self.results(s), strict=True):
                self.define(var, value)
        return [self.read(atom) for atom in block.results]

    def results(self, s: Statement) -> list[Any]:
        """The results of one statement."""
        match s:
            case Apply():
                return self._applied(s)
            case If():
                return self._branch(s)
            case For():
                return self._for(s)
            case While():
                return self._while(s)
            case Effect():
                return []
        raise AssertionError(f"no such statement before kernels: {type(s).__name__}")

    def _applied(self, s: Apply) -> list[Any]:
        operands = [self.read(a) for a in s.args]
        if not any(isinstance(a, ReachedInputs) for a in operands):
            try:
                found = _known(s, operands)
            except (IndexError, ArithmeticError, ValueError) as error:
                raise ArmRefused(error) from None
            return [*found] if isinstance(found, tuple) else [found]
        if s.primitive.kind == "size":
            if not size_is_known(s, operands[0]):
                return [none((), self.inputs)]
            return [s.primitive.function(*map(like, operands), **s.params)]
        shapes, unknown = sized(s, operands)
        question = Question(s, operands, shapes, self.inputs, self.coarse)
        try:
            if not needs_parts(question, unknown):
                return [*map(self.numbered_mask, [s] * len(shapes), reached(question))]
            self.note_sizes(s, operands, any(unknown))
            return [*map(self.numbered_mask, [s] * len(shapes), reached_in_part(question, unknown))]
        except IndexError as error:
            if not s.primitive.first_index:
                raise
            raise ArmRefused(error) from None

    def numbered_mask(self, s: Apply, found: ReachedInputs) -> ReachedInputs:
        """A mask with its number: the same for what the same operation gives of the same values."""
        if s.primitive.kind == "elementwise" and not s.params:
            self.made[s.out] = s
        if found.mask is not None or not found.ndim or s.outs[0].type.dtype.kind != "b":
            return found
        key = object() if s.params else (s.primitive, *map(self._key, s.args))
        return replace(found, mask=self.masks.setdefault(key, len(self.masks)))

    def _key(self, atom: Atom, depth: int = _DEPTH) -> Any:
        """A key that equal values have: how a value is made, or by which definition of its Var."""
        if not isinstance(atom, Var):
            return repr(atom)
        value, made = self.values[atom], self.made.get(atom)
        if not isinstance(value, ReachedInputs) and np.ndim(value) == 0:
            return repr(value)
        if made is None or not depth:
            return atom, self.defined.get(atom, 0)
        return (made.primitive, *(self._key(a, depth - 1) for a in made.args))

    def note_sizes(self, s: Apply, operands: Sequence[Any], has_unknown: bool) -> None:
        """Remember the first operation whose result has no known size."""
        if has_unknown and not any(map(is_in_part, operands)) and self.unsized is None:
            self.unsized = s.origin

    # branches

    def _branch(self, s: If) -> list[Any]:
        test = self.read(s.test)
        if not isinstance(test, ReachedInputs):
            return self.run(s.then if bool(test) else s.orelse)
        arms, raised = [], None
        certain, self.certain = self.certain, False
        for arm in (s.then, s.orelse):
            try:
                arms.append(self.run(arm))
            except ArmRefused as error:
                raised = error  # no run takes this arm here
        self.certain = certain
        if not arms:
            assert raised is not None
            raise raised
        pairs = zip(s.outs, arms[0], arms[-1], strict=True)
        return [self.either(a, b, var, s.origin) for var, a, b in pairs]

    def either(self, a: Any, b: Any, var: Var, origin: Origin | None) -> Any:
        """One of two values: known where both are, and equal."""
        known = not isinstance(a, ReachedInputs) and not isinstance(b, ReachedInputs)
        if a is b or (
            known and np.shape(a) == np.shape(b) and np.array_equal(a, b, equal_nan=True)
        ):
            return a
        one, other = (
            v if isinstance(v, ReachedInputs) else none(np.shape(v), self.inputs) for v in (a, b)
        )
        if one.shape != other.shape and self.unsized is None:
            self.unsized = origin
        return either_in_part(one, other)

    # loops

    def _for(self, s: For) -> list[Any]:
        bounds = [self.read(b) for b in (s.start, s.stop, s.step)]
        carried = [self.read(i) for i in s.inits]
        if any(isinstance(b, ReachedInputs) for b in bounds):
            return self._until_stable(s, carried, [s.index])
        start, stop, step = map(int, bounds)
        try:
            return LaneRun(self.values, self.inputs, self.coarse).loop(s, start, stop, step)
        except (NotInLanes, IndexError, ArithmeticError, ValueError):
            pass
        for index in range(start, stop, step):
            self.define(s.index, index)
            self._define_all(s.phis, carried)
            carried = self.run(s.body)
        return carried

    def _while(self, s: While) -> list[Any]:
        carried = [self.read(i) for i in s.inits]
        for turn in itertools.count():
            self._define_all(s.phis, carried)
            test = self.run(s.test)[0]
            endless = turn == _MOST_TURNS and not self.certain
            if endless or isinstance(test, ReachedInputs):
                return self._until_stable(s, carried, [])
            if not bool(test):
                return carried
            carried = self.run(s.body)
        raise AssertionError("loops end")

    def _until_stable(self, s: For | While, carried: list[Any], unknown: list[Var]) -> list[Any]:
        """The values that a loop carries after any number of iterations, as complete unions."""
        for var in unknown:
            self.values[var] = none((), self.inputs)
        while True:
            self._define_all(s.phis, carried)
            if isinstance(s, While):
                self.run(s.test)
            after = self.run(s.body)
            joined = [
                self.either(a, b, var, s.origin)
                for var, a, b in zip(s.phis, carried, after, strict=True)
            ]
            if all(_is_same(a, b) for a, b in zip(carried, joined, strict=True)):
                return joined
            carried = joined

    def _define_all(self, vars: Sequence[Var], values: Sequence[Any]) -> None:
        for var, value in zip(vars, values, strict=True):
            self.define(var, value)


def _known(s: Apply, operands: Sequence[Any]) -> Any:
    """The result of an operation on known values."""
    function = s.primitive.function
    if function in _INTEGERS and not s.params and all(type(a) in (int, bool) for a in operands):
        return _INTEGERS[function](*operands)
    if function is np.power and [*map(type, operands)] == [int, int] and operands[1] >= 0:
        return operands[0] ** operands[1]
    return function(*operands, **s.params)


def _outs(s: Statement) -> tuple[Var, ...]:
    return () if isinstance(s, Effect) else s.outs


def _is_same(a: Any, b: Any) -> bool:
    """True if two values are equal, or reach the same inputs."""
    if isinstance(a, ReachedInputs) != isinstance(b, ReachedInputs):
        return False
    if not isinstance(a, ReachedInputs):
        return a is b or np.array_equal(a, b, equal_nan=True)
    if a is b:
        return True
    if (a.shape, a.open, a.chosen) != (b.shape, b.open, b.chosen):
        return False
    return np.array_equal(np.concatenate(a.sparse()), np.concatenate(b.sparse()))
