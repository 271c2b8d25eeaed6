"""The scope of one CUDA C kernel: its parameters, sizes, locals and their types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.cuda.c_lines import raw
from calque.transpiler.codegen.cuda.c_text import CNames, CText
from calque.transpiler.codegen.cuda.c_types import c_number, c_type
from calque.transpiler.codegen.cuda.complex_numbers import COMPLEX
from calque.transpiler.codegen.cuda.grid import Grid
from calque.transpiler.codegen.cuda.named_sizes import NamedSizes, is_named, shifted, sum_text
from calque.transpiler.codegen.launcher import Launcher
from calque.transpiler.codegen.text.recording import with_source
from calque.transpiler.codegen.text.spelling import name, target
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, For, Kernel, Var
from calque.transpiler.ir.effects import stored_by, stored_into
from calque.transpiler.ir.versions import Versions, of_plain_stores
from calque.transpiler.primitives.indexing import checked_index


def statement(text: str) -> Any:
    """A line of C as a tree."""
    return gast.Expr(raw(text))


class KernelScope:
    """The names of one kernel: parameters, sizes, locals and their types."""

    def __init__(
        self, writer: Launcher, kernel: Kernel, grid: Grid, device: set[Var], named: NamedSizes
    ):
        self.writer, self.kernel, self.grid, self.named = writer, kernel, grid, named
        self.device = device  # the scalars in the GPU's memory
        self.names_of = writer.expressions.name_inside
        self.sizes: dict[Any, tuple[str, Var, int | None]] = {}
        self.used: set[str] = set()
        self.read_arrays: dict[str, Var] = {}
        self.read_numbers: dict[str, Var] = {}
        self.types: dict[str, str] = {}
        dtypes: dict[str, np.dtype] = {}
        self.counters: set[str] = set()
        self.checks: list[Apply] = []  # checked indices, in order
        self.checked_names: set[str] = set()
        for s in core.walk(kernel.body):
            if isinstance(s, Apply) and s.primitive is checked_index:
                self.checks.append(s)
                self.checked_names.add(self.names_of(s.out))
            if isinstance(s, For):
                self.counters.add(writer.counter_of(s))
            for v in (*s.outs, *core.bound_vars(s)):
                counter = isinstance(s, For) and v is s.index
                if not counter and not v.type.ndim and v not in writer.expressions.folding.folded:
                    own = writer.expressions.names(v)
                    index = own in self.checked_names
                    index &= self.types.get(own, "Index") == "Index"
                    # values of several types may share a variable
                    dtypes[own] = np.promote_types(v.type.dtype, dtypes.get(own, v.type.dtype))
                    self.types[own] = "Index" if index else c_type(dtypes[own])
        self._versions = Versions.within(kernel.body, taken=of_plain_stores)
        stores = stored_by(kernel.body.statements) | stored_into(kernel.body.statements)
        self.stored = {self.names_of(self.given(v)) for v in stores}
        self.arrays: dict[str, Var] = {}
        for v in kernel.params:
            if v.type.ndim:
                self.arrays.setdefault(self.names_of(v), v)
        self.arrays_given = {v for v in kernel.params if v.type.ndim}
        self.numbers = {self.names_of(v): v for v in kernel.params if not v.type.ndim}
        for n in self.counters & self.numbers.keys():  # the same variable in Python
            self.types.setdefault(n, c_type(self.numbers[n].type.dtype))
        self.totals = {kernel_out(kernel, r.position): r for r in grid.totals}
        self.declarations: list[str] = []  # lines of C before all others

    def given(self, array: Var) -> Var:
        """The kernel's parameter of which ``array`` is the first or a later version."""
        return next(self._versions.origins(array))

    def named_alike(self, values: Sequence[Var]) -> tuple[int, ...]:
        """For each array parameter, the number of the first one that shares its name and memory."""
        names = [self.names_of(v) if v in self.arrays_given else "" for v in values]
        return tuple(names.index(n) for n in names if n)

    def is_stored(self, tree: Any) -> bool:
        """True if the kernel stores into the array of an element."""
        return self.names_of(self.given(self._array(tree.value))) in self.stored

    # queries of the printer

    def c_names(self) -> CNames:
        """The functions by which the printer resolves names."""
        return CNames(
            *(self.place, self.size, self.array, self.read, self.checked, self.nothing),
            *(self.type_of, self.is_local, self.is_index, self._has_complex(), self.used),
        )

    def _has_complex(self) -> bool:
        given = (v.type.dtype.kind for v in (*self.kernel.params, *self.arrays.values()))
        return "c" in given or not COMPLEX.keys().isdisjoint(self.types.values())

    def is_local(self, n: str) -> bool:
        """True if a name is a local scalar of the kernel."""
        return n in self.types

    def is_index(self, n: str) -> bool:
        """True if a name is a counter, a size or a checked index, which may have 32 bits."""
        if n in self.types:
            return self.types[n] == "Index"
        return n in self.counters or (n in self.numbers and self._is_size(self.numbers[n]))

    def _is_size(self, var: Var) -> bool:
        """True if a scalar parameter is a size or computed from sizes."""
        return var.type.weak and var in self.writer.program.dim_values

    def type_of(self, place: Any) -> str:
        """The C type of a local, by name, or of a scalar or an element in a tree."""
        if isinstance(place, str):
            return self.types[place]
        if isinstance(place, gast.Name):
            own = self.numbers.get(place.id)
            known = c_type(own.type.dtype) if own is not None else "Index"
            return self.types.get(place.id, known)
        return c_type(self._array(place.value).type.dtype)

    def read(self, tree: Any) -> str:
        """The text of a name where it is read: a scalar on the device is a memory cell."""
        n = tree.id
        var = self.numbers.get(n)
        if var is None or n in self.types:
            return n
        self.read_numbers[n] = var
        return f"{n}[0]" if var in self.device else n

    def size(self, tree: Any) -> str | None:
        """The text of a size, if a tree is one; else None."""
        match tree:
            case gast.Subscript(value=gast.Attribute(value=gast.Name() as array, attr="shape")):
                axis = tree.slice.value if isinstance(tree.slice, gast.Constant) else None
                return self._size_of(array, axis)
            case gast.Attribute(value=gast.Name() as array, attr="size"):
                return self._size_of(array, None)
            case gast.Call(func=gast.Name(id="len"), args=[gast.Name() as array]):
                return self._size_of(array, 0)
            case gast.Call(func=gast.Name(id="max" | "min" as word), args=[a, b]):
                self.used.add(f"index_{word}")
                text = self.printer
                return f"index_{word}({text.expression(a)}, {text.expression(b)})"
        return None

    def array(self, tree: Any) -> str:
        """The text of an array and its size, as arguments."""
        return f"{self._read(tree)}, {self.size_name(self._array(tree), None)}"

    def _size_of(self, array: Any, axis: int | None) -> str:
        return self.size_name(self._array(array), axis)

    def size_name(self, var: Var, axis: int | None) -> str:
        """The text of an axis' size, or of an array's, over the parameters that hold them."""
        axis = 0 if axis is None and var.type.ndim == 1 else axis
        dim = var.type.dims[axis] if axis is not None else None
        known = self.named.of(dim) if dim is not None else None
        if isinstance(known, int):
            return str(known)
        if known is not None:
            return sum_text(known, self._parameter_of)
        counted = next((n for n, v in self.numbers.items() if self._counts(v, dim)), None)
        if counted is not None:
            self.read_numbers[counted] = self.numbers[counted]
            return counted
        own: Any = dim if dim is not None else ("size", var.type.dims)
        if own not in self.sizes:
            var = self.given(var)
            wish = f"{self.names_of(var)}_size" + (f"_{axis}" if axis else "")
            self.sizes[own] = self.free_name(wish), var, axis
        return self.sizes[own][0]

    def _counts(self, number: Var, dim: Any) -> bool:
        """True if a scalar parameter equals the size ``dim``."""
        values = self.writer.program.dim_values
        known = values.get(number) if number not in self.device else None
        return known is not None and self.named.resolved(known) == self.named.resolved(dim)

    def _parameter_of(self, symbol: str) -> str:
        """The parameter that holds the size of an argument."""
        if symbol not in self.sizes:
            argument, axis = self.named.places[symbol]
            wish = symbol
            if not is_named(symbol):
                wish = f"{self.names_of(argument)}_size" + (f"_{axis}" if axis else "")
            self.sizes[symbol] = self.free_name(wish), argument, axis
        return self.sizes[symbol][0]

    def new_number(self, wish: str, kind: str) -> str:
        """A new local of the kernel that no statement of the program defines."""
        made = self.free_name(wish) if self.types.get(wish) != kind else wish
        self.types[made] = kind
        return made

    def free_name(self, wish: str) -> str:
        """An unused name in the kernel, like ``wish``."""
        taken = {*self.types, *self.arrays, *self.numbers, *self.counters}
        taken |= {n for n, *_ in self.sizes.values()}
        while wish in taken:
            wish += "_size" if not wish.endswith("_size") else "_too"
        return wish

    def place(self, tree: Any) -> str:
        """The text of an element: ``x[i * m + j]``."""
        array, var = tree.value, self._array(tree.value)
        before, self.printer.indexing = self.printer.indexing, True
        try:
            return self._element(array, var, tree)
        finally:
            self.printer.indexing = before

    def _array(self, name: Any) -> Var:
        """The array of a name in the text."""
        var = getattr(name, "shows", None)
        return self.arrays[name.id] if var is None or not var.type.ndim else var

    def _element(self, array: Any, var: Var, tree: Any) -> str:
        items = tree.slice.elts if isinstance(tree.slice, gast.Tuple) else [tree.slice]
        return f"{self._read(array)}[{self._linear(var, items)}]"

    def _read(self, array: Any) -> str:
        """The parameter of an array that is read or stored into."""
        var = self.given(self._array(array))
        own = self.names_of(var)
        self.read_arrays.setdefault(own, var)
        return self._shown(own)

    def _shown(self, n: str) -> str:
        """The name of an array's parameter, different from the scalars' names."""
        return f"{n}_array" if n in self.types else n

    def checked(self, tree: Any) -> list[str]:
        """The indices of an element that are -1 if out of bounds."""
        names = [t.id for t in gast.walk(tree.slice) if isinstance(t, gast.Name)]
        return [n for n in dict.fromkeys(names) if n in self.checked_names]

    def nothing(self, tree: Any) -> str:
        """The value of a read out of bounds: NaN, or an integer that is no valid index."""
        dtype = self._array(tree.value).type.dtype
        if dtype.kind in "fc":
            self.used.add("NaN")
            return "NaN" if dtype.kind == "f" else c_number(complex(np.nan, np.nan), dtype)
        if dtype.kind == "b":
            return "false"
        ends = np.iinfo(dtype)
        return c_number(ends.min if dtype.kind == "i" else ends.max, dtype)

    def _linear(self, var: Var, items: list[Any]) -> str:
        text = ""
        for axis, item in enumerate(items):
            index = self._index(var, axis, item)
            if not text or text == "0":
                text = index
                continue
            size = self.size_name(var, axis)
            if size == "1":
                continue
            inner, size = (t if t.isidentifier() or t.isdigit() else f"({t})" for t in (text, size))
            text = f"{inner} * {size}" + ("" if index == "0" else f" + {index}")
        return text

    def _index(self, var: Var, axis: int, item: Any) -> str:
        match item:
            case gast.UnaryOp(op=gast.USub(), operand=gast.Constant(value=int() as back)):
                return shifted(self.size_name(var, axis), -back)
        return self.printer.expression(item)

    # the text

    def text(self, lines: list[Any]) -> list[str]:
        """The body of the kernel."""
        marked = partial(with_source, writer=self.writer)
        self.printer = CText(self.c_names(), self.writer.notes, marked)
        last = []
        for out in self.kernel.outs:
            if not out.type.ndim and out not in self.totals:
                own = self.writer.expressions.names(out)
                store = statement(f"{own}_out[0] = {own};")
                alone = self.grid.form != "scan"
                last.append(store if alone else gast.If(raw("threadIdx.x == 0"), [store], []))
        begun = []
        for n, var in self.numbers.items():
            if n in self.types:  # the kernel changes it
                cell = f"{n}_in[0]" if var in self.device else f"{n}_in"
                begun.append(gast.Assign([target(name(n))], raw(cell), None))
                self.read_numbers[n] = var
        declared = map(statement, self.declarations)
        made = self.printer.block([*declared, *begun, *lines, *last], 1, set())
        return made

    def passed_as(self, var: Var) -> str:
        """The way a scalar is passed to a kernel: ``cell``, ``size`` or ``number``; else empty.

        Scalars for which one kernel is shared must be passed the same way.
        """
        if var.type.ndim or var not in self.kernel.params:
            return ""
        return "cell" if var in self.device else "size" if self._is_size(var) else "number"

    @cached_property
    def parameters(self) -> list[tuple[str, tuple[str, Any]]]:
        """Each parameter's C text, and its argument."""
        made: list[tuple[str, tuple[str, Any]]] = []
        for var in sorted(self.kernel.params, key=self.writer.place_of):
            n = self.names_of(var)
            if var.type.ndim:
                if self.arrays[n] is not var or n not in self.read_arrays:
                    continue
                word = "" if n in self.stored else "const "
                text = f"{word}{c_type(var.type.dtype)}* __restrict__ {self._shown(n)}"
                made.append((text, ("array", var)))
            elif n in self.read_numbers and self.numbers[n] is var:
                shown = f"{n}_in" if n in self.types else n
                if var in self.device:
                    text = f"const {c_type(var.type.dtype)}* __restrict__ {shown}"
                    made.append((text, ("array", var)))
                else:
                    kind = "Index" if self._is_size(var) else c_type(var.type.dtype)
                    made.append((f"{kind} {shown}", ("number", var)))
        for out in self.kernel.outs:
            if out.type.ndim:
                continue
            own, kind = self.writer.expressions.names(out), c_type(out.type.dtype)
            if out in self.totals:
                made.append(
                    (
                        f"{kind}* __restrict__ {own}_of_blocks",
                        ("parts", (out, self.totals[out].how)),
                    )
                )
            else:
                made.append((f"{kind}* __restrict__ {own}_out", ("out", out)))
        made += [(f"Index {n}", ("size", given)) for n, given in self._sizes_in_order()]
        if self.grid.held:
            made.append(("Index held", ("held", None)))
        if self.checks:
            made.append(("volatile long long* outside", ("checks", None)))
            made.append(("long long place", ("place", None)))
        return made

    def _sizes_in_order(self) -> list[tuple[str, Any]]:
        """The parameters of sizes: of arguments in the order of the signature, then others."""
        own = sorted((s for s in self.sizes if s in self.named.places), key=self.named.order)
        others = [s for s in self.sizes if s not in self.named.places]
        made: list[tuple[str, Any]] = [(self.sizes[s][0], s) for s in own]
        return made + [(self.sizes[s][0], self.sizes[s][1:]) for s in others]

    def definition(self, title: str, body: list[str]) -> list[str]:
        """The text of the whole kernel."""
        texts = [p for p, _ in self.parameters]
        threads = "1" if self.grid.form == "serial" else "256"
        head = f'extern "C" __global__ __launch_bounds__({threads})'
        line = f"void {title}({', '.join(texts)})"
        if len(line) > 100:
            line = f"void {title}(\n    " + _filled(texts) + ")"
        return [head, line, "{", *body, "}"]


def _filled(texts: list[str]) -> str:
    """Parameters in lines of at most 100 columns."""
    lines = [""]
    for k, text in enumerate(texts):
        text += "," if k < len(texts) - 1 else ""
        if lines[-1] and len(lines[-1]) + len(text) > 94:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + text
    return "\n    ".join(lines)


def kernel_out(kernel: Kernel, position: int) -> Var:
    """The scalar result of a kernel's loop at a position."""
    loop = kernel.body.statements[-1]
    assert isinstance(loop, For)
    return loop.outs[position]
