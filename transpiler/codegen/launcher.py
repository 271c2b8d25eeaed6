"""Kernels of Core as Numba's functions, and the launcher that calls them.

The launcher is the NumPy source of ``codegen/numpy/emit.py``, in which each ``Kernel`` that
``codegen/outline.py`` made is a call::

    out = np.empty(x.size)
    selu_kernel(x.reshape(-1), alpha, scale, out)
"""

from __future__ import annotations

import builtins
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.kernel_forms import form
from calque.transpiler.codegen.kernel_interfaces import is_assigned, may_be_unset, type_given
from calque.transpiler.codegen.numba.donation import NEW, hand_on
from calque.transpiler.codegen.numba.scalar_text import (
    HALF_POWERS,
    KERNEL_FUNCTIONS,
    VECTOR_FUNCTIONS,
    cast_back,
    operand_casts,
    plain_type,
    spelled,
    wrapper,
)
from calque.transpiler.codegen.numba.unboxing import element_of, is_strong, may_be_array
from calque.transpiler.codegen.numba.whole_array_calls import (
    LAUNCHER_FUNCTIONS,
    may_raise,
    text_in_loops,
)
from calque.transpiler.codegen.text.expression_writer import ExpressionWriter, plainer
from calque.transpiler.codegen.text.layout import WIDTH, to_text
from calque.transpiler.codegen.text.spelling import (
    call,
    dtype_name,
    fill_expression,
    name,
    plain,
    shortest,
    target,
)
from calque.transpiler.codegen.text.statement_writer import StatementWriter
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, Kernel, Statement, Var, While
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.loops.parallelize import worth_threads
from calque.transpiler.primitives import scalars
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.elementwise import astype, power, to_float, where
from calque.transpiler.primitives.indexing import copy, getitem, update, update_add
from calque.transpiler.primitives.sorting import searchsorted

HELPERS = VECTOR_FUNCTIONS | KERNEL_FUNCTIONS | LAUNCHER_FUNCTIONS | {"kernel", "prange", "vrange"}
_ERRORS = [n for n in dir(builtins) if n.endswith(("Error", "Exception"))]
_BUILT_IN = "np math range abs bool int float complex min max len".split()
KERNEL_NAMES = HELPERS | {*_BUILT_IN, *_ERRORS}  # no variable of a kernel is called so


class KernelExpressions(ExpressionWriter):
    """Expressions; while ``inside`` a kernel, on numbers as Numba takes them."""

    inside = False

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._aliases: dict[Var, str] = {}  # kernels' names for leaves of arguments

    def atom(self, atom: Atom, others: Sequence[Atom] = ()) -> Any:
        """The tree of an atom; in a kernel a leaf of a structured argument has a name."""
        if not self.inside or not isinstance(atom, Var) or atom not in self.paths:
            return super().atom(atom, others)
        return name(self.name_inside(atom))

    def name_inside(self, var: Var) -> str:
        """A value's name in kernels, where a leaf of a structured argument has one, too."""
        if var not in self.paths:
            return self.names(var)
        if var not in self._aliases:
            alias = "_".join(re.findall(r"\w+", to_text(gast.Expr(self.paths[var][0]))))
            taken = {*self.names.reserved, *self.names.given.values(), *self._aliases.values()}
            while alias in taken or not alias.isidentifier():
                alias += "_leaf"
            self._aliases[var] = alias
        return self._aliases[var]

    def _plain(self, s: Apply) -> Any:
        if not self.inside:
            return super()._plain(s)
        if s.primitive is copy:
            return fill_expression("{0}.copy()", self.operands(s.args))
        if s.primitive is transpose and s.out.type.ndim > 2:
            turned = f"np.transpose({{0}}, {s.params['axes']})"
            return fill_expression(turned, self.operands(s.args))
        if s.primitive is searchsorted:
            return fill_expression(
                f"searchsorted_{s.params['side']}({{0}}, {{1}})", self.operands(s.args)
            )
        if (text := text_in_loops(s)) is not None:
            return fill_expression(text, self.operands(s.args))
        if s.primitive is to_float and plain_type(s.args[0]).dtype.kind == "b":
            return fill_expression("float(int({0}))", self.operands(s.args))
        if s.primitive is astype and not s.out.type.ndim:
            real = s.out.type.dtype.kind not in "bc" and plain_type(s.args[0]).dtype.kind == "c"
            cast = wrapper(s.out.type.dtype).replace("{0}", "{0}.real" if real else "{0}")
            return fill_expression(cast, self.operands(s.args))
        numbers = not any(isinstance(a, Var) and a.type.ndim for a in s.args)
        elementwise = s.primitive.kind == "elementwise" or s.primitive is where
        if not (numbers and elementwise) or s.out.type.ndim:
            return super()._plain(s)
        text = _power(s) or spelled(s)
        if text is None:
            return super()._plain(s)
        made = plainer(fill_expression(text, self._numbers(s, text)))
        back = cast_back(s)
        return made if back is None else fill_expression(wrapper(back), [made])

    def _numbers(self, s: Apply, text: str) -> list[Any]:
        """The operands as Numba must be given them to promote as NumPy does."""
        trees = []
        for a, dtype in zip(s.args, operand_casts(s, text), strict=True):
            if isinstance(a, (Var, bool, np.bool_)):
                tree = self.atom(a)
                trees.append(tree if dtype is None else call(_dtype(dtype), tree))
            else:
                trees.append(self._constant(a, dtype, s))
        return trees

    def _constant(self, value: Any, dtype: np.dtype | None, s: Apply) -> Any:
        """A known number in an operation."""
        if dtype is None and isinstance(value, np.generic):
            dtype = value.dtype
            value = shortest(value)
        others = [a.type for a in s.args if isinstance(a, Var)]
        if dtype in (np.float64, np.complex128, np.int64):
            return plain(dtype.type(value).item())
        if type(value) is int and any(t.dtype.kind == "f" for t in others):
            value = float(value)
        return plain(value) if dtype is None else call(_dtype(dtype), plain(value))


def _dtype(dtype: np.dtype) -> Any:
    return gast.Attribute(name("np"), dtype_name(dtype), gast.Load())


def _power(s: Apply) -> str | None:
    """Powers that are products, quotients and square roots."""
    if s.primitive not in (power, scalars.pow_) or isinstance(s.args[1], Var):
        return None
    exponent, single = s.args[1], s.out.type.dtype == np.float32
    if s.out.type.dtype.kind == "c":
        return _complex_power(exponent) if isinstance(s.args[0], Var) else None
    if s.out.type.dtype.kind not in "f":
        return None
    if exponent == 0.5:
        return "np.sqrt({0})"
    if exponent == 2:
        return "{0} ** 2" if not isinstance(s.args[0], Var) else "{0} * {0}"
    if exponent in HALF_POWERS:
        return f"{HALF_POWERS[exponent]}{'f' if single else ''}({{0}})"
    if float(exponent).is_integer() and 0 < exponent <= 16:
        return f"{{0}} ** {int(exponent)}"
    if exponent in (-1, -2, -3):
        return ("np.float32(1.0)" if single else "1.0") + int(-exponent) * " / {0}"
    return None


def _complex_power(exponent: Any) -> str | None:
    """Powers that NumPy has as a product, a reciprocal or a root; else the exponent is real."""
    plainly = {2: "{0} * {0}", -1: "complex_reciprocal({0})", 0.5: "complex_sqrt({0})"}
    if exponent in plainly:
        return plainly[exponent]
    if np.imag(exponent) or abs(exponent) >= 100:
        return None
    exponent = float(np.real(exponent))
    return f"complex_power({{0}}, {int(exponent) if exponent.is_integer() else exponent})"


@dataclass(frozen=True)
class _Launch:
    """A kernel as its launcher calls it: ``outs`` are what it returns."""

    name: str
    params: list[Var]
    outs: list[Var]


class Launcher(StatementWriter):
    """Writes the launcher, and puts the kernels beside it."""

    kernels: list[Any]
    _phase_now = ""
    _generated = False
    expressions: KernelExpressions

    def function_body(self) -> list[Any]:
        """The launcher's statements."""
        self.kernels = []
        self._known: dict[Any, tuple[_Launch, tuple[Var, ...]]] = {}
        self._unset: dict[str, Var] = {}
        body = super().function_body()
        body[:0] = [_empty(n, self._unset[n].type) for n in sorted(self._unset)]
        hand_on(body, self.program, self.memory, self.expressions, self.notes)
        return body

    def _block(self, block: Block, depth: int) -> list[Any]:
        """The launcher's own lines say little, for what it does is in the kernels."""
        if self.expressions.inside:
            return self._kernel_block(block, depth)
        made: list[Any] = []
        self._phase_now = "" if depth == 1 else self._phase_now
        for s in block.statements:
            lines = self._statement(s, depth)
            if lines and isinstance(s, Apply) and s.primitive in NEW:
                lines[-1].made = s
            if lines and depth == 1 and s.phase and s.phase != self._phase_now:
                made += self._phase(s.phase, bool(made))
                self._phase_now = s.phase
            made += lines
        return made

    # launches

    def _kernel(self, s: Kernel, depth: int) -> list[Any]:
        """The call of a kernel, which is written beside."""
        lines = self._kernel_lines(s)
        if all(map(self.notes.is_note, lines)):
            return []
        kernel = self._written(s, lines)
        for var in kernel.params:
            if may_be_unset(var, self.program):
                self._unset.setdefault(self.expressions.names(var), var)
        return _received(
            [self.expressions.names(o) for o in kernel.outs],
            [type_given(o, s, self.program) for o in kernel.outs],
            call(name(kernel.name), *map(self._given, kernel.params)),
        )

    def _written(self, s: Kernel, lines: list[Any]) -> _Launch:
        """A new kernel of these lines; or one of the same form, with what is read here."""
        inside = self.expressions.name_inside
        params = sorted({inside(p): p for p in s.params}.values(), key=self._place)
        outs = [o for o in s.outs if is_assigned(o, s, self.program, self.groups)]
        outs.sort(key=self._place)
        text, values = form(s.body.statements, self.program)
        places = {v: k for k, v in enumerate(values)}
        key = text, *(frozenset(places[v] for v in which) for which in (params, outs))
        if key in self._known:
            first, others = self._known[key]
            here = dict(zip(others, values, strict=True))
            return _Launch(first.name, *([here[v] for v in w] for w in (first.params, first.outs)))
        title = f"{self.program.function.name.removesuffix('_jit')}_kernel"
        title += f"_{len(self._known) + 1}" if self._known else ""
        made = _Launch(title, params, outs)
        self._known[key] = made, values
        if outs:
            lines = [*lines, gast.Return(_one_or_tuple([name(inside(o)) for o in outs]))]
        taken = gast.arguments([_parameter(inside(p)) for p in params], [], None, [], [], None, [])
        decorators = [self._decorator(s)]
        self.kernels.append(gast.FunctionDef(title, taken, lines, decorators, None, None, []))
        return made

    def _place(self, var: Var) -> int:
        """Kernels take the arguments in the order of the signature, then what is made."""
        return self._firsts.get(self.expressions.name_inside(var), self.program.index[var])

    @cached_property
    def _firsts(self) -> dict[str, int]:
        """Which value is the first that has a name."""
        hidden = self.expressions.folding.folded | self.expressions.paths.keys()
        shown = [v for v in self.program.vars if v not in hidden]
        return {self.expressions.names(v): self.program.index[v] for v in reversed(shown)}

    def _given(self, var: Var) -> Any:
        """What a kernel is given; the number in what may be an array of no axes."""
        if var in self.expressions.paths:
            path = self.expressions.paths[var][0]
            return element_of(path) if is_strong(var) else path
        made = name(self.expressions.names(var))
        if not may_be_array(var, self.program):
            return made
        if var not in self.program.function.params:
            made = fill_expression("np.asarray({0})", [made])
        return element_of(made)

    def _decorator(self, s: Kernel) -> Any:
        """``@kernel``; with checks where an index is not proven to be in range."""
        wished = self.program.function.kernel_options
        parallel, checked = wished.get("parallel", "auto"), wished.get("boundscheck")
        indexed = (getitem, update, update_add)
        statements = [t for t in core.walk(s.body) if isinstance(t, Apply)]
        proven = all(t.proven for t in statements if t.primitive in indexed)
        checked = not proven if checked is None else checked
        if any(map(may_raise, statements)):
            parallel = False  # no thread can raise
        if parallel == "auto" and _has_small_nests(s.body.statements):
            parallel = '"measured"'
        options = [f"parallel={parallel}"] if parallel != "auto" else []
        options += ["boundscheck=True"] if checked else [] if proven else ["boundscheck=None"]
        return fill_expression(f"kernel({', '.join(options)})", []) if options else name("kernel")

    # within kernels

    def _kernel_lines(self, s: Kernel) -> list[Any]:
        self.expressions.inside = True
        try:
            return self._kernel_block(s.body, 1)
        finally:
            self.expressions.inside = False

    def _kernel_block(self, block: Block, depth: int) -> list[Any]:
        made: list[Any] = []
        self._quoted = None
        for s in block.statements:
            lines = self._statement(s, depth)
            if not lines:
                continue
            if self._generated or s.phase == "reverse":
                made += self._comment(s, depth)
            made += lines
            if core.blocks_of(s):
                self._quoted = None
        return made

    def _for(self, s: For, depth: int) -> list[Any]:
        before, self._generated = self._generated, s.scheduled
        try:
            lines = super()._for(s, depth)
        finally:
            self._generated = before
        threads = self.program.function.kernel_options.get("parallel") is not False
        threads = threads and worth_threads(s, depth)
        if self.expressions.inside and (threads or s.vector):
            for line in lines:
                if isinstance(line, gast.For) and isinstance(line.iter, gast.Call):
                    line.iter.func = name("prange" if threads else "vrange")
        at = next((k for k, line in enumerate(lines) if isinstance(line, gast.For)), None)
        return lines if at is None else [*lines[:at], *self._explained(s, depth), *lines[at:]]

    def _explained(self, s: For, depth: int) -> list[Any]:
        """What a loop's comment says of its threads, if asked."""
        if s.verdict is None or not self.program.function.kernel_options.get("explained"):
            return []
        text = s.verdict.comment(self._counter(s))
        return [self.notes.comment(t) for t in textwrap.wrap(text, WIDTH - 2 - 4 * depth)]


def _one_or_tuple(items: list[Any], context: Any = gast.Load) -> Any:
    return items[0] if len(items) == 1 else gast.Tuple(items, context())


def _empty(identifier: str, t: ArrayType) -> Any:
    """A value of the right type for what no path has set yet."""
    zero: Any = plain(t.dtype.type(0).item())
    if t.ndim:
        shape = gast.Tuple([plain(0)] * t.ndim, gast.Load())
        zero = call(gast.Attribute(name("np"), "empty", gast.Load()), shape, _dtype(t.dtype))
    return gast.Assign([target(name(identifier))], zero, None)


def _received(names: list[str], types: list[ArrayType], value: Any) -> list[Any]:
    """A kernel's call, and the numbers it gives as NumPy's where NumPy gives its own."""
    if not names:
        return [gast.Expr(value)]
    place = _one_or_tuple([target(name(n)) for n in names], gast.Store)
    strong = {n: t for n, t in zip(names, types, strict=True) if not t.ndim and not t.weak}
    if len(names) == 1 and strong:
        return [gast.Assign([place], call(_dtype(types[0].dtype), value), None)]
    casts = [(target(name(n)), call(_dtype(t.dtype), name(n))) for n, t in strong.items()]
    return [gast.Assign([p], v, None) for p, v in [(place, value), *casts]]


def _parameter(identifier: str) -> Any:
    return gast.Name(identifier, gast.Param(), None, None)


def _has_small_nests(run: Sequence[Statement]) -> bool:
    """Whether threads would run loops of the user's within a loop, each maybe over few places."""
    inner = (t for s in run if isinstance(s, (For, While)) for t in s.body.statements)
    return any(isinstance(t, For) and not t.scheduled and worth_threads(t, 2) for t in inner)
