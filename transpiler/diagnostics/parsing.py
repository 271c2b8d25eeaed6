"""Parse Core from the text that ``ir.text.show`` prints, for tests of single passes.

>>> function, builder = parse('''
... twice(x: float64[n])
...     y: float64[n] = np.add(x, x)
...     yield y
... ''')
>>> print(show(function), end="")
twice(x: float64[n])
    y: float64[n] = np.add(x, x)
    yield y
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

import calque.transpiler.primitives  # noqa: F401  (fills the table)
from calque.transpiler.errors import CoreError
from calque.transpiler.ir.builder import Builder, loop_index
from calque.transpiler.ir.core import (
    UNDEFINED,
    Apply,
    Atom,
    Block,
    Effect,
    For,
    Function,
    If,
    Kernel,
    Parameter,
    Slot,
    Var,
    While,
)
from calque.transpiler.ir.text import show
from calque.transpiler.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    ArrayType,
    DimLike,
    dim_symbols,
    symbol,
)
from calque.transpiler.ir.verify import verify
from calque.transpiler.primitives.record import record_named

__all__ = ["parse", "show"]
WEAK = {"bool": BOOL, "int": INT, "float": FLOAT, "complex": COMPLEX}
CONSTANTS = {
    "__builtins__": {"slice": slice, "Ellipsis": ..., "complex": complex},
    "Slot": Slot,
    "dtype": np.dtype,
    "np": np,
    "inf": np.inf,
    "nan": np.nan,
    "undefined": UNDEFINED,
}
HEAD = re.compile(r"(\w+)\((.*)\)$")
LOOP = re.compile(r"for (\S+) in range\((.*)\)(?: as ([\w, ]+))? carrying ?(.*):$")
WHILE = re.compile(r"while carrying ?(.*):$")
KERNEL = re.compile(r"kernel\((.*)\):$")
BRANCH = re.compile(r"if (.+):$")
APPLY = re.compile(r"([^(]+)\((.*)\)(?: as (\w+))?$")
EFFECT = re.compile(r"effect ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\((.*)\)$")
TERM = re.compile(r"\s*([+-]?)\s*(?:(\d+)\*)?([#\w.]+)")


def parse(text: str) -> tuple[Function, Builder]:
    """The program of a text, and a builder that knows its sizes and loop indices.

    The program returns a tuple of the values that are yielded, or the one value. Raises CoreError,
    with the line, if the text cannot be parsed or the program is not well formed.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return _Reader(lines).function()


def parse_type(text: str) -> ArrayType:
    """
    >>> str(parse_type("float64[n, 2*m - 1]")), str(parse_type("int"))
    ('float64[n, 2*m - 1]', 'int')
    """
    name, _, dims = text.partition("[")
    if name in WEAK and not dims:
        return WEAK[name]
    sizes = [parse_dim(d) for d in _split(dims.removesuffix("]"))]
    return ArrayType(np.dtype(name), tuple(sizes))


def parse_dim(text: str) -> DimLike:
    """A size: numbers and multiples of symbols, added and subtracted."""
    total: DimLike = 0
    for sign, factor, word in TERM.findall(text):
        value: DimLike = int(word) if word.isdecimal() else symbol(word)
        total = total + (-1 if sign == "-" else 1) * int(factor or 1) * value
    return total


class _Reader:
    """The lines of a program, and the part of it that has been parsed."""

    def __init__(self, lines: Sequence[str]):
        self.lines, self.at = lines, 0
        self.vars: dict[str, Var] = {}
        self.builder = Builder()

    def fail(self, message: str) -> CoreError:
        line = self.lines[self.at] if self.at < len(self.lines) else "the end"
        return CoreError(f"{message}: {line.strip()}")

    def function(self) -> tuple[Function, Builder]:
        found = HEAD.match(self.lines[0].strip())
        if found is None:
            raise self.fail("this is no head of a program")
        params = self.define(found[2])
        sizes = {s for p in params for d in p.type.dims for s in dim_symbols(d)}
        self.builder = Builder(sorted(sizes))
        self.builder.leaf_of_param = {p: k for k, p in enumerate(params)}
        self.at = 1
        with self.builder.active():
            body = self.block(1)
        slots: list[Any] = [
            Slot(k) if isinstance(r, Var) else r for k, r in enumerate(body.results)
        ]
        function = Function(
            found[1],
            list(params),
            body,
            slots[0] if len(slots) == 1 else tuple(slots),
            [Parameter(p.name or f"value_{k}", p) for k, p in enumerate(params)],
            dim_values=self.builder.dim_values,
            equal_dims=self.builder.equal_dims,
        )
        verify(function)
        return function, self.builder

    def block(self, depth: int) -> Block:
        """Parse the lines of this depth up to their yield, which has the block's results."""
        with self.builder.block() as block:
            while True:
                line = self.line(depth)
                if line == "yield" or line.startswith("yield "):
                    block.results = self.atoms(line.removeprefix("yield"))
                    return block
                self.statement(line, depth)

    def line(self, depth: int) -> str:
        """The next line, which has this depth."""
        if self.at == len(self.lines):
            raise self.fail("a block has no yield")
        line = self.lines[self.at]
        if len(line) - len(line.lstrip()) != 4 * depth:
            raise self.fail("this line is not where it belongs")
        self.at += 1
        return line.strip()

    def statement(self, line: str, depth: int) -> None:
        if found := EFFECT.match(line):
            template = ast.literal_eval(found[1])
            self.builder.emit(Effect(template, tuple(self.atoms(found[2]))))
            return
        head, text = _halves(line)
        if found := LOOP.match(text):
            self.loop(found, head, depth)
        elif found := WHILE.match(text):
            phis, inits = self.carried(found[1])
            test = self.block(depth + 2)
            if self.line(depth) != "do:":
                raise self.fail("a while needs its body")
            body = self.block(depth + 1)
            self.builder.emit(While(self.define(head), phis, inits, test, body))
        elif found := BRANCH.match(text):
            test_atom = self.atom(found[1])
            then = self.block(depth + 1)
            if self.line(depth) != "else:":
                raise self.fail("an if needs its else")
            orelse = self.block(depth + 1)
            self.builder.emit(If(self.define(head), test_atom, then, orelse))
        elif found := KERNEL.match(text):
            params = tuple(a for a in self.atoms(found[1]) if isinstance(a, Var))
            body = self.block(depth + 1)
            outs = tuple(self.vars[part.partition(": ")[0]] for part in _split(head))
            self.builder.emit(Kernel(outs, params, body))
        elif found := APPLY.match(text):
            self.apply(found, head)
        else:
            raise self.fail("this is no statement")

    def loop(self, found: re.Match[str], head: str, depth: int) -> None:
        start, stop, step = self.atoms(found[2])
        phis, inits = self.carried(found[4])
        first, end = (self.builder.dim_of(a) for a in (start, stop))
        low, high = (first, end - 1) if step == 1 else (end + 1, first)
        index = loop_index(low, high, _stem(found[1]), (first, end)).atom
        self.vars[found[1]] = index
        body = self.block(depth + 1)
        made = For(self.define(head), index, start, stop, step, phis, inits, body)
        for mark in _split(found[3] or ""):
            setattr(made, mark, True)
        self.builder.emit(made)

    def apply(self, found: re.Match[str], head: str) -> None:
        primitive = record_named(found[1])
        if primitive is None:
            raise self.fail(f"there is no primitive {found[1]}")
        args, params = [], {}
        for part in _split(found[2]):
            name = re.match(r"([A-Za-z_]\w*)=", part)
            if name:
                params[name[1]] = _constant(part[name.end() :])
            else:
                args.append(self.atom(part))
        made = Apply(self.define(head), primitive, tuple(args), params, None, found[3] == "proven")
        self.builder.record(made)

    def define(self, text: str) -> tuple[Var, ...]:
        """The Vars that a statement defines: ``x: float64[n], t.0: int``."""
        made = []
        for part in _split(text):
            name, _, type = part.partition(": ")
            if not type:
                raise self.fail(f"{name} has no type")
            var = Var(parse_type(type), _stem(name))
            if name in self.vars:
                raise self.fail(f"{name} is defined twice")
            self.vars[name] = var
            made.append(var)
        return tuple(made)

    def carried(self, text: str) -> tuple[tuple[Var, ...], tuple[Atom, ...]]:
        pairs = [part.rpartition(" = ") for part in _split(text)]
        inits = tuple(self.atom(init) for _, _, init in pairs)
        return self.define(", ".join(typed for typed, _, _ in pairs)), inits

    def atoms(self, text: str) -> list[Atom]:
        return [self.atom(part) for part in _split(text)]

    def atom(self, text: str) -> Atom:
        return self.vars[text] if text in self.vars else _constant(text)


def _stem(name: str) -> str | None:
    """The user's name of a value, without its number; None for ``t.3``."""
    stem, _, number = name.partition(".")
    return None if stem == "t" and number else stem


def _constant(text: str) -> Any:
    if re.fullmatch(r"\(?[-+.\de]*(nan|inf)?j\)?", text):
        return complex(text)  # the expression -1j would have a real part of -0.0
    try:
        return eval(text, dict(CONSTANTS))
    except (NameError, SyntaxError) as error:
        raise CoreError(f"this is no earlier value, and no constant: {text}") from error


def _halves(line: str) -> tuple[str, str]:
    """The text before and after the assignment sign of a statement."""
    depth = 0
    for k, letter in enumerate(line):
        depth += (letter in "([{") - (letter in ")]}")
        if letter in "'\"" or (letter == "=" and line[k - 1] != " "):
            break
        if not depth and line.startswith(" = ", k):
            return line[:k], line[k + 3 :]
    return "", line


def _split(text: str) -> list[str]:
    """The parts of a text between commas outside of brackets and strings."""
    parts, depth, quote, begin = [], 0, "", 0
    for k, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[k - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "," and not depth:
            parts.append(text[begin:k].strip())
            begin = k + 1
        depth += 0 if quote else (letter in "([{") - (letter in ")]}")
    last = text[begin:].strip()
    return [*parts, last] if last else parts
