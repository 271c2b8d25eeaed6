"""Writes expressions as syntax trees, with folded values written out at their uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.text.bundles import in_tuples
from calque.transpiler.codegen.text.folding import Folding
from calque.transpiler.codegen.text.names import Names
from calque.transpiler.codegen.text.signature import whole_tuples
from calque.transpiler.codegen.text.signs import of_textbook, without_minus
from calque.transpiler.codegen.text.spelling import (
    attribute,
    call,
    constant,
    fill,
    fill_expression,
    literal,
    name,
    plain,
    target,
    template,
)
from calque.transpiler.ir.builder import type_of
from calque.transpiler.ir.core import UNDEFINED, Apply, Atom, If, Statement, Var
from calque.transpiler.ir.target import NUMPY, Target
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives import creation
from calque.transpiler.primitives.elementwise import (
    divide,
    multiply,
    negative,
    where,
)
from calque.transpiler.primitives.function_calls import is_call
from calque.transpiler.primitives.indexing import getitem, update, update_add
from calque.transpiler.primitives.products import matmul

IN_PLACE = {
    "add": gast.Add,
    "subtract": gast.Sub,
    "multiply": gast.Mult,
    "divide": gast.Div,
}
_PYTHON_TYPES = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "complex"}


class ExpressionWriter:
    """Builds the trees of atoms and of statements without blocks.

    While ``inside`` a kernel, literals and operations are spelled as its target requires, each leaf
    of a structured argument has a name, and ``as_added``, if set, replaces operands.
    """

    inside = False
    as_added: Callable[[Apply, list[Any]], list[Any]] | None = None

    def __init__(
        self,
        program: PrintedProgram,
        folding: Folding,
        names: Names,
        paths: dict[Var, Any],
        kernels: Target = NUMPY,
    ):
        self.program, self.folding, self.names, self.paths = program, folding, names, paths
        self.kernels = kernels
        for var, (path, _) in paths.items():
            path.argument = var
        self._aliases: dict[Var, str] = {}  # names in kernels for leaves of arguments
        self.narrow = program.once(_has_narrow_types)

    def atom(self, atom: Atom, others: Sequence[Atom] = ()) -> Any:
        """The tree of an atom among the other operands of its operation."""
        if not isinstance(atom, Var):
            if isinstance(atom, np.bool_) and not self.inside and not others:
                return attribute(name("np"), f"{atom}_")  # True + True is 2
            narrow = self.narrow and not self.inside
            return constant(None) if atom is UNDEFINED else literal(atom, others, narrow)
        if atom in self.paths:
            return name(self.name_inside(atom)) if self.inside else self.paths[atom][0]
        if atom in self.folding.folded:
            return self.value(self.program.definition[atom])
        return name(self.names(atom), atom)

    def name_inside(self, var: Var) -> str:
        """A value's name in kernels, in which leaves of structured arguments have names, too."""
        if var not in self.paths:
            return self.names(var)
        if var not in self._aliases:
            alias = self.paths[var][1]
            taken = {*self.names.reserved, *self.names.given.values(), *self._aliases.values()}
            while alias in taken or not alias.isidentifier():
                alias += "_leaf"
            self._aliases[var] = alias
        return self._aliases[var]

    def value(self, s: Statement) -> Any:
        """The tree of what a statement computes."""
        if isinstance(s, If):
            return self._choice(s)
        assert isinstance(s, Apply)
        made = self._apply(s)
        if s.primitive is getitem and s.out.type.weak:  # a Python number, read back from an array
            return call(name(_PYTHON_TYPES[s.out.type.dtype.kind]), made)
        return made

    def _apply(self, s: Apply) -> Any:
        """The tree of an operation, in a kernel as its target spells it."""
        if not self.inside:
            return self._plain(s)
        if (text := self.kernels.call(s)) is not None:
            return fill_expression(text, self.operands(s.args))
        if (text := self.kernels.operation(s)) is None:
            return self._plain(s)
        trees = self._numbers(s, text)
        made = self.signed(s, plainer(fill_expression(self._with_module(s, text), trees), s))
        return self._cast(self.kernels.result_cast(s), made)

    def _numbers(self, s: Apply, text: str) -> list[Any]:
        """The trees of operands, with casts so that a kernel promotes as NumPy does."""
        casts = self.kernels.operand_casts(s, text)
        trees = [self._number(a, dtype, s) for a, dtype in zip(s.args, casts, strict=True)]
        return trees if self.as_added is None else self.as_added(s, trees)

    def _number(self, value: Atom, dtype: np.dtype | None, s: Apply) -> Any:
        """The tree of a scalar in a kernel, cast to ``dtype`` if that is given."""
        if isinstance(value, (Var, bool, np.bool_)):
            return self._cast(dtype, self.atom(value))
        value, dtype = self.kernels.literal(value, dtype, s)
        return self._cast(dtype, plain(value))

    def _cast(self, dtype: np.dtype | None, tree: Any) -> Any:
        return tree if dtype is None else fill_expression(self.kernels.cast(dtype), [tree])

    def _plain(self, s: Apply) -> Any:
        kind = s.primitive.kind
        other = None if self.inside else self.kernels.outside(s)
        text = other or template(s.primitive, s.args, s.params)
        own = None if other else s.primitive.imported
        if own is not None:
            text = self.program.called[own] + text
        if s.primitive in self.program.hosts:
            host, *callees = self.program.hosts[s.primitive]
            text = re.sub(r"<(\d+)>", lambda m: callees[int(m[1])], text)
            text = host + text[text.index("(") :]
        text = self._with_module(s, text)
        if own or kind in ("bilinear", "multilinear"):  # these see Python numbers as they are
            trees = [self.atom(a) for a in s.args]
        elif s.primitive is where:
            trees = [self.atom(s.args[0]), *self.operands(s.args[1:])]
        else:
            trees = self.operands(s.args)
        tree = fill_expression(text, trees)
        if is_call(s):
            tree.args = in_tuples(s.args, tree.args, self._tuples)
        return tree if other else self.signed(s, plainer(tree, s))

    @cached_property
    def _tuples(self) -> list[tuple[tuple[Var, ...], Any]]:
        """The tuples in arguments whose leaves are all written by their paths."""
        found = whole_tuples(self.program.function)
        return [(leaves, path) for leaves, path in found if self.paths.keys() >= {*leaves}]

    def _with_module(self, s: Apply, text: str) -> str:
        """A text with the name by which the program has the module of a function of SciPy."""
        module = s.primitive.name.partition(".")[0]
        called = self.program.called.get(("scipy", module), module)
        return text if called == module else re.sub(rf"(?<![\w.]){module}\.", f"{called}.", text)

    def signed(self, s: Apply, tree: Any) -> Any:
        """The tree with ``a - b`` for ``a + -b``, and ``a + b`` for ``a - -b``."""
        return of_textbook(tree, s, self.has_minus)

    def has_minus(self, atom: Atom) -> bool:
        """True if a value's text begins with a minus that may as well apply to all of it.

        False for unsigned integers: of 8 bits, ``-b * 2.0`` is not ``-(b * 2.0)``.
        """
        while self._folded_apply(atom):
            made = self.program.definition[atom]
            assert isinstance(made, Apply)
            if made.primitive not in (multiply, divide, matmul):
                return made.primitive is negative and made.out.type.dtype.kind in "fc"
            first, second = made.args
            if made.primitive is multiply and made.phase == "reverse":  # numbers come first
                if not isinstance(second, Var) and not self._folded_apply(first):
                    first, second = second, first
                if not isinstance(first, Var):
                    return _is_below_zero(first) != self.has_minus(second)
            atom = first
        return _is_below_zero(atom)

    def operands(self, args: Sequence[Atom]) -> list[Any]:
        """The trees of operands; a plain literal is weak in the promotion of the others."""
        rest = [a for a in args if not isinstance(a, (str, bytes)) and a is not UNDEFINED]
        trees = []
        for a in args:
            others = [o for o in rest if o is not a and o is not None]
            trees.append(self.atom(a, others))
            if isinstance(a, np.generic) and not isinstance(trees[-1], gast.Call):
                rest = [o.item() if o is a else o for o in rest]
        return trees

    def _choice(self, s: If) -> Any:
        then, orelse = s.then.results[0], s.orelse.results[0]
        test = self.atom(s.test)
        types = [s.outs[0].type, s.test.type] if isinstance(s.test, Var) else [s.outs[0].type]
        boolean = all(t.dtype == np.dtype(bool) and not t.ndim for t in types)
        if boolean and _is_truth(orelse, False):
            return gast.BoolOp(gast.And(), [test, self.atom(then)])
        if boolean and _is_truth(then, True):
            return gast.BoolOp(gast.Or(), [test, self.atom(orelse)])
        return gast.IfExp(test, self.atom(then), self.atom(orelse))

    # stores

    def store(self, s: Apply) -> gast.stmt:
        """The statement of a store: ``x[i] = v``, or in place ``x[i] += v``."""
        changed = self.changed(s)
        if changed is not None:
            element, operator, value = changed
            place = target(self._apply(element) if element else self.atom(s.args[0]))
            return self.shortest(gast.AugAssign(place, operator(), self._added(s, value)), value)
        value = self._plain_number(s.args[1])
        stored = self._added if s.primitive is update_add else self._stored
        trees = [self.atom(s.args[0]), stored(s, value)]
        trees += self.operands(s.args[2:])
        made = fill(template(s.primitive, s.args, s.params), trees)
        text = self.kernels.wrapped(s) if self.inside else None
        if text is not None and isinstance(made, gast.AugAssign):
            before = gast.Subscript(made.target.value, made.target.slice, gast.Load())
            return gast.Assign([made.target], fill_expression(text, [before, made.value]), None)
        return self.shortest(made, value)

    def _stored(self, s: Apply, value: Atom) -> Any:
        return self.atom(value, [s.args[0]] if isinstance(s.args[0], Var) else [])

    def _added(self, s: Apply, value: Atom) -> Any:
        """The operand of an in-place operation; in a kernel it has the array's precision.

        A wider operand would widen the whole operation there.
        """
        own, given = s.out.type.dtype, type_of(value)
        narrow = self.inside and own.kind in "fc" and not given.ndim and given.dtype != own
        if not narrow or not (isinstance(value, Var) or own.type(value).item() != value):
            return self._stored(s, value)
        return self._number(value, own, s)

    def shortest(self, made: Any, value: Atom) -> Any:
        """The statement with ``x -= v`` for ``x += -v``."""
        if isinstance(made, gast.AugAssign) and isinstance(made.op, gast.Add):
            positive = without_minus(made.value) if self.has_minus(value) else None
            if positive is not None:
                made.op, made.value = gast.Sub(), positive
        return made

    def _plain_number(self, value: Atom) -> Atom:
        """The number to store for a folded constant array: the store casts it."""
        if not self._folded_apply(value):
            return value
        made = self.program.definition[value]
        assert isinstance(made, Apply)
        single = made.primitive is creation.constant and not made.out.type.ndim
        return made.params["value"] if single else value

    def changed(self, s: Apply) -> tuple[Apply | None, Any, Atom] | None:
        """``update(x, op(x[i], v), i)`` as the read (None if of all), the operator and ``v``."""
        if s.primitive is not update or not self._folded_apply(s.args[1]):
            return None
        made = self.program.definition[s.args[1]]
        assert isinstance(made, Apply)
        operator = IN_PLACE.get(made.primitive.arithmetic)
        if operator is None or (self.inside and self.kernels.wrapped(made) is not None):
            return None
        whole = made.args[0] is s.args[0] and s.params["index"] == (Ellipsis,)
        if whole and made.out.type == s.out.type:
            return None, operator, made.args[1]
        if not self._folded_apply(made.args[0]):
            return None
        element = self.program.definition[made.args[0]]
        assert isinstance(element, Apply)
        same = (
            element.primitive is getitem
            and element.args == (s.args[0], *s.args[2:])
            and element.params["index"] == s.params["index"]
            and element.out.type.dims == made.out.type.dims
            and element.out.type.dtype == made.out.type.dtype
        )
        return (element, operator, made.args[1]) if same else None

    def _folded_apply(self, atom: Atom) -> bool:
        return (
            isinstance(atom, Var)
            and atom in self.folding.folded
            and isinstance(self.program.definition[atom], Apply)
        )


def _has_narrow_types(program: PrintedProgram) -> bool:
    """True if some value has a dtype of less than 64 bits."""
    return any(v.type.dtype.char not in "?ldD" for v in program.vars if not v.type.weak)


def _is_below_zero(atom: Atom) -> bool:
    return type(atom) in (float, np.float64) and bool(np.signbit(atom))


def _is_truth(atom: Atom, value: bool) -> bool:
    return isinstance(atom, (bool, np.bool_)) and bool(atom) == value


def plainer(tree: Any, s: Apply) -> Any:
    """The tree with ``n - 1`` for ``n + -1``, and ``a and b and c`` for ``(a and b) and c``.

    NumPy raises for -1 beside unsigned integers, but not for 1.
    """
    first = tree.values[0] if isinstance(tree, gast.BoolOp) else None
    if isinstance(first, gast.BoolOp) and type(first.op) is type(tree.op):
        return gast.BoolOp(tree.op, [*first.values, *tree.values[1:]])
    signs = s.out.type.dtype.kind != "u"
    if signs and isinstance(tree, gast.BinOp) and isinstance(tree.op, gast.Add):
        number = without_minus(tree.right)
        if isinstance(number, gast.Constant) and type(number.value) is int:
            return gast.BinOp(tree.left, gast.Sub(), number)
    return tree
