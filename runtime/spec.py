"""Types written as text, in the place of arrays where only dtype and shape matter.

`f8[n,3]` is a float64 array with n rows and 3 columns, `f8` a float64 scalar, `float` a Python
float. A list of arguments is written as Python would write it, with specs for leaves::

    f8[3], {'W': f8[3], 'b': f8}, 10

Anything else in it (10 above) is a value: an argument that is known when the source is written.
Dataclasses and named tuples are written as calls, by the names of the user's module::

    Params(w=f8[3], b=float), f8[n,3]
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from calque.runtime.fitting import shown
from calque.transpiler.errors import Origin, SpecError
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine
from calque.transpiler.ir import pytrees
from calque.transpiler.late import Late

if TYPE_CHECKING:
    from calque.runtime import record_types
else:
    record_types = Late("calque.runtime.record_types")

_SHORT = {
    **{f"f{size}": f"float{8 * size}" for size in (2, 4, 8)},
    **{f"i{size}": f"int{8 * size}" for size in (1, 2, 4, 8)},
    **{f"u{size}": f"uint{8 * size}" for size in (1, 2, 4, 8)},
    "c8": "complex64",
    "c16": "complex128",
    "b1": "bool",
}
_DTYPES = {short: np.dtype(long) for short, long in _SHORT.items()} | {
    name: np.dtype(name) for name in (*_SHORT.values(), "bool_") if name != "bool"
}
_PYTHON = {"float": "float64", "int": "int64", "bool": "bool", "complex": "complex128"}
_TO_SHORT = {np.dtype(long): short for short, long in _SHORT.items()}
_DTYPE_HINT = "dtypes are f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16, or NumPy's long names"
_EXAMPLE = "write types as \"f8[3], {'W': f8[n,3], 'b': f8}, float\""


@dataclass(frozen=True)
class Spec:
    """An array's dtype and dims; a dim is a size or the name of one. `weak` marks a Python scalar.

    >>> Spec(np.dtype("f4"), ("n", 3))
    spec('f4[n,3]')
    """

    dtype: np.dtype[Any]
    dims: tuple[int | str, ...] = ()
    weak: bool = False
    __calque_leaf__: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int | str, ...]:
        """The dims, under NumPy's name."""
        return self.dims

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.dims)

    def __str__(self) -> str:
        if self.weak:
            return next(name for name, long in _PYTHON.items() if np.dtype(long) == self.dtype)
        name = _TO_SHORT.get(self.dtype, self.dtype.name)
        return name + (f"[{','.join(map(str, self.dims))}]" if self.dims else "")

    def __repr__(self) -> str:
        return f"spec({str(self)!r})"


def spec(text: str) -> Spec:
    """The type that ``text`` describes, for an array in ``source``, ``save`` and ``explain``.

    ``text`` is a dtype, with sizes, or names for sizes, in brackets; a bare "float", "int", "bool"
    or "complex" is Python's.

    >>> spec("f8[n,3]").dims
    ('n', 3)
    >>> spec("float32").dtype
    dtype('float32')
    >>> spec("float")
    spec('float')
    """
    if not isinstance(text, str):
        raise SpecError(f"spec: text must be a text, and is {shown(text)}.", hint=_EXAMPLE)
    found = _TypeReader(text).type_()
    if not isinstance(found, Spec):
        raise SpecError(f"{text!r} is not the type of one array.", hint='write it as "f8[n,3]"')
    return found


@builtin(spec)
def _spec(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return spec(*args, **kwargs)


def parse_args(text: str, space: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
    """The arguments that `text` describes: pytrees with a `Spec` for each array.

    ``space``: the names of the user's module, among them its dataclasses and named tuples.

    >>> parse_args("f8[3], {'W': f8[n,3], 'b': float}, 2")
    (spec('f8[3]'), {'W': spec('f8[n,3]'), 'b': spec('float')}, 2)
    >>> parse_args("")
    ()
    """
    return _TypeReader(text, space).arguments() if text.strip() else ()


def format_args(args: tuple[Any, ...]) -> str:
    """The text that `parse_args` reads back as `args`.

    >>> format_args(parse_args("f8[3],{'W':[f8[n, 3],None]},(i8,)"))
    "f8[3], {'W': [f8[n,3], None]}, (i8,)"
    """
    return ", ".join(_format(arg) for arg in args)


def annotated_args(fn: Callable[..., Any]) -> tuple[Any, ...]:
    """The argument types that a function's annotations give; trailing defaults are left out.

    >>> def loss(w: "f8[3]", b: float, steps=10): ...
    >>> annotated_args(loss)
    (spec('f8[3]'), spec('float'))
    """
    name = getattr(fn, "__name__", "the function")
    hint = 'give them with --args "f8[3], f8", or annotate: def f(w: "f8[n,3]", b: float)'
    found = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.annotation is parameter.empty:
            if parameter.default is not parameter.empty:
                break
            message = f"The type of {name}'s argument {parameter.name} is unknown."
            raise SpecError(message, hint=hint)
        if parameter.kind == parameter.KEYWORD_ONLY:
            break
        try:
            found.append(annotation_tree(parameter.annotation, names_of(fn)))
        except SpecError as error:
            if parameter.default is not parameter.empty:
                break
            message = f"The annotation of {name}'s argument {parameter.name} gives no type."
            raise SpecError(f"{message} {error.message}", hint=hint) from None
    return tuple(found)


def function_behind(fn: Any) -> Any:
    """The function behind partials, methods, wrappers and objects that can be called.

    >>> function_behind(functools.partial(format_args, ())).__name__
    'format_args'
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    if not hasattr(fn, "__code__"):
        fn = inspect.getattr_static(type(fn), "__call__", fn)
    return getattr(fn, "__func__", fn)


def names_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """The names of the module in which a function is defined; none for a builtin.

    >>> names_of(names_of)["Spec"] is Spec
    True
    """
    found: dict[str, Any] = getattr(function_behind(fn), "__globals__", {})
    return found


def sample_args(
    args: tuple[Any, ...], seed: int = 0, positive: bool = False, factor: float = 1.0
) -> tuple[Any, ...]:
    """Arrays of the types in `args`: the same on every call; each named size is small and its own.

    Floating numbers are multiplied by ``factor``. Values in `args` stay as they are.

    >>> x, y = sample_args(parse_args("f8[n,3], f8[n]"))
    >>> x.shape, y.shape
    ((4, 3), (4,))
    """
    fixed = {dim for s in leaves(args) for dim in s.dims if isinstance(dim, int)}
    names = dict.fromkeys(dim for s in leaves(args) for dim in s.dims if isinstance(dim, str))
    free = (size for size in range(3, 1000) if size not in fixed)
    sizes = {name: next(free) for name in names}
    rng = np.random.default_rng(seed)
    return tuple(map_specs(lambda s: _sample(s, sizes, rng, positive, factor), arg) for arg in args)


def leaves(tree: Any) -> Iterator[Spec]:
    """The specs in a tree of containers, in order.

    >>> list(leaves(parse_args("{'b': f8, 'W': [f8[3], 1]}")))
    [spec('f8'), spec('f8[3]')]
    """
    if isinstance(tree, Spec):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, tuple | list):
        for value in tree:
            yield from leaves(value)
    elif pytrees.is_object(tree):
        for _, value in pytrees.attributes(tree):
            yield from leaves(value)


def map_specs(make: Callable[[Spec], Any], tree: Any) -> Any:
    """The tree with `make(spec)` for each spec.

    >>> map_specs(str, parse_args("f8[3], [i8, None]"))
    ('f8[3]', ['i8', None])
    """
    match tree:
        case Spec():
            return make(tree)
        case dict():
            return {key: map_specs(make, value) for key, value in tree.items()}
        case list():
            return [map_specs(make, value) for value in tree]
        case tuple():
            values = [map_specs(make, value) for value in tree]
            return type(tree)._make(values) if hasattr(tree, "_make") else tuple(values)
    if pytrees.is_object(tree):
        return pytrees.map_object(lambda part: map_specs(make, part), tree)
    return tree


class _TypeReader:
    """A text of types, and the names that it may call; errors point into the text."""

    def __init__(
        self, text: str, space: Mapping[str, Any] | None = None, within: Sequence[type] = ()
    ):
        self.text, self.space, self.within = text.strip(), space or {}, within
        self.before = 0  # columns that are parsed before the text

    def type_(self) -> Any:
        """The tree that the text describes."""
        return self._whole(self._parsed(self.text))

    def arguments(self) -> tuple[Any, ...]:
        """The trees that the text describes, as those of a call."""
        self.before = 2
        match self._parsed(f"_({self.text}\n)"):
            case ast.Call(func=ast.Name(id="_"), args=args, keywords=[]):
                return tuple(map(self._whole, args))
        raise SpecError(f"Cannot read the types {self.text!r}.", hint=_EXAMPLE)

    def _whole(self, node: ast.expr) -> Any:
        """The tree that an expression describes, unless it is nested too deeply."""
        try:
            return self.read(node)
        except RecursionError:
            raise SpecError("The text of a type is nested too deeply.", hint=_EXAMPLE) from None

    def _parsed(self, text: str) -> ast.expr:
        """The expression in a text, or a SpecError."""
        try:
            return ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise SpecError(f"Cannot read the types {self.text!r}.", hint=_EXAMPLE) from None

    def error(self, message: str, node: ast.AST, hint: str = _EXAMPLE) -> SpecError:
        """An error that shows the text, with carets under a node of it."""
        first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
        lines = re.split("\r\n|\r|\n", " " * self.before + self.text)
        line = lines[first - 1].encode()
        start = len(line[: getattr(node, "col_offset", 0)].decode())
        end = len(line[: getattr(node, "end_col_offset", 1) if last == first else None].decode())
        shown = Origin("", first, start, first, end, line.decode(), "").caret()
        return SpecError(f"{message}\n{textwrap.indent(shown, '    ')}", hint=hint)

    def read(self, node: ast.expr) -> Any:
        """The tree that an expression describes; a name is a dtype, a subscript an array."""
        match node:
            case ast.Tuple(elts=elements):
                return tuple(map(self.read, elements))
            case ast.List(elts=elements):
                return list(map(self.read, elements))
            case ast.Dict(keys=keys, values=values):
                return {self._key(key, node): self.read(v) for key, v in zip(keys, values)}
            case ast.Subscript(value=base, slice=ast.Tuple(elts=dims)):
                return self._array(base, tuple(map(self._dim, dims)))
            case ast.Subscript(value=base, slice=dim):
                return self._array(base, (self._dim(dim),))
            case ast.Name(id=name) if name in _PYTHON:
                return Spec(np.dtype(_PYTHON[name]), (), weak=True)
            case ast.Call():
                return self._record(node)
            case ast.Name() | ast.Attribute():
                found = self._found(node)
                if isinstance(found, type) and record_types.is_record(found):
                    return _record_of_annotations(found, self.within)
                return self._array(node, ())
        return self._literal(node)

    def _array(self, base: ast.expr, dims: tuple[int | str, ...]) -> Spec:
        match base:
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name):
                dtype = np.dtype(_PYTHON[name]) if name in _PYTHON else _DTYPES.get(name)
                if dtype is not None:
                    return Spec(dtype, dims)
        raise self.error(f"{ast.unparse(base)!r} is not a dtype.", base, _DTYPE_HINT)

    def _dim(self, node: ast.expr) -> int | str:
        match node:
            case ast.Constant(value=int(size)) if not isinstance(size, bool):
                return size
            case ast.Name(id=name):
                return name
        hint = "a dim is a number or a name, as in f8[n,3]"
        raise self.error(f"{ast.unparse(node)!r} is not a dim.", node, hint)

    def _key(self, node: ast.expr | None, of: ast.Dict) -> Any:
        """The key of a dict, which must be hashable."""
        if node is None:
            raise self.error("A dict of types is written out, without **.", of)
        key = self._literal(node)
        try:
            hash(key)
        except TypeError:
            raise self.error(f"{ast.unparse(node)!r} cannot be a key of a dict.", node) from None
        return key

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, MemoryError):
            message = f"{ast.unparse(node)!r} is neither a type nor a literal."
            raise self.error(message, node) from None

    def _found(self, node: ast.expr) -> Any:
        """The object of the user's module that a name, dotted or not, stands for; else None."""
        match node:
            case ast.Name(id=name):
                return self.space.get(name)
            case ast.Attribute(value=base, attr=name):
                owner = self._found(base)
                return getattr(owner, name, None) if isinstance(owner, ModuleType | type) else None
        return None

    def _record(self, node: ast.Call) -> Any:
        """The instance of a dataclass or named tuple that a call describes."""
        cls = self._found(node.func)
        if cls is None:
            known = [name for name, value in self.space.items() if record_types.is_record(value)]
            named = f"the module's are {', '.join(known)}" if known else "the module has none"
            message = f"{ast.unparse(node.func)!r} is no dataclass and no named tuple; {named}."
            raise self.error(message, node.func)
        if not record_types.is_record(cls):
            message = f"{ast.unparse(node.func)!r} is no dataclass and no named tuple."
            raise self.error(message, node.func)
        values = {}
        for name, given in self._given(node, cls):
            values[name] = self.read(given)
            if record_types.fields_of(cls)[name].is_static and any(leaves(values[name])):
                message = f"{cls.__name__}.{name} is static: write its value, not its type."
                raise self.error(message, given, record_types.written_out(cls))
        try:
            return record_types.instance_of(cls, values, any(leaves(values)))
        except record_types.UnfitRecord as error:
            raise self.error(str(error), node, record_types.written_out(cls)) from None

    def _given(self, node: ast.Call, cls: type) -> Iterator[tuple[str, ast.expr]]:
        """The fields of a class that a call gives, by position or by name."""
        fields = record_types.fields_of(cls)
        places = [field.name for field in fields.values() if field.has_position]
        hint = record_types.written_out(cls)
        if len(node.args) > len(places):
            message = f"{cls.__name__} takes {len(places)} fields by position at most."
            raise self.error(message, node.args[len(places)], hint)
        yield from zip(places, node.args)
        seen = set(places[: len(node.args)])
        for keyword in node.keywords:
            name = keyword.arg
            if name is None:
                raise self.error("Fields are written out, without **.", keyword.value, hint)
            if name not in fields or not fields[name].is_taken:
                raise self.error(record_types.unknown_field(cls, name), keyword, hint)
            if name in seen:
                raise self.error(f"{cls.__name__} is given {name} twice.", keyword, hint)
            seen.add(name)
            yield name, keyword.value


def annotation_tree(annotation: Any, space: Mapping[str, Any], within: Sequence[type] = ()) -> Any:
    """The tree of specs that an annotation gives, or a SpecError.

    ``space``: the names of the module where it stands; ``within``: the classes around it.

    >>> annotation_tree("f8[3]", {}), annotation_tree(float, {})
    (spec('f8[3]'), spec('float'))
    """
    if isinstance(annotation, str):
        found = _TypeReader(annotation, space, within).type_()
        # Under `from __future__ import annotations`, "f8[3]" arrives with its quotes.
        return annotation_tree(found, space, within) if isinstance(found, str) else found
    if isinstance(annotation, Spec | dict | list | tuple):
        return annotation
    if isinstance(annotation, type):
        if annotation.__name__ in _PYTHON and annotation.__module__ == "builtins":
            return spec(annotation.__name__)
        if issubclass(annotation, np.generic) and annotation.__name__ in _DTYPES:
            return Spec(np.dtype(annotation))
        if record_types.is_record(annotation):
            return _record_of_annotations(annotation, within)
    shown = getattr(annotation, "__name__", repr(annotation))
    raise SpecError(f"{shown} says nothing about dtype and shape.")


def _record_of_annotations(cls: type, within: Sequence[type] = ()) -> Any:
    """An instance whose fields are of the types that their annotations say; else of defaults."""
    if cls in within:
        raise SpecError(f"{cls.__name__} holds itself.")
    values = {}
    for field in record_types.fields_of(cls).values():
        if field.is_static or not field.is_taken:
            continue
        try:
            around = record_types.names_around(cls)
            values[field.name] = annotation_tree(field.annotation, around, (*within, cls))
        except SpecError as error:
            if not field.has_default:
                message = f"{cls.__name__}.{field.name}: {error.message}"
                raise SpecError(message, hint=record_types.written_out(cls)) from None
    try:
        return record_types.instance_of(cls, values, has_types=True)
    except record_types.UnfitRecord as error:
        raise SpecError(str(error), hint=record_types.written_out(cls)) from None


def _format(tree: Any) -> str:
    match tree:
        case dict():
            inside = ", ".join(f"{key!r}: {_format(value)}" for key, value in tree.items())
            return "{" + inside + "}"
        case list():
            return "[" + ", ".join(map(_format, tree)) + "]"
        case Spec():
            return str(tree)
        case _ if record_types.is_record(type(tree)):
            taken = [f.name for f in record_types.fields_of(type(tree)).values() if f.is_taken]
            inside = ", ".join(f"{name}={_format(getattr(tree, name))}" for name in taken)
            return f"{type(tree).__qualname__}({inside})"
        case tuple():
            return "(" + ", ".join(map(_format, tree)) + ("," if len(tree) == 1 else "") + ")"
    return repr(tree)


def _sample(
    s: Spec, sizes: dict[str, int], rng: np.random.Generator, positive: bool, factor: float
) -> Any:
    """A random array or scalar of a type; integers stay small enough to be indices."""
    shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in s.dims)
    value: Any
    match s.dtype.kind:
        case "b":
            value = np.asarray(rng.integers(0, 2, shape) > 0)
        case "i" | "u":
            value = np.asarray(rng.integers(1, 3, shape))
        case "c":
            value = factor * np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))
        case _:
            value = rng.uniform(0.2, 0.9, shape) if positive else rng.normal(size=shape)
            value = factor * np.asarray(value)
    if s.weak:
        return value.item()
    return value.astype(s.dtype) if s.dims else s.dtype.type(value[()])
