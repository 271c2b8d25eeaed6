"""Print syntax trees of scalar Python statements as CUDA C.

The trees are those that other targets print as Python: with the same names, in the same order,
under the same comments. Only the spelling differs::

    out[i, j] = x[i, j] if t > 0 else y[j]      out[i * m + j] = t > 0 ? x[i * m + j] : y[j];

A local is declared at its first assignment, if that encloses all its uses, else before them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.cuda.c_lines import (
    MATHS,
    CCode,
    assigned_in,
    blocks_in,
    bounds_of,
    braced,
    heads_of,
    indented,
    inside_of,
    names_in,
    number_in,
    raw,
)
from calque.transpiler.codegen.cuda.c_types import CASTS, LARGE, c_number, c_type
from calque.transpiler.codegen.cuda.complex_numbers import complex_type
from calque.transpiler.codegen.cuda.named_sizes import shifted
from calque.transpiler.codegen.text.layout import Notes

_BINARY: dict[type, tuple[str, int]] = {
    gast.Mult: ("*", 11),
    gast.Div: ("/", 11),
    gast.Add: ("+", 10),
    gast.Sub: ("-", 10),
    gast.LShift: ("<<", 9),
    gast.RShift: (">>", 9),
    gast.BitAnd: ("&", 6),
    gast.BitXor: ("^", 5),
    gast.BitOr: ("|", 4),
}
_COMPARED: dict[type, tuple[str, int]] = {
    gast.Lt: ("<", 8),
    gast.LtE: ("<=", 8),
    gast.Gt: (">", 8),
    gast.GtE: (">=", 8),
    gast.Eq: ("==", 7),
    gast.NotEq: ("!=", 7),
}
_UNARY = {gast.USub: "-", gast.UAdd: "+", gast.Invert: "~", gast.Not: "!"}
_FUNCTIONS = {gast.FloorDiv: "floor_divide", gast.Mod: "remainder_of", gast.Pow: "powerl"}
_AND, _OR, _CHOICE, _UNIT, _SIGN, _SUM = 3, 2, 1, 14, 12, 10
_BITS = (gast.BitAnd, gast.BitXor, gast.BitOr, gast.LShift, gast.RShift)
_WORDS = {"inf": "INF", "nan": "NaN"}
@dataclass
class CNames:
    """The meaning of names in one kernel, as functions that the printer calls.

    ``place(tree)`` is the text of an element, ``size(tree)`` that of an array's size, and
    ``read(name)`` that of a name where it is read.
    """

    place: Callable[[Any], str]
    size: Callable[[Any], str | None]
    array: Callable[[Any], str]  # an array and its size, as arguments of a function
    read: Callable[[Any], str]
    checked: Callable[[Any], list[str]]  # the indices of an element that are -1 if out of bounds
    nothing: Callable[[Any], str]  # the value of a read out of bounds
    type_of: Callable[[Any], str]  # the C type of a local, by name, or of an element
    is_local: Callable[[str], bool]
    is_index: Callable[[str], bool]  # a number of the type Index, which may have 32 bits
    has_complex: bool  # True if there are complex numbers
    used: set[str] = field(default_factory=set)  # functions and words


class CText:
    """Prints the statements of a kernel; ``names.used`` collects the functions they call.

    ``marked`` is given the lines of each statement, with its tree.
    """

    def __init__(
        self, names: CNames, notes: Notes, marked: Callable[[list[str], Any], list[str]]
    ):
        self.names, self.notes, self.marked = names, notes, marked
        self.indexing = False  # True within an index, which is below the size of an array

    def _use(self, word: str, *trees: Any) -> None:
        """Note an operator, or a function, of complex numbers."""
        if self.names.has_complex:
            kinds = (complex_type(tree, self.names.type_of) for tree in trees)
            if kind := max(kinds, key=len, default=""):
                self.names.used.add(f"{word} of {kind}")

    # expressions

    def expression(self, tree: Any, least: int = 0) -> str:
        """The text of an expression, in brackets if its precedence is below ``least``."""
        text, level = self._expression(tree)
        return text if level >= least else f"({text})"

    def _expression(self, tree: Any) -> tuple[str, int]:
        size = self.names.size(tree)
        if size is not None:
            return size, _SUM if " " in size and "(" not in size else _UNIT
        if type(number := number_in(tree)) is complex:
            return self._number(number), _UNIT
        match tree:
            case gast.Constant(value=CCode() as code):
                return code.text, code.level
            case gast.Constant(value=value):
                return c_number(value), _UNIT
            case gast.Name():
                return self.names.read(tree), _UNIT
            case gast.Attribute():
                return self._attribute(tree), _UNIT
            case gast.BinOp():
                return self._binary(tree)
            case gast.UnaryOp(op=op, operand=operand):
                self._use("minus" if isinstance(op, gast.USub) else "", operand)
                inner = self.expression(operand, _SIGN)
                minus = isinstance(op, gast.USub) and inner.startswith("-")
                return _UNARY[type(op)] + (f"({inner})" if minus else inner), _SIGN
            case gast.Compare(left=left, ops=ops, comparators=rest):
                return self._compare(left, ops, rest)
            case gast.BoolOp(op=op, values=values):
                word, level = (" && ", _AND) if isinstance(op, gast.And) else (" || ", _OR)
                least = level + 1 if level == _AND else _AND + 1
                return word.join(self.expression(v, least) for v in values), level
            case gast.IfExp(test=test, body=body, orelse=orelse):
                body, orelse = self._alike(body, orelse)
                parts = [self.expression(t, _CHOICE + 1) for t in (test, body)]
                return f"{parts[0]} ? {parts[1]} : {self.expression(orelse, _CHOICE)}", _CHOICE
            case gast.Subscript():
                return self._read(tree)
            case gast.Call():
                return self._call(tree), _UNIT
        raise NotImplementedError(f"no C for {type(tree).__name__}")

    def _alike(self, *arms: Any) -> list[Any]:
        """The arms of a conditional expression, cast to complex if one of them is."""
        if not self.names.has_complex:
            return list(arms)
        kinds = [complex_type(arm, self.names.type_of) for arm in arms]
        kind = max(kinds, key=len)
        plain = [not own or self._is_real_number(arm) for arm, own in zip(arms, kinds, strict=True)]
        if not kind or not any(plain):
            return list(arms)
        pairs = zip(arms, plain, strict=True)
        return [raw(f"{kind}({self.expression(arm)})") if own else arm for arm, own in pairs]

    def _is_real_number(self, tree: Any) -> bool:
        """True if a complex constant is written as a real one."""
        inner = tree.args[0] if isinstance(tree, gast.Call) and len(tree.args) == 1 else tree
        return number_in(inner) is not None and "(" not in self.expression(tree)

    def _read(self, tree: Any) -> tuple[str, int]:
        """The text of an element, with a substitute value if a checked index is out of bounds."""
        place, checked = self.names.place(tree), self.names.checked(tree)
        if hasattr(tree, "kept"):  # in a local array
            return tree.kept, _UNIT
        if hasattr(tree, "held"):  # where the row is in shared memory
            return f"{tree.held}{place}", _CHOICE
        if not checked or getattr(tree, "is_checked", False):
            return place, _UNIT
        nothing = self.names.nothing(tree)
        return f"{inside_of(checked)} ? {place} : {nothing}", _CHOICE

    def _number(self, number: Any, dtype: np.dtype | None = None) -> str:
        text = c_number(number, dtype)
        self.names.used.update(word for word in _WORDS.values() if word in text)
        return text

    def _attribute(self, tree: Any) -> str:
        if tree.attr in _WORDS:
            self.names.used.add(_WORDS[tree.attr])
            return _WORDS[tree.attr]
        if tree.attr in MATHS:
            return c_number(MATHS[tree.attr])
        if tree.attr in ("real", "imag"):
            return f"{self.expression(tree.value, _UNIT)}.{tree.attr}"
        raise NotImplementedError(f"no C for .{tree.attr}")

    def _binary(self, tree: Any) -> tuple[str, int]:
        if type(tree.op) in _FUNCTIONS:
            return self._function(_FUNCTIONS[type(tree.op)], [tree.left, tree.right]), _UNIT
        word, level = _BINARY[type(tree.op)]
        self._use(word, tree.left, tree.right)
        match tree:
            case gast.BinOp(
                op=gast.Add() | gast.Sub(), right=gast.Constant(value=int() as number)
            ) if type(number) is int and (size := self.names.size(tree.left)) is not None:
                return shifted(size, -number if word == "-" else number), level
        bits = isinstance(tree.op, _BITS)
        if not self.indexing and self._may_leave_32_bits(tree):
            wide = f"(long long){self.expression(tree.left, _UNIT)}"
            return f"{wide} {word} {self.expression(tree.right, level + 1)}", level
        left = self.expression(tree.left, _SIGN if bits else level)
        right = self.expression(tree.right, _SIGN if bits else level + 1)
        return f"{left} {word} {right}", level

    def _may_leave_32_bits(self, tree: Any) -> bool:
        """True for a product or a nested sum of indices, each of which is below 2**30."""
        if not self._is_small(tree.left) or not self._is_small(tree.right):
            return False
        sides = (tree.left, tree.right)
        if all(number_in(t) is not None for t in sides):
            return False
        if isinstance(tree.op, (gast.Mult, gast.LShift)):
            return True
        return any(isinstance(t, gast.BinOp) for t in sides)

    def _is_small(self, tree: Any) -> bool:
        """True if C computes an expression as an Index or an int."""
        number = number_in(tree)
        if number is not None:
            return type(number) is int and abs(number) < LARGE
        match tree:
            case gast.Name(id=own):
                return self.names.is_index(own)
            case gast.BinOp(left=left, right=right) if type(tree.op) in _BINARY:
                return not self._may_leave_32_bits(tree) and (
                    self._is_small(left) and self._is_small(right)
                )
        return self.names.size(tree) is not None

    def _compare(self, left: Any, ops: Sequence[Any], rest: Sequence[Any]) -> tuple[str, int]:
        parts = []
        for op, right in zip(ops, rest, strict=True):
            word, level = _COMPARED[type(op)]
            self._use(word, left, right)
            sides = self.expression(left, level + 1), self.expression(right, level + 1)
            parts.append((f"{sides[0]} {word} {sides[1]}", level))
            left = right
        return parts[0] if len(parts) == 1 else (" && ".join(t for t, _ in parts), _AND)

    def _call(self, tree: Any) -> str:
        function = tree.func
        called = function.attr if isinstance(function, gast.Attribute) else function.id
        if called in CASTS and len(tree.args) == 1:
            return self._cast(called, tree.args[0])
        return self._function(called, tree.args)

    def _cast(self, to: str, tree: Any) -> str:
        number = number_in(tree)
        dtype = np.dtype(CASTS[to])
        if number is not None:
            return self._number(number, dtype)
        if dtype.kind == "c":
            return f"{c_type(dtype)}({self.expression(tree)})"
        return f"({c_type(dtype)}){self.expression(tree, _UNIT)}"

    def _function(self, called: str, args: Sequence[Any]) -> str:
        self.names.used.add(called)
        self._use(called, *args)
        if called.startswith("searchsorted_"):
            return f"{called}({self.names.array(args[0])}, {self.expression(args[1])})"
        before, self.indexing = self.indexing, False  # a remainder is an index, not its operands
        try:
            return f"{called}({', '.join(self.expression(a) for a in args)})"
        finally:
            self.indexing = before

    # statements

    def block(self, lines: Sequence[Any], depth: int, declared: set[str]) -> list[str]:
        """The text of statements, with the declarations of the locals of their block."""
        made: list[str] = []
        own = self._declarations(lines, declared)
        inner = declared | {n for n, _ in own}
        known = set(declared)
        for k, line in enumerate(lines):
            ahead = [n for n, at in own if at == k]
            first = self._assigned_first(line)
            for n in ahead:
                if n != first:
                    made += indented(f"{self.names.type_of(n)} {n};", depth)
            fresh = first if first in ahead else None
            known |= set(ahead)
            made += self.marked(self._statement(line, depth, inner, fresh), line)
        return made

    def _declarations(self, lines: Sequence[Any], declared: set[str]) -> list[tuple[str, int]]:
        """The locals to declare in this block, each with the number of its first statement."""
        found: dict[str, list[int]] = {}
        for k, line in enumerate(lines):
            for n in self._locals_in(line):
                found.setdefault(n, []).append(k)
        made = []
        for n, places in found.items():
            if n in declared or all(self._own_within(lines[k], n) for k in places):
                continue
            made.append((n, places[0]))
        return made

    def _locals_in(self, line: Any) -> list[str]:
        seen = dict.fromkeys(
            node.id
            for node in gast.walk(line)
            if isinstance(node, gast.Name) and self.names.is_local(node.id)
        )
        return list(seen)

    def _own_within(self, line: Any, n: str) -> bool:
        """True if each block of a statement that uses the local ``n`` assigns it before a read."""
        if not any(blocks_in(line)) or any(n in names_in(tree) for tree in heads_of(line)):
            return False
        for block in blocks_in(line):
            first = next((t for t in block if n in self._locals_in(t)), None)
            if first is not None and self._assigned_first(first) != n:
                if not all(self._own_within(t, n) for t in block if n in self._locals_in(t)):
                    return False
        return True

    def _assigned_first(self, line: Any) -> str | None:
        """The local that a statement assigns without reading it; else None."""
        if isinstance(line, gast.Assign) and isinstance(line.targets[0], gast.Name):
            n = line.targets[0].id
            read = (t.id for t in gast.walk(line.value) if isinstance(t, gast.Name))
            if self.names.is_local(n) and n not in read:
                return n
        return None

    def _statement(self, line: Any, depth: int, declared: set[str], fresh: str | None) -> list[str]:
        note = self.notes.told(line)
        if note is not None:
            kind, text = note
            return [""] if kind == "blank" else indented(f"// {text}", depth)
        match line:
            case gast.Expr(value=gast.Constant(value=CCode() as code)):
                return [("    " * depth + t) if t else "" for t in code.text.split("\n")]
            case gast.Assign(targets=[gast.Tuple(elts=places)], value=gast.Tuple(elts=values)):
                return self._together(places, values, depth)
            case gast.Assign(targets=[gast.Subscript() as place]) | gast.AugAssign(
                target=gast.Subscript() as place
            ) if checked := self.names.checked(place):
                body = self._stored(line, depth + 1)
                return braced(f"if ({inside_of(checked)})", body, depth)
            case gast.Assign(targets=[gast.Subscript()]) | gast.AugAssign():
                return self._stored(line, depth)
            case gast.Assign(targets=[place], value=value):
                before = f"{self.names.type_of(fresh)} " if fresh else ""
                return indented(f"{before}{self._place(place)} = {self.expression(value)};", depth)
            case gast.If():
                return self._if(line, depth, declared)
            case gast.For():
                return self._for(line, depth, declared)
            case gast.While(test=test, body=body):
                inner = self.block(body, depth + 1, declared)
                return braced(f"while ({self.expression(test)})", inner, depth)
            case gast.Break():
                return indented("break;", depth)
            case gast.Pass():
                return []
        raise NotImplementedError(f"no C for {type(line).__name__}")

    def _stored(self, line: Any, depth: int) -> list[str]:
        if getattr(line, "is_atomic", False):
            minus = isinstance(line.op, gast.Sub)
            value = gast.UnaryOp(gast.USub(), line.value) if minus else line.value
            text = f"atomicAdd(&{self._place(line.target)}, {self.expression(value)});"
            return indented(text, depth)
        if isinstance(line, gast.AugAssign):
            return self._augmented(line.target, line.op, line.value, depth)
        place = self._place(line.targets[0])
        return indented(f"{place} = {self.expression(line.value)};", depth)

    def _augmented(self, place: Any, op: Any, value: Any, depth: int) -> list[str]:
        if type(op) in _FUNCTIONS:
            tree = gast.BinOp(place, op, value)
            return indented(f"{self._place(place)} = {self.expression(tree)};", depth)
        word, _ = _BINARY[type(op)]
        self._use(f"{word}=", place)
        return indented(f"{self._place(place)} {word}= {self.expression(value)};", depth)

    def _together(self, places: Sequence[Any], values: Sequence[Any], depth: int) -> list[str]:
        """A parallel assignment, as ``a, b = b, a + b``: all values come before the first store."""
        read = set().union(*map(names_in, values))
        made: list[str] = []
        kept = []
        for place, value in zip(places, values, strict=True):
            new = f"{place.id}_next"
            while new in read:
                new += "_"
            kept.append(new)
            kind = self.names.type_of(place.id)
            made += indented(f"{kind} {new} = {self.expression(value)};", depth + 1)
        for new, place in zip(kept, places, strict=True):
            made += indented(f"{place.id} = {new};", depth + 1)
        return braced("", made, depth)

    def _place(self, tree: Any) -> str:
        return tree.id if isinstance(tree, gast.Name) else self.names.place(tree)

    def _if(self, line: Any, depth: int, declared: set[str]) -> list[str]:
        made = braced(
            f"if ({self.expression(line.test)})", self.block(line.body, depth + 1, declared), depth
        )
        if line.orelse:
            rest = self.block(line.orelse, depth + 1, declared)
            made += braced("else", rest, depth)
        return made

    def _for(self, line: Any, depth: int, declared: set[str]) -> list[str]:
        own = counter = line.target.id
        before: list[str] = []
        if self.names.is_local(own):  # in Python the counter is the same variable
            counter = f"{own}_counter"
            before = indented(f"{own} = {counter};", depth + 1)
        if hasattr(line, "slot_of"):
            before, counter = self._in_slot(line, depth + 1), own
        body = self.block(line.body, depth + 1, declared | {own})
        if getattr(line, "tiled", False):
            return self._tiled(line, counter, [*before, *body], depth)
        iterations = getattr(line, "at_once", 1)
        above = ["    " * depth + f"#pragma unroll {iterations}"] if iterations > 1 else []
        return [*above, *braced(self._head(line, counter), [*before, *body], depth)]

    def _tiled(self, line: Any, counter: str, body: list[str], depth: int) -> list[str]:
        """A loop of which the threads of a row run some iterations each at the same time."""
        start, stop, step = bounds_of(line)
        kind = self._counter_type(start, stop)
        compared, sign = ("<", "+") if step is None else (">", "-")
        ends = self.expression(start), self.expression(stop, 9)
        wide = "blockDim.x" if line.tiled == 1 else f"blockDim.x * {line.tiled}"
        head = f"for ({kind} tile = {ends[0]}; tile {compared} {ends[1]}; tile {sign}= {wide})"
        own = indented(f"{kind} {counter} = tile {sign} threadIdx.x;", depth + 1)
        return braced(head, [*(own if line.tiled == 1 else []), *body], depth)

    def _in_slot(self, line: Any, depth: int) -> list[str]:
        """The counter of a tiled loop in one of the iterations that a thread runs at once."""
        loop, slot, each = line.slot_of, line.target.id, line.slot_of.tiled
        start, stop, step = bounds_of(loop)
        kind, sign = self._counter_type(start, stop), "+" if step is None else "-"
        place = f"threadIdx.x / 32 * {32 * each} + {slot} * 32 + threadIdx.x % 32"
        place = place if sign == "+" else f"({place})"
        return indented(f"{kind} {loop.target.id} = tile {sign} {place};", depth)

    def _counter_type(self, start: Any, stop: Any) -> str:
        return "Index" if self._is_small(start) and self._is_small(stop) else "long long"

    def _signed(self, first: str, begin: str, line: Any) -> str:
        """A thread's number, cast to Index where C would convert a negative start to unsigned."""
        start, stop, _ = bounds_of(line)
        wider = self._is_small(start) and self._counter_type(start, stop) != "Index"
        if begin.isdigit() or not (wider or begin.startswith("-")):
            return first
        return f"(Index){first}" if first.replace(".", "").isalnum() else f"(Index)({first})"

    def _head(self, line: Any, counter: str) -> str:
        args = line.iter.args
        args = [gast.Constant(0, None), *args] if len(args) == 1 else args
        start, stop = args[0], args[1]
        step = number_in(args[2]) if len(args) > 2 else 1
        upward = step is None or step > 0  # None: a variable stride of a loop that threads share
        first, stride = getattr(line, "spread", ("", ""))  # over threads
        begin = self.expression(start, 10) if first else self.expression(start)
        if first:
            begin = first if begin == "0" else f"{begin} + {self._signed(first, begin, line)}"
            # An unrolled loop needs a trip count that C can compute: the counter must be signed.
            signed = "(Index)" if getattr(line, "at_once", 1) > 1 else ""
            walk = f"{counter} += {signed}{stride}"
        else:
            walk = f"{counter}++" if step == 1 else f"{counter}--" if step == -1 else ""
            walk = walk or f"{counter} += {self.expression(args[2])}"
        compared = "<" if upward else ">"
        end = self.expression(stop, 9)
        kind = self._counter_type(start, stop)
        changing = {n for n in (line.target.id, *assigned_in(line.body)) if self.names.is_local(n)}
        if changing & names_in(stop):  # Python evaluates it once, C in every iteration
            kept = f"{line.target.id}_end"
            while kept in names_in(line):
                kept += "_"
            begin, end = f"{begin}, {kept} = {self.expression(stop)}", kept
        return f"for ({kind} {counter} = {begin}; {counter} {compared} {end}; {walk})"
