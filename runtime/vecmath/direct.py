"""Vector functions as LLVM's instructions, written down without Numba's compiler.

A vector function is straight-line arithmetic, so its Python text says all: each operation is one
instruction. Numba compiles such a function, and each that it calls, with all its passes, which is
most of the time of a kernel's first call. A kernel in this process calls what is written here; a
saved module has the functions' text and Numba, which make the same instructions of it, without
flags, but for those in ``plain``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core.cgutils import normalize_ir_text
from numba.core.codegen import CPUCodeLibrary
from numba.core.registry import cpu_target
from numba.core.types import Float, float32, float64
from numba.extending import intrinsic

from calque.runtime.vecmath import arithmetic

DOUBLE, SINGLE, LONG, BIT = ir.DoubleType(), ir.FloatType(), ir.IntType(64), ir.IntType(1)
INT = ir.IntType(32)
Value = Any  # of LLVM; a number that is known; a tuple of such


@functools.cache
def _parts_of(file: str) -> dict[str, str]:
    """The text of each function, as blank lines set it apart."""
    parts = Path(file).read_text(encoding="utf-8").split("\n\n\n")
    return {name: part for part in parts for name in re.findall(r"^def (\w+)", part, re.MULTILINE)}


@functools.cache
def _text_of(function: Callable[..., Any]) -> ast.FunctionDef:
    name = function.__name__
    body = ast.parse(_parts_of(inspect.getfile(function))[name]).body
    return next(n for n in body if isinstance(n, ast.FunctionDef) and n.name == name)


@dataclass
class Writer:
    """Writes functions into a module of LLVM."""

    module: Any
    builder: Any = field(default_factory=ir.IRBuilder)
    lanes: int = 1  # how many numbers each value is

    def wide(self, kind: Any) -> Any:
        """The type of a value whose numbers are of a kind."""
        return kind if self.lanes == 1 else ir.VectorType(kind, self.lanes)

    def call(self, function: Callable[..., Any], values: list[Value]) -> Value:
        """The value of a function, its instructions written where the builder is."""
        text = _text_of(function)
        names = dict(zip([a.arg for a in text.args.args], values, strict=True))
        for line in text.body:
            match line:
                case ast.Expr():
                    pass  # the docstring
                case ast.Assign(targets=[target], value=value):
                    self._assign(names, target, self.value(value, names, function))
                case ast.If(test=test, body=body, orelse=[]):
                    self._if(test, body, names, function)
                case ast.Return(value=value) if value is not None:
                    return self.value(value, names, function)
                case _:
                    raise NotImplementedError(ast.unparse(line))
        raise NotImplementedError(f"{function.__name__} returns nothing")

    def _assign(self, names: dict[str, Value], target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Tuple):
            for place, item in zip(target.elts, value, strict=True):
                self._assign(names, place, item)
        else:
            names[ast.unparse(target)] = value

    def _if(self, test: ast.expr, body: list[ast.stmt], names: dict[str, Value], of: Any) -> None:
        """``if c: y = f(x)``, f made by ``rarely``: the one branch that there is."""
        condition = self._bit(self.value(test, names, of))
        match body:
            case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func, [ast.Name(id=x)]))]:
                scalar = self.seldom(of.__globals__[ast.unparse(func)].seldom)
            case _:
                raise NotImplementedError(ast.unparse(body[0]))
        value = self._typed(names[x], DOUBLE)
        if self.lanes > 1:
            variant = self.module.globals[f"{scalar.name}.{self.lanes}"]
            inside = self.builder.call(variant, [value, condition])
            names[name] = self.builder.select(condition, inside, names[name])
            return
        before = self.builder.block
        with self.builder.if_then(condition):
            inside = self.builder.call(scalar, [value])
            end = self.builder.block
        either = self.builder.phi(inside.type)
        either.add_incoming(names[name], before)
        either.add_incoming(inside, end)
        names[name] = either

    def value(self, node: ast.expr, names: dict[str, Value], of: Any) -> Value:
        """An expression's value; ``of`` is the function that it stands in."""

        def at(part: ast.expr) -> Value:
            return self.value(part, names, of)

        match node:
            case ast.Constant(value=number):
                return number
            case ast.Name(id=name):
                return names[name] if name in names else of.__globals__[name]
            case ast.Tuple(elts=items):
                return tuple(map(at, items))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, at(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, at(left), at(right))
            case ast.BoolOp(op=op, values=values):
                join = self.builder.or_ if isinstance(op, ast.Or) else self.builder.and_
                return functools.reduce(join, [self._bit(at(v)) for v in values])
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compare(op, at(left), at(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choice(self._bit(at(test)), at(body), at(orelse))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._element(name, of.__globals__[name], at(index))
            case ast.Call(func=ast.Attribute(value=inner, attr="view"), args=[to]):
                kind = self.wide(KINDS[ast.unparse(to)])
                return self.builder.bitcast(self._typed(at(inner)), kind)
            case ast.Call(func=called, args=args):
                return self._called(ast.unparse(called), of, list(map(at, args)))
        raise NotImplementedError(ast.unparse(node))

    def _typed(self, value: Value, to: Any = None) -> Any:
        """A value as an instruction's operand, converted to a kind."""
        if not isinstance(value, ir.Value):
            to = to or _kind(value)
            return self.wide(to)(float(value) if to in (SINGLE, DOUBLE) else int(value))
        match _kind(value), to:
            case kind, None:
                return value
            case kind, _ if kind == to:
                return value
            case ir.DoubleType(), ir.FloatType():
                return self.builder.fptrunc(value, self.wide(to))
            case ir.FloatType(), ir.DoubleType():
                return self.builder.fpext(value, self.wide(to))
            case ir.IntType(width=64), ir.DoubleType() | ir.FloatType():
                return self.builder.sitofp(value, self.wide(to))
        raise NotImplementedError(f"{value.type} as {to}")

    def _together(self, left: Value, right: Value) -> tuple[Any, Any]:
        """Two values as Numba brings them to one type: float64 wherever they differ."""
        kinds = _kind(left), _kind(right)
        common = None if kinds[0] == kinds[1] else DOUBLE
        if INT in kinds and LONG in kinds:  # a known number beside a value of 32 bits
            common = INT
        return self._typed(left, common), self._typed(right, common)

    def _bit(self, value: Value) -> Any:
        value = self._typed(value)
        if _kind(value) == BIT:
            return value
        return self.builder.icmp_signed("!=", value, self._typed(0))

    def _unary(self, op: ast.unaryop, value: Value) -> Value:
        if isinstance(op, ast.Not):
            return self.builder.not_(self._bit(value))
        assert isinstance(op, ast.USub)
        if not isinstance(value, ir.Value):
            return -value
        return self.builder.neg(value) if _kind(value) == LONG else self.builder.fneg(value)

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        if not isinstance(left, ir.Value) and not isinstance(right, ir.Value):
            return _FOLD[type(op)](left, right)
        left, right = self._together(left, right)
        whole = _kind(left) in (LONG, INT, BIT)
        return getattr(self.builder, _INSTRUCTIONS[type(op), whole])(left, right)

    def _compare(self, op: ast.cmpop, left: Value, right: Value) -> Any:
        left, right = self._together(left, right)
        sign = _SIGNS[type(op)]
        if _kind(left) == LONG:
            return self.builder.icmp_signed(sign, left, right)
        compare = self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered
        return compare(sign, left, right)

    def _choice(self, test: Any, then: Value, orelse: Value) -> Any:
        return self.builder.select(test, *self._together(then, orelse))

    def _element(self, name: str, array: np.ndarray, index: Value) -> Any:
        """An element of an array of constants."""
        title = f"vecmath.{name}"
        if title not in self.module.globals:
            kind = ir.ArrayType(DOUBLE, array.size)
            table = ir.GlobalVariable(self.module, kind, title)
            table.initializer, table.global_constant = kind(array.tolist()), True
            table.linkage = "linkonce_odr"
        table = self.module.globals[title]
        place = self.builder.gep(table, [LONG(0), self._typed(index)], inbounds=True)
        return self.builder.load(place)

    def _called(self, name: str, of: Any, values: list[Value]) -> Value:
        match name:
            case "np.float64" | "np.float32" | "np.int64" | "np.int32":
                return self._typed(values[0], KINDS[name])
            case "abs" | "np.rint" | "np.sqrt":
                title = {"abs": "fabs", "np.rint": "rint", "np.sqrt": "sqrt"}[name]
                return self._instruction(title, [self._typed(values[0])])
        called = of.__globals__[name]
        if called is arithmetic.fma:
            return self._instruction("fma", [self._typed(v, DOUBLE) for v in values])
        if called is arithmetic.fmaf:
            return self._instruction("fma", [self._typed(v, SINGLE) for v in values])
        return self.call(called.py_func, values)

    def _instruction(self, title: str, values: list[Any]) -> Any:
        """Call the LLVM intrinsic of this title."""
        kind = values[0].type
        suffix = "f64" if _kind(values[0]) == DOUBLE else "f32"
        title = f"llvm.{title}.{suffix if self.lanes == 1 else f'v{self.lanes}{suffix}'}"
        if title not in self.module.globals:
            ir.Function(self.module, ir.FunctionType(kind, [kind] * len(values)), title)
        return self.builder.call(self.module.globals[title], values)

    def seldom(self, dispatcher: Any) -> Any:
        """A function that ``rarely`` made, in LLVM."""
        title = f"vecmath.{dispatcher.__name__}"
        if title not in self.module.globals:
            found = function_in(self.module, title, dispatcher.py_func, [DOUBLE])
            _set_apart(found)
            arithmetic.masked_variants(self.module, found)
        return self.module.globals[title]


def function_in(module: Any, title: str, function: Callable[..., Any], kinds: list[Any]) -> Any:
    """A function of LLVM that computes one of Python."""
    draft = Writer(ir.Module())
    scratch = ir.Function(draft.module, ir.FunctionType(ir.VoidType(), kinds), "draft")
    draft.builder = ir.IRBuilder(scratch.append_basic_block())
    gives = _kind(draft.call(function, list(scratch.args)))
    made = ir.Function(module, ir.FunctionType(gives, kinds), title)
    made.linkage = "linkonce_odr"
    _fill(made, function, 1)
    return made


def _fill(made: Any, function: Callable[..., Any], lanes: int) -> None:
    writer = Writer(made.module, ir.IRBuilder(made.append_basic_block()), lanes)
    count = len(inspect.signature(function).parameters)
    found = writer.call(function, list(made.args[:count]))
    writer.builder.ret(writer._typed(found))


def _set_apart(function: Any) -> None:
    for attribute in ("noinline", "nounwind", "readnone"):
        function.attributes.add(attribute)


def _vectorize(scalar: Any, function: Callable[..., Any]) -> None:
    """Give a function variants of several lanes, which a vectorized loop calls in its place."""
    names = []
    kinds = scalar.ftype.args
    for lanes in (2, 4, 8, 16):
        wide = [ir.VectorType(kind, lanes) for kind in (*kinds, BIT)]
        gives = ir.VectorType(scalar.ftype.return_type, lanes)
        title = f"{scalar.name}.{lanes}"
        variant = ir.Function(scalar.module, ir.FunctionType(gives, wide), title)
        variant.linkage = "weak_odr"  # kept although no loop calls it yet
        _set_apart(variant)
        _fill(variant, function, lanes)
        names.append(f"_ZGV_LLVM_M{lanes}{'v' * len(kinds)}_{scalar.name}({title})")
    # llvmlite's own ``add`` takes only attributes without a value
    set.add(scalar.attributes, f'"vector-function-abi-variant"="{",".join(names)}"')


def _kind(value: Value) -> Any:
    """The type of a value's numbers."""
    if isinstance(value, ir.Value):
        return getattr(value.type, "element", value.type)
    return BIT if isinstance(value, bool) else LONG if isinstance(value, int) else DOUBLE


KINDS = {"np.float64": DOUBLE, "np.float32": SINGLE, "np.int64": LONG, "np.int32": INT}
_SIGNS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}
_FOLD: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Pow: lambda a, b: a**b,
}
_INSTRUCTIONS = {
    (ast.Add, False): "fadd",
    (ast.Sub, False): "fsub",
    (ast.Mult, False): "fmul",
    (ast.Div, False): "fdiv",
    (ast.Add, True): "add",
    (ast.Sub, True): "sub",
    (ast.Mult, True): "mul",
    (ast.BitAnd, True): "and_",
    (ast.BitOr, True): "or_",
    (ast.LShift, True): "shl",
    (ast.RShift, True): "ashr",
}


class _WrittenLibrary(CPUCodeLibrary):
    """A library for kernels to be linked with: no machine code is made of it alone."""

    def __init__(self, codegen: Any, name: str, module: Any):
        super().__init__(codegen, name)
        parsed = llvm.parse_assembly(normalize_ir_text(str(module)))
        parsed.data_layout = codegen._data_layout
        self._final_module = self._shared_module = parsed
        self._finalized = True


@functools.cache
def written(codegen: Any, dispatcher: Any, types: tuple[Any, ...], apart: bool) -> tuple[Any, Any]:
    """The head in LLVM, and the library, of a vector function for types of arguments."""
    title = ".".join(["vecmath", dispatcher.__name__, *map(str, types), *["apart"] * apart])
    module = ir.Module(title)
    module.triple = llvm.get_process_triple()
    kinds = [SINGLE if t is float32 else DOUBLE for t in types]
    made = function_in(module, title, dispatcher.py_func, kinds)
    if apart:
        _set_apart(made)
        _vectorize(made, dispatcher.py_func)
    else:
        made.attributes.add("alwaysinline")
    return made, _WrittenLibrary(codegen, title, module)


@functools.cache
def direct(dispatcher: Any, apart: bool = False) -> Any:
    """Return the intrinsic that a kernel calls in place of a vector function.

    A function that is kept ``apart`` stays one, for loops so long that LLVM would take its time
    over them with everything inlined.
    """

    def typed(typingctx: Any, *given: Any) -> Any:
        types = tuple([t if isinstance(t, Float) else float64 for t in given])
        codegen = cpu_target.target_context.codegen()
        head, library = written(codegen, dispatcher, types, apart)

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            context.active_code_library.add_linking_library(library)
            if head.name not in builder.module.globals:
                ir.Function(builder.module, head.ftype, head.name)
            return builder.call(builder.module.globals[head.name], args)

        return (float32 if head.ftype.return_type == SINGLE else float64)(*types), code

    if len(inspect.signature(dispatcher.py_func).parameters) == 1:
        return intrinsic(lambda typingctx, x: typed(typingctx, x))
    return intrinsic(lambda typingctx, x, y: typed(typingctx, x, y))


def is_vector(value: Any) -> bool:
    """True if a value is a vector function as Numba knows it, of numbers that are floats."""
    function = getattr(value, "py_func", None)
    module = getattr(function, "__module__", "")
    of_floats = not module.endswith(".random_numbers")
    return module.startswith("calque.runtime.vecmath.") and of_floats
