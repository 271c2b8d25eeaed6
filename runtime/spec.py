"""Types written as text, in the place of arrays where only dtype and shape matter.

`f8[n,3]` is a float64 array with n rows and 3 columns, `f8` a float64 scalar, `float` a Python
float. A list of arguments is written as Python would write it, with specs for leaves::

    f8[3], {'W': f8[3], 'b': f8}, 10

Anything else in it (10 above) is a value: an argument that is known when the source is written.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from calque.runtime.fitting import shown
from calque.transpiler.errors import SpecError
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine

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
    found = _read(_parse(text), text)
    if not isinstance(found, Spec):
        raise SpecError(f"{text!r} is not the type of one array.", hint='write it as "f8[n,3]"')
    return found


@builtin(spec)
def _spec(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return spec(*args, **kwargs)


def parse_args(text: str) -> tuple[Any, ...]:
    """The arguments that `text` describes: pytrees with a `Spec` for each array.

    >>> parse_args("f8[3], {'W': f8[n,3], 'b': float}, 2")
    (spec('f8[3]'), {'W': spec('f8[n,3]'), 'b': spec('float')}, 2)
    >>> parse_args("")
    ()
    """
    if not text.strip():
        return ()
    node = _parse(f"({text.strip().rstrip(',')},)", text)
    if not isinstance(node, ast.Tuple):
        raise SpecError(f"Cannot read the types {text!r}.", hint=_EXAMPLE)
    return tuple(_read(element, text) for element in node.elts)


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
            found.append(_annotation(parameter.annotation))
        except SpecError as error:
            if parameter.default is not parameter.empty:
                break
            message = f"The annotation of {name}'s argument {parameter.name} gives no type."
            raise SpecError(f"{message} {error.message}", hint=hint) from None
    return tuple(found)


def sample_args(args: tuple[Any, ...], seed: int = 0, positive: bool = False) -> tuple[Any, ...]:
    """Arrays of the types in `args`: the same on every call; each named size is small and its own.

    >>> x, y = sample_args(parse_args("f8[n,3], f8[n]"))
    >>> x.shape, y.shape
    ((4, 3), (4,))
    """
    fixed = {dim for s in leaves(args) for dim in s.dims if isinstance(dim, int)}
    names = dict.fromkeys(dim for s in leaves(args) for dim in s.dims if isinstance(dim, str))
    free = (size for size in range(3, 1000) if size not in fixed)
    sizes = {name: next(free) for name in names}
    rng = np.random.default_rng(seed)
    return tuple(map_specs(lambda s: _sample(s, sizes, rng, positive), arg) for arg in args)


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
            return tuple(map_specs(make, value) for value in tree)
    return tree


def _parse(text: str, shown: str | None = None) -> ast.expr:
    """The expression in `text`, or a SpecError."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        message = f"Cannot read the types {shown or text!r}."
        raise SpecError(message, hint=_EXAMPLE) from None


def _read(node: ast.expr, text: str) -> Any:
    """The tree that an expression describes; a name is a dtype, a subscript an array."""
    match node:
        case ast.Tuple(elts=elements):
            return tuple(_read(element, text) for element in elements)
        case ast.List(elts=elements):
            return [_read(element, text) for element in elements]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {_literal(k, text): _read(v, text) for k, v in zip(keys, values)}
        case ast.Subscript(value=base, slice=ast.Tuple(elts=dims)):
            return _array(base, tuple(_dim(dim, text) for dim in dims), text)
        case ast.Subscript(value=base, slice=dim):
            return _array(base, (_dim(dim, text),), text)
        case ast.Name(id=name) if name in _PYTHON:
            return Spec(np.dtype(_PYTHON[name]), (), weak=True)
        case ast.Name() | ast.Attribute():
            return _array(node, (), text)
    return _literal(node, text)


def _array(base: ast.expr, dims: tuple[int | str, ...], text: str) -> Spec:
    match base:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name):
            dtype = np.dtype(_PYTHON[name]) if name in _PYTHON else _DTYPES.get(name)
            if dtype is not None:
                return Spec(dtype, dims)
    hint = "dtypes are f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16, or NumPy's long names"
    raise SpecError(f"{ast.unparse(base)!r} in {text!r} is not a dtype.", hint=hint)


def _dim(node: ast.expr, text: str) -> int | str:
    match node:
        case ast.Constant(value=int(size)) if not isinstance(size, bool):
            return size
        case ast.Name(id=name):
            return name
    hint = "a dim is a number or a name, as in f8[n,3]"
    raise SpecError(f"{ast.unparse(node)!r} in {text!r} is not a dim.", hint=hint)


def _literal(node: ast.expr | None, text: str) -> Any:
    try:
        return ast.literal_eval(node)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        shown = ast.unparse(node) if node is not None else "**"
        message = f"{shown!r} in {text!r} is neither a type nor a literal."
        raise SpecError(message, hint=_EXAMPLE) from None


def _annotation(annotation: Any) -> Any:
    """The tree of specs that an annotation gives, or a SpecError."""
    if isinstance(annotation, str):
        found = _read(_parse(annotation), annotation)
        # Under `from __future__ import annotations`, "f8[3]" arrives with its quotes.
        return _annotation(found) if isinstance(found, str) else found
    if isinstance(annotation, Spec | dict | list | tuple):
        return annotation
    if isinstance(annotation, type):
        if annotation.__name__ in _PYTHON and annotation.__module__ == "builtins":
            return spec(annotation.__name__)
        if issubclass(annotation, np.generic) and annotation.__name__ in _DTYPES:
            return Spec(np.dtype(annotation))
    shown = getattr(annotation, "__name__", repr(annotation))
    raise SpecError(f"{shown} says nothing about dtype and shape.")


def _format(tree: Any) -> str:
    match tree:
        case dict():
            inside = ", ".join(f"{key!r}: {_format(value)}" for key, value in tree.items())
            return "{" + inside + "}"
        case list():
            return "[" + ", ".join(map(_format, tree)) + "]"
        case tuple():
            return "(" + ", ".join(map(_format, tree)) + ("," if len(tree) == 1 else "") + ")"
        case Spec():
            return str(tree)
    return repr(tree)


def _sample(s: Spec, sizes: dict[str, int], rng: np.random.Generator, positive: bool) -> Any:
    """A random array or scalar of a type; integers stay small enough to be indices."""
    shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in s.dims)
    match s.dtype.kind:
        case "b":
            value = np.asarray(rng.integers(0, 2, shape) > 0)
        case "i" | "u":
            value = np.asarray(rng.integers(1, 3, shape))
        case "c":
            value = np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))
        case _:
            value = np.asarray(rng.uniform(0.2, 0.9, shape) if positive else rng.normal(size=shape))
    if s.weak:
        return value.item()
    return value.astype(s.dtype) if s.dims else s.dtype.type(value[()])
