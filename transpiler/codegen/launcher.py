"""Core as a launcher and Numba kernels: loops over scalars go into functions of their own.

The launcher is the NumPy source of ``codegen/numpy/emit.py``, in which every run of statements that
Numba compiles, and that holds a loop, is replaced by a call::

    out = np.empty(x.size)
    selu_kernel(x.reshape(-1), alpha, scale, out)
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.kernel_interfaces import (
    GLOBALS,
    Launch,
    form,
    is_note,
    names_in,
    period,
    replace,
    settle_launches,
)
from calque.transpiler.codegen.numba.donation import NEW, hand_on
from calque.transpiler.codegen.numba.scalar_text import (
    HALF_POWERS,
    KERNEL_FUNCTIONS,
    VECTOR_FUNCTIONS,
    can_compile,
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
from calque.transpiler.codegen.text.signature import arguments
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
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.loops.parallelize import worth_threads
from calque.transpiler.primitives.axes import transpose
from calque.transpiler.primitives.elementwise import astype, to_float, where
from calque.transpiler.primitives.indexing import copy, getitem
from calque.transpiler.primitives.shapes import reshape
from calque.transpiler.primitives.sorting import searchsorted

_REPEATED = 3  # loops that do so as often become launches of one kernel, which is compiled once
_WRITTEN_INSIDE = (getitem, transpose, reshape, copy)  # arrays within expressions
HELPERS = VECTOR_FUNCTIONS | KERNEL_FUNCTIONS | LAUNCHER_FUNCTIONS | {"kernel", "prange", "vrange"}
KERNEL_NAMES = HELPERS | GLOBALS  # no variable of a kernel is called so


class KernelExpressions(ExpressionWriter):
    """Expressions; while ``inside`` a kernel, on numbers as Numba takes them."""

    inside = False

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.aliases: dict[str, Any] = {}  # a kernel's name for a leaf of an argument -> the leaf
        self._alias_of: dict[Var, str] = {}

    def atom(self, atom: Atom, others: Sequence[Atom] = ()) -> Any:
        """The tree of an atom; in a kernel a leaf of a structured argument has a name."""
        if not self.inside or not isinstance(atom, Var) or atom not in self.paths:
            return super().atom(atom, others)
        if atom not in self._alias_of:
            path = self.paths[atom][0]
            alias = "_".join(re.findall(r"\w+", to_text(gast.Expr(path))))
            taken = {*self.names.reserved, *self.names.given.values(), *self.aliases}
            while alias in taken or not alias.isidentifier():
                alias += "_leaf"
            self._alias_of[atom] = alias
            self.aliases[alias] = element_of(path) if is_strong(atom) else path
        return name(self._alias_of[atom])

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
    if s.primitive.name not in ("np.power", "math.pow") or isinstance(s.args[1], Var):
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


class Launcher(StatementWriter):
    """Writes the launcher, and puts the kernels beside it."""

    kernels: list[Any]
    _phase_now = ""
    expressions: KernelExpressions

    def function_body(self) -> list[Any]:
        """The launcher's statements."""
        self.kernels = []
        body = super().function_body()
        self._return_values(body)
        hand_on(body, self.program, self.memory, self.expressions, self.notes)
        return body

    def _block(self, block: Block, depth: int) -> list[Any]:
        if self.expressions.inside:
            return self._kernel_block(block, depth)
        made: list[Any] = []
        run: list[Statement] = []
        self._phase_now = "" if depth == 1 else self._phase_now
        for s in block.statements:
            if self.expressions.folding.skip(s):
                continue
            if self._compiles(s):
                run.append(s)
                continue
            made += self._run(run, depth)
            run = []
            made += self._outside([s], depth)
        return made + self._run(run, depth)

    def _outside(self, statements: Sequence[Statement], depth: int) -> list[Any]:
        """The launcher's own lines: what it does is in the kernels, so it says little."""
        made: list[Any] = []
        for s in statements:
            lines = self._statement(s, depth)
            if lines and isinstance(s, Apply) and s.primitive.name in NEW:
                lines[-1].made = s
            now = self.program.phases.get(id(s), "")
            if lines and depth == 1 and now and now != self._phase_now:
                made += self._phase(now, bool(made))
                self._phase_now = now
            made += lines
        return made

    def _compiles(self, s: Statement) -> bool:
        """Whether Numba takes a statement and all that is written within it."""
        if not can_compile(s):
            return False
        looping = isinstance(s, (For, While))
        for made in self._folded_into([s]):
            if isinstance(made, Apply):
                if looping and text_in_loops(made) is not None:
                    continue
                if made.out.type.ndim and made.primitive not in _WRITTEN_INSIDE:
                    return False
                if not can_compile(made):
                    return False
        return True

    def _folded_into(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements whose expressions stand within the text of others."""
        whole = list(core.walk(Block(list(statements), [])))
        pending = [a for t in whole for a in core.operands(t)]
        pending += [a for t in whole for b in core.blocks_of(t) for a in b.results]
        found: dict[Var, Statement] = {}
        while pending:
            atom = pending.pop()
            if not isinstance(atom, Var) or atom not in self.expressions.folding.folded:
                continue
            if atom not in found:
                made = found[atom] = self.program.definition[atom]
                pending += list(core.operands(made))
        return list(found.values())

    def _run(self, run: Sequence[Statement], depth: int) -> list[Any]:
        """Statements in a row that Numba takes, in one kernel; what may raise apart, if asked."""
        if not self.program.function.kernel_options.get("explained"):
            return self._in_kernel(run, depth)
        parts = itertools.groupby(run, self._raises)
        return [line for _, part in parts for line in self._in_kernel(list(part), depth)]

    def _raises(self, s: Statement) -> bool:
        return any(map(may_raise, [*core.walk(Block([s], [])), *self._folded_into([s])]))

    def _in_kernel(self, run: Sequence[Statement], depth: int) -> list[Any]:
        """Statements in a row that Numba takes: those before the first loop stay outside."""
        first = next((k for k, s in enumerate(run) if _is_work(s)), len(run))
        while first and not self._is_array(run[first - 1]) and first < len(run):
            first -= 1
        last = max((k for k, s in enumerate(run) if _is_work(s)), default=-1)
        made = self._outside(run[:first], depth)
        if first < len(run):
            made += self._outlined(run[first : last + 1], depth)
            made += self._outside(run[last + 1 :], depth)
        return made

    def _is_array(self, s: Statement) -> bool:
        return any(o.type.ndim for o in s.outs)

    def _outlined(self, run: Sequence[Statement], depth: int) -> list[Any]:
        """Launches of a kernel of all statements, or of one for what repeats."""
        if depth == 1 and period([_sort(s) for s in run], _REPEATED):
            size = period([self._form([s]) for s in run], _REPEATED)
            parts = [run[k : k + size] for k in range(0, len(run), size or len(run))]
            if size and len({self._form(part) for part in parts}) == 1:
                return [line for part in parts for line in self._launched(part)]
        return self._launched(run)

    def _form(self, run: Sequence[Statement]) -> str:
        return form(self._kernel_lines(run), self.notes.said)

    def _kernel_lines(self, run: Sequence[Statement]) -> list[Any]:
        self.expressions.inside = True
        try:
            return self._kernel_block(Block(list(run), []), 1)
        finally:
            self.expressions.inside = False

    def _launched(self, run: Sequence[Statement]) -> list[Any]:
        lines = self._kernel_lines(run)
        if not any(not is_note(line) for line in lines):
            return []
        kernel = gast.FunctionDef("", None, lines, [], None, None, [])
        kernel.decorator_list = [self._decorator(run)]
        node = gast.Expr(call(name("")))
        folded = self.expressions.folding.folded
        outs = [o for t in core.walk(Block(list(run), [])) for o in t.outs if o not in folded]
        types = {self.expressions.names(o): o.type for o in outs}
        node.launch = Launch(node, kernel, types, *names_in(lines))
        return [node]

    def _decorator(self, run: Sequence[Statement]) -> Any:
        """``@kernel``; with checks where an index is not proven to be in range."""
        wished = self.program.function.kernel_options
        parallel, checked = wished.get("parallel", "auto"), wished.get("boundscheck")
        indexed = ("getitem", "update", "update_add")
        written = [*core.walk(Block(list(run), [])), *self._folded_into(run)]
        statements = [s for s in written if isinstance(s, Apply)]
        proven = all(s.proven for s in statements if s.primitive.name in indexed)
        checked = not proven if checked is None else checked
        if any(map(may_raise, statements)):
            parallel = False  # no thread can raise
        if parallel == "auto" and _has_small_nests(run):
            parallel = '"measured"'
        options = [f"parallel={parallel}"] if parallel != "auto" else []
        options += ["boundscheck=True"] if checked else [] if proven else ["boundscheck=None"]
        return fill_expression(f"kernel({', '.join(options)})", []) if options else name("kernel")

    def _kernel_block(self, block: Block, depth: int) -> list[Any]:
        made: list[Any] = []
        self._quoted = None
        for s in block.statements:
            lines = self._statement(s, depth)
            if not lines:
                continue
            if self._generated or self.program.phases.get(id(s)) == "reverse":
                made += self._comment(s, depth)
            made += lines
            if core.blocks_of(s):
                self._quoted = None
        return made

    _generated = False

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

    # what kernels give back

    def _name_kernel(self, launch: Launch, known: dict[str, Any]) -> None:
        """Launch a kernel that is there already where it is the same in other names."""
        kernel = known.setdefault(form(launch.kernel, self.notes.said), launch.kernel)
        if kernel is launch.kernel:
            title = f"{self.program.function.name.removesuffix('_jit')}_kernel"
            kernel.name = title + (f"_{len(known)}" if len(known) > 1 else "")
            self.kernels.append(kernel)
        launch.node.value.func.id = kernel.name

    def _return_values(self, body: list[Any]) -> None:
        """Let each kernel return the numbers, and the arrays of its own, that are read after it."""
        function = self.program.function
        first = {n.id for n in gast.walk(arguments(function)) if isinstance(n, gast.Name)}
        paths = self.expressions.paths
        first |= set(self.expressions.aliases)
        first |= {self.expressions.names(p) for p in function.params if p not in paths}
        unset: set[str] = set()
        known: dict[str, Any] = {}
        numbers = self._numbers_of_arrays()
        for launch in settle_launches(body, first):
            kernel, kept = launch.kernel, launch.kept
            taken = [n for n in launch.reads if n not in GLOBALS]
            kernel.args = gast.arguments([_parameter(n) for n in taken], [], None, [], [], None, [])
            aliases = self.expressions.aliases
            launch.node.value.args = [aliases.get(n) or numbers.get(n) or name(n) for n in taken]
            unset |= set(launch.unset)
            if kept:
                values = [name(n) for n in kept]
                returned = values[0] if len(values) == 1 else gast.Tuple(values, gast.Load())
                kernel.body.append(gast.Return(returned))
            self._name_kernel(launch, known)
            if not kept:
                continue
            targets = [target(name(n)) for n in kept]
            place = targets[0] if len(targets) == 1 else gast.Tuple(targets, gast.Store())
            received = self._received(kept, launch.types, place, launch.node.value)
            replace(body, launch.node, received)
        types = {self.expressions.names(v): v.type for v in self.program.vars
                 if v not in self.expressions.folding.folded and v not in paths}
        body[:0] = [self._empty(n, types) for n in sorted(unset)]

    def _numbers_of_arrays(self) -> dict[str, Any]:
        """By name: the number in what may be an array of no axes, no number to Numba."""
        found = {}
        unnamed = self.expressions.folding.folded | self.expressions.paths.keys()
        for var in self.program.vars:
            if var not in unnamed and may_be_array(var, self.program):
                made = name(identifier := self.expressions.names(var))
                if var not in self.program.function.params:
                    made = fill_expression("np.asarray({0})", [made])
                found[identifier] = element_of(made)
        return found

    def _empty(self, identifier: str, types: dict[str, Any]) -> Any:
        """A value of the right type for what no path has set yet."""
        t = types.get(identifier)
        zero: Any = plain(0.0 if t is None else t.dtype.type(0).item())
        if t is not None and t.ndim:
            shape = gast.Tuple([plain(0)] * t.ndim, gast.Load())
            zero = call(gast.Attribute(name("np"), "empty", gast.Load()), shape, _dtype(t.dtype))
        return gast.Assign([target(name(identifier))], zero, None)

    def _received(
        self, kept: list[str], types: dict[str, Any], place: Any, value: Any
    ) -> list[Any]:
        """The call, and the numbers it gives as NumPy's where NumPy gives its own."""
        lines: list[Any] = [gast.Assign([place], value, None)]
        strong = {n: types[n] for n in kept if n in types and not types[n].ndim}
        strong = {n: t for n, t in strong.items() if not t.weak}
        if len(kept) == 1 and strong:
            (only,) = strong.values()
            return [gast.Assign([place], call(_dtype(only.dtype), value), None)]
        for n, t in strong.items():
            lines.append(gast.Assign([target(name(n))], call(_dtype(t.dtype), name(n)), None))
        return lines


def _parameter(identifier: str) -> Any:
    return gast.Name(identifier, gast.Param(), None, None)


def _has_small_nests(run: Sequence[Statement]) -> bool:
    """Whether threads would run loops of the user's within a loop, each maybe over few places."""
    inner = (t for s in run if isinstance(s, (For, While)) for t in s.body.statements)
    return any(isinstance(t, For) and not t.scheduled and worth_threads(t, 2) for t in inner)


def _sort(s: Statement) -> tuple[str, ...]:
    """What kind of work a statement is, in short."""
    inner = core.walk(Block([s], []))
    return tuple(t.primitive.name if isinstance(t, Apply) else type(t).__name__ for t in inner)


def _is_work(s: Statement) -> bool:
    return isinstance(s, (For, While)) or (
        isinstance(s, If) and any(_is_work(t) for b in core.blocks_of(s) for t in b.statements)
    )
