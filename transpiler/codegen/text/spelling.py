"""Templates, numbers and indices as syntax trees.

A primitive's template is text with slots, ``{0} @ {1}``. It is parsed once and filled with trees,
so that only the printer deals with precedence::

    fill("{0} ** {1}", [name("x"), literal(2)])  ->  the tree of  x ** 2
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import gast
import numpy as np

from calque.transpiler.ir.core import Atom, Var
from calque.transpiler.ir.types import ArrayType, promote, type_of_constant

_SLOT = re.compile(r"\{(\d+)\}")
_PLACE = re.compile(r"place_(\d+)_$")
_KNOWN_FLOATS = {np.pi: "pi", np.e: "e", np.inf: "inf"}


_LOAD, _STORE = gast.Load(), gast.Store()


def _node(kind: Any, /, **fields: Any) -> Any:
    """A node with all its fields; its ``__init__`` would set one by one."""
    made = kind.__new__(kind)
    made.__dict__.update(fields)
    return made


def name(identifier: str, shows: Var | None = None) -> gast.Name:
    """The tree of a name that is read; it ``shows`` a value, as others may share the name."""
    return _node(
        gast.Name, id=identifier, ctx=_LOAD, annotation=None, type_comment=None, shows=shows
    )


def constant(value: Any) -> gast.Constant:
    """The tree of a constant."""
    return _node(gast.Constant, value=value, kind=None)


def attribute(value: gast.AST, field: str) -> gast.Attribute:
    """``value.field``."""
    return _node(gast.Attribute, value=value, attr=field, ctx=_LOAD)


def call(function: gast.AST, *args: gast.AST) -> gast.Call:
    """``function(*args)``."""
    return _node(gast.Call, func=function, args=list(args), keywords=[])


@lru_cache(maxsize=4096)
def parsed(text: str) -> gast.AST:
    """The one statement of a text; its slots are names to be replaced."""
    return gast.parse(_SLOT.sub(r"place_\1_", text)).body[0]


Maker = Callable[[Sequence[gast.AST]], Any]


def _maker(tree: Any) -> Maker:
    """A function that copies a template's tree with given trees in its slots."""
    if isinstance(tree, gast.Name):
        return _name_maker(tree)
    if isinstance(tree, list):
        items = [_maker(item) for item in tree]
        return lambda trees: [make(trees) for make in items]
    if not isinstance(tree, gast.AST) or not tree._fields:
        return lambda trees: tree
    kind: Any = type(tree)
    parts = {field: getattr(tree, field, None) for field in tree._fields}
    nodes = [(f, _maker(p)) for f, p in parts.items() if isinstance(p, list) or _has_fields(p)]
    plain = {f: p for f, p in parts.items() if f not in dict(nodes)}

    def make(trees: Sequence[gast.AST]) -> gast.AST:
        made = kind.__new__(kind)  # its __init__ sets field by field
        fields = made.__dict__
        fields.update(plain)
        for field, part in nodes:
            fields[field] = part(trees)
        return made

    return make


def _has_fields(tree: Any) -> bool:
    return isinstance(tree, gast.AST) and bool(tree._fields)


def _name_maker(found: gast.Name) -> Maker:
    place = _PLACE.match(found.id)
    if place:
        k = int(place.group(1))
        if isinstance(found.ctx, gast.Store):
            return lambda trees: target(trees[k])
        return lambda trees: trees[k]
    if found.id in ("nan", "inf"):
        return lambda trees: attribute(name("np"), found.id)
    fields = {"id": found.id, "ctx": found.ctx, "annotation": None, "type_comment": None}
    return lambda trees: _node(gast.Name, **fields)


@lru_cache(maxsize=4096)
def _filler(text: str) -> Maker:
    return _maker(parsed(text))


def fill(text: str, trees: Sequence[gast.AST]) -> Any:
    """The statement of a template, with trees in its slots."""
    return _filler(text)(trees)


def fill_expression(text: str, trees: Sequence[gast.AST]) -> Any:
    """The expression of a template, with trees in its slots."""
    return fill(text, trees).value


def template(primitive: Any, args: Sequence[Atom], params: dict[str, Any]) -> str:
    """A primitive's text for these arguments."""
    spelling = primitive.spelling
    return spelling if isinstance(spelling, str) else spelling(args, params)


def target(tree: Any) -> Any:
    """The tree as an assignment target."""
    if isinstance(tree, gast.Name):
        made = name(tree.id, getattr(tree, "shows", None))
        made.ctx = _STORE
        return made
    if isinstance(tree, gast.Subscript):
        return gast.Subscript(tree.value, tree.slice, gast.Store())
    return tree


def _float(value: float) -> gast.AST:
    if value != value:
        return attribute(name("np"), "nan")
    known = _KNOWN_FLOATS.get(abs(value))
    tree: gast.AST = attribute(name("np"), known) if known else constant(abs(value))
    return _negated(tree) if np.signbit(value) else tree


def _negated(tree: gast.AST) -> gast.AST:
    return gast.UnaryOp(gast.USub(), tree)


def _complex(value: complex) -> gast.AST:
    finite = np.isfinite(value.real) and np.isfinite(value.imag)
    if not finite or np.signbit(value.real) or (value.real == 0.0 and np.signbit(value.imag)):
        return call(name("complex"), _float(value.real), _float(value.imag))
    imaginary: gast.AST = constant(complex(0.0, abs(value.imag)))
    if value.real == 0.0:
        return imaginary
    sign = gast.Sub() if np.signbit(value.imag) else gast.Add()
    return gast.BinOp(constant(value.real), sign, imaginary)


def plain(value: Any) -> gast.AST:
    """The tree of a Python number, None or a string."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, bytes)):
        return constant(value)
    if isinstance(value, int):
        return constant(value) if value >= 0 else _negated(constant(-value))
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, complex):
        return _complex(value)
    return parsed(repr(value)).value


def dtype_name(dtype: np.dtype) -> str:
    """The name of a dtype in ``np``: ``float32``, ``bool_``."""
    return "bool_" if dtype == np.dtype(bool) else dtype.name


def literal(value: Any, others: Sequence[Atom] = (), narrow: bool = False) -> gast.AST:
    """The tree of a known value among the other operands of its operation.

    A NumPy scalar is written as a plain number if promotion is the same: not if all others are
    Python numbers, and the result may meet ``narrow`` dtypes later.
    """
    if isinstance(value, np.ndarray):
        tree = fill_expression(f"np.array({value.tolist()!r})", [])
        if np.array(value.tolist()).dtype != value.dtype:
            kind = attribute(name("np"), dtype_name(value.dtype))
            tree.keywords.append(gast.keyword("dtype", kind))
        return tree
    if not isinstance(value, np.generic):
        return plain(value)
    number = value.item()
    types = [o.type if isinstance(o, Var) else type_of_constant(o) for o in others]
    own = ArrayType(value.dtype)
    alone = narrow and all(t.weak for t in types)
    if not alone and _same_promotion(own, type_of_constant(number), types):
        kept = promote([own, *types])[0] == value.dtype
        return plain(shortest(value) if kept else number)
    return call(attribute(name("np"), dtype_name(value.dtype)), plain(shortest(value)))


def shortest(value: np.generic) -> Any:
    """A NumPy scalar as a Python number, with no more digits than its own dtype needs.

    >>> shortest(np.float32(0.1)), shortest(np.int8(3))
    (0.1, 3)
    """
    exact = value.item()
    short = float(str(value)) if value.dtype.kind == "f" else exact
    return short if value.dtype.type(short) == value else exact


def _same_promotion(strong: ArrayType, weak: ArrayType, others: Sequence[ArrayType]) -> bool:
    if not any(not t.weak for t in others):
        return strong.dtype == weak.dtype
    try:
        return promote([strong, *others])[0] == promote([weak, *others])[0]
    except (OverflowError, TypeError):
        return False


def without_quotes(tree: gast.AST) -> gast.AST:
    """The tree with ``'...'.format(...)`` for f-strings that hold strings, before Python 3.12."""
    for node in gast.walk(tree):
        for field, value in gast.iter_fields(node):
            if isinstance(value, gast.JoinedStr) and field != "format_spec":
                setattr(node, field, _formatted(value))
            elif isinstance(value, list):
                value[:] = [_formatted(v) if isinstance(v, gast.JoinedStr) else v for v in value]
    return tree


def _formatted(joined: gast.JoinedStr) -> gast.AST:
    values = [part for part in joined.values if isinstance(part, gast.FormattedValue)]
    texts = [n for v in values for n in gast.walk(v.value) if isinstance(n, gast.Constant)]
    if not any(isinstance(n.value, str) for n in texts):
        return joined
    pattern = ""
    for part in joined.values:
        if isinstance(part, gast.FormattedValue):
            conversion = f"!{chr(part.conversion)}" if part.conversion >= 0 else ""
            spec = (
                "".join(str(p.value) for p in part.format_spec.values) if part.format_spec else ""
            )
            pattern += "{" + conversion + (f":{spec}" if spec else "") + "}"
        else:
            pattern += part.value.replace("{", "{{").replace("}", "}}")
    return call(attribute(constant(pattern), "format"), *[v.value for v in values])
