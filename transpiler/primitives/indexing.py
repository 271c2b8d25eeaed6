"""Reading and storing by index: ``getitem``, ``update``, ``update_add``, ``add_at``.

A store gives the next version of its array; an index into a row is one into the whole array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import DtypeError, ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, atom, current, type_of, wrap
from calque.transpiler.ir.core import Slot, Var
from calque.transpiler.ir.types import INT, ArrayType
from calque.transpiler.primitives import guards
from calque.transpiler.primitives.base import (
    Primitive,
    apply,
    as_array,
    definition,
    implements,
    operand,
    register,
    strong,
)
from calque.transpiler.primitives.elementwise import cast
from calque.transpiler.primitives.record import Scatter
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.stored_numbers import fits, taken
from calque.transpiler.primitives.templates import (
    Template,
    concrete_index,
    index_text,
    indexed,
    indexed_dims,
    is_basic,
    is_unique,
    shifted,
)


def _infer_getitem(x: Any, *dynamic: Any, index: Template) -> ArrayType:
    return ArrayType(type_of(x).dtype, tuple(indexed_dims(x.dims, index, dynamic)))


def _getitem_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    _, *dynamic = args
    y_bar, index = cotangents[0], params["index"]

    def add(x_bar: Array) -> None:
        zeroed = _zeroed_there(x_bar, dynamic, index)
        if zeroed is not None and _stands_there(y_bar, zeroed, dynamic, index):
            x_bar.replace(zeroed)
        elif zeroed is not None:
            x_bar.replace(apply(update, zeroed, y_bar, *dynamic, index=index))
        elif is_basic(index, dynamic) or is_unique(index, dynamic):
            x_bar.replace(apply(update_add, x_bar, y_bar, *dynamic, index=index))
        else:
            x_bar.replace(apply(add_at, x_bar, y_bar, *dynamic, index=index))

    return (Scatter(add),) + (None,) * len(dynamic)


def _zeroed_there(x_bar: Array, dynamic: Sequence[Any], index: Template) -> Array | None:
    """The adjoint before its part at this index was set to 0, if that store came last."""
    made = definition(x_bar)
    if made is None or made.primitive is not update or not is_basic(index, dynamic):
        return None
    base, value, *places = made.args
    same = made.params["index"] == index and places == [atom(d) for d in dynamic]
    if not same or isinstance(value, Var) or value != 0.0:
        return None
    here = made in current().blocks[-1].statements  # else the other arm of a branch needs it
    return wrap(base) if here else None


def _stands_there(y_bar: Any, x_bar: Array, dynamic: Sequence[Any], index: Template) -> bool:
    """True if an adjoint is what already stands at this index: ``x[i] = x[i] + y`` leaves it."""
    made = definition(y_bar) if isinstance(y_bar, Array) else None
    if made is not None and made.primitive is copy:
        made = definition(wrap(made.args[0]))
    if made is None or made.primitive is not getitem or made.params["index"] != index:
        return False
    return tuple(made.args) == (x_bar.atom, *map(atom, dynamic))


def _getitem_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return (apply(getitem, as_array(tangents[0]), *args[1:], **params),)


def _shows(x: Any, index: Template, dynamic: Sequence[Any]) -> bool:
    """True if an index gives a view; one that names a single element does so with ``...`` only."""
    if not is_basic(index, dynamic):
        return False
    named = sum(isinstance(t, (int, Slot)) for t in index)
    return named < type_of(x).ndim or None in index or any(t is Ellipsis for t in index)


def _getitem_back(base: Array, new: Array, *dynamic: Any, index: Template) -> Array:
    return apply(update, base, new, *dynamic, index=index)


_ROWS, _MASK = np.array([0, 2, 0]), np.array([True, False, True])


def _getitem_samples() -> Any:
    every, first = slice(None), Slot(0)
    return cases(
        case((3, 4), index=(1,)),
        case((3, 4), index=(every, -1)),
        case((3, 4), index=(slice(1, None), slice(None, None, -2))),
        case((4,), index=(slice(0, 0),)),
        case((3, 4), index=(None, Ellipsis, 2)),
        case((3, 4), 2, index=(first,)),
        case((3, 4), _ROWS, index=(first,)),
        case((2, 3, 4), _ROWS, np.array([[1], [3]]), index=(every, first, Slot(1))),
        case((3, 2, 4), _ROWS, np.array([3, 3, 1]), index=(first, every, Slot(1))),
        case((3, 2, 3), _ROWS, index=(first, every, 1)),
        case((3, 4), _MASK, index=(first,)),
        case((2, 3), np.array([[True, False, True], [False, False, True]]), index=(first,)),
        case((2, 0), index=(1,)),
        case(single(3, 4), _ROWS, index=(every, first)),
    )


def _store_samples() -> Any:
    first = Slot(0)
    return cases(
        case((3, 4), (4,), index=(1,)),
        case((3, 4), (), index=(slice(None), -1)),
        case((3, 4), (2, 4), index=(slice(1, None),)),
        case((3, 4), (), 2, 1, index=(first, Slot(1))),
        case((3, 4), (2, 4), np.array([2, 0]), index=(first,)),
        case((3, 4), (4,), _MASK, index=(first,)),
        case((3, 4), 1.5, index=(Ellipsis,)),
        case(single(3), single(), index=(0,)),
        case((2, 0), (0,), index=(0,)),
    )


def _indexed(x: Any, index: Template) -> str:
    """An element, or a view; a number that gets axes may be Python's where the program runs."""
    whole = "np.asarray({0})" if None in index and not type_of(x).ndim else "{0}"
    return f"{whole}[{index_text(index, 1)}]"


getitem = register(
    Primitive(
        "getitem",
        lambda x, *dynamic, index: x[concrete_index(index, dynamic)],
        _infer_getitem,
        lambda args, params: _indexed(args[0], params["index"]),
        kind="indexing",
        jvp=_getitem_jvp,
        vjp=_getitem_vjp,
        linear_in=(0,),
        view_back=_getitem_back,
        copies=lambda x, *dynamic, index: not _shows(x, index, dynamic),
        cheap=True,
        samples=_getitem_samples(),
        first_index=1,
        moves=True,
    )
)


def _infer_update(x: Any, value: Any, *dynamic: Any, index: Template) -> ArrayType:
    target = indexed_dims(x.dims, index, dynamic)
    value_dims = type_of(value).dims
    if len(value_dims) > len(target):
        extra = value_dims[: len(value_dims) - len(target)]
        if any(d != 1 for d in extra):
            raise ShapeError(
                f"cannot store an array of {len(value_dims)} dimensions into {len(target)}"
            )
        value_dims = value_dims[len(extra) :]
    for have, want in zip(reversed(value_dims), reversed(target), strict=False):
        if have != 1:
            current().unify(have, want)
    return x.type


def _concrete_update(x: Any, value: Any, *dynamic: Any, index: Template) -> Any:
    x = np.array(x)
    x[concrete_index(index, dynamic)] = value
    return x


def _concrete_update_add(x: Any, value: Any, *dynamic: Any, index: Template) -> Any:
    x = np.array(x)
    x[concrete_index(index, dynamic)] += value
    return x


def _concrete_add_at(x: Any, value: Any, *dynamic: Any, index: Template) -> Any:
    x = np.array(x)
    np.add.at(x, concrete_index(index, dynamic), value)
    return x


def _update_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    x_dot, value_dot = tangents[:2]
    x_dot = np.zeros_like(args[0]) if x_dot is None else x_dot
    value_dot = 0.0 if value_dot is None else value_dot
    return (apply(update, x_dot, value_dot, *args[2:], **params),)


def _update_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    y_bar, (_, value, *dynamic), index = cotangents[0], args, params["index"]
    value_bar = None
    if isinstance(value, Array):
        value_bar = apply(getitem, y_bar, *dynamic, index=index)
        if not is_basic(index, dynamic) and not is_unique(index, dynamic):
            value_bar = _last_writer(y_bar, value_bar, dynamic, index)
        elif value_bar.ndim:
            value_bar = Array(apply(copy, value_bar).atom)
    x_bar = apply(update, y_bar, 0.0, *dynamic, index=index)
    return (x_bar, value_bar) + (None,) * len(dynamic)


def _last_writer(y_bar: Array, value_bar: Array, dynamic: Sequence[Any], index: Template) -> Array:
    """The cotangent of a stored value: of stores into the same element only the last counts."""
    order = FUNCTIONS[np.arange](value_bar.size).reshape(value_bar.shape)
    writer = FUNCTIONS[np.empty](y_bar.shape, dtype=int)  # what is read of it has been stored
    writer = apply(update, writer, order, *dynamic, index=index)
    counts = apply(getitem, writer, *dynamic, index=index) == order
    return FUNCTIONS[np.where](counts, value_bar, 0.0)


def _store_without_dims(added: bool) -> Any:
    """Return the simplification of a store into an array without dims: its next value, a number."""

    def simplify(builder: Any, args: Sequence[Any], params: dict[str, Any]) -> Array | None:
        x, value, *dynamic = args
        if type_of(x).ndim or not is_basic(params["index"], dynamic):
            return None
        _infer_update(x, value, *dynamic, index=params["index"])
        value = FUNCTIONS[np.reshape](value, ()) if type_of(value).ndim else value
        dtype = type_of(x).dtype
        return as_array(cast(x + value if added else value, dtype))

    return simplify


def _store_spelling(sign: str) -> Any:
    def spell(args: Sequence[Any], params: dict[str, Any]) -> str:
        return "{0}[" + index_text(params["index"], 2) + "] " + sign + " {1}"

    return spell


update = register(
    Primitive(
        "update",
        _concrete_update,
        _infer_update,
        _store_spelling("="),
        kind="store",
        simplify=_store_without_dims(False),
        jvp=_update_jvp,
        vjp=_update_vjp,
        linear_in=(0, 1),
        samples=_store_samples(),
        first_index=2,
        suffix="new",
    )
)


def _update_add_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    x_dot, value_dot = tangents[:2]
    if value_dot is None:
        return (x_dot,)
    x_dot = np.zeros_like(args[0]) if x_dot is None else x_dot
    primitive = add_at if params.get("at") else update_add
    return (apply(primitive, x_dot, value_dot, *args[2:], index=params["index"]),)


def _update_add_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    y_bar, (_, value, *dynamic) = cotangents[0], args
    value_bar = None
    if isinstance(value, Array):
        value_bar = apply(getitem, y_bar, *dynamic, index=params["index"])
    return (y_bar, value_bar) + (None,) * len(dynamic)


update_add = register(
    Primitive(
        "update_add",
        _concrete_update_add,
        _infer_update,
        _store_spelling("+="),
        kind="store",
        simplify=_store_without_dims(True),
        jvp=_update_add_jvp,
        vjp=_update_add_vjp,
        linear_in=(0, 1),
        samples=_store_samples(),
        first_index=2,
        adds=True,
        suffix="new",
    )
)


def _add_at_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    return _update_add_jvp(tangents, outs, args, {**params, "at": True})


def _add_at_spelling(args: Sequence[Any], params: dict[str, Any]) -> str:
    parts = [_tuple_item(t) for t in params["index"]]
    index = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return "np.add.at({0}, " + index + ", {1})"


def _tuple_item(item: Any) -> str:
    if isinstance(item, slice):
        text = index_text((item,), 2)
        if text == ":":
            return "slice(None)"
        parts = [p or "None" for p in text.split(":")]
        return f"slice({', '.join(parts)})"
    return index_text((item,), 2)


add_at = register(
    Primitive(
        "add_at",
        _concrete_add_at,
        _infer_update,
        _add_at_spelling,
        kind="store",
        jvp=_add_at_jvp,
        vjp=_update_add_vjp,
        linear_in=(0, 1),
        samples=_store_samples(),
        first_index=2,
        adds=True,
        repeats=True,
        suffix="new",
    )
)


def _checked_index(index: Any, size: Any) -> Any:
    if not np.all((-size <= index) & (index < size)):
        raise IndexError("index is out of bounds")
    return np.where(index < 0, index + size, index) if np.ndim(index) else index % size


checked_index = register(
    Primitive(
        "checked_index",
        _checked_index,
        lambda index, size: type_of(index) if type_of(index).ndim else INT,
        "checked_index({0}, {1})",
        nondifferentiable=True,
        samples=cases(case(2, 5), case(-1, 5), case(0, 1)),
        arithmetic="index",
        suffix="checked",
    )
)


copy = register(
    Primitive(
        "copy",
        lambda x, order="C": np.copy(x, order),
        lambda x, order="C": x.type,
        lambda args, params: "np.copy({0})" if params.get("order") == "K" else "{0}.copy()",
        kind="linear",
        jvp=lambda tangents, outs, args, params: tangents,
        vjp=lambda cotangents, outs, args, params: cotangents,
        linear_in=(0,),
        samples=cases(case((3, 4)), case(()), case(single(2))),
        arithmetic="same",
        moves=True,
        guard=guards.of_first,
        suffix="copy",
    )
)


def through(x: Any, template: Template, dynamic: list[Any]) -> tuple[Any, Template, list[Any]]:
    """An index into a view ``A[i]`` or ``A[:, j]`` as one into ``A``: what to index, and how.

    Only where integers and whole axes were taken: then no bound of the view is lost.
    """
    while (how := _indexed_view(x)) is not None and is_basic(template, dynamic):
        base, outer, given = how
        if any(t is None for t in template):
            break
        rest = list(template)
        if Ellipsis in rest:
            at = rest.index(Ellipsis)
            missing = x.ndim - (len(rest) - 1)
            rest[at : at + 1] = [slice(None)] * missing
        dynamic = given + dynamic
        moved = iter([shifted(t, len(given)) for t in rest])
        joined = [next(moved, slice(None)) if isinstance(t, slice) else t for t in outer]
        joined += list(moved)
        while len(joined) > 1 and joined[-1] == slice(None):
            joined.pop()
        x, template = base, tuple(joined)
    return x, template, dynamic


def _indexed_view(x: Any) -> tuple[Array, Template, list[Any]] | None:
    """Base, template and dynamic arguments of a view made by integers and whole axes."""
    if not isinstance(x, Array) or x.how is None or x.how[1] is not getitem:
        return None
    base, _, rest, params = x.how
    index = params["index"]
    plain = all(isinstance(t, (int, Slot)) or t == slice(None) for t in index)
    return (base, index, [wrap(a) for a in rest]) if plain else None


@implements(op="getitem")
def read(x: Any, index: Any) -> Any:
    """``x[index]``."""
    x, template, dynamic = indexed(x, index)
    if type_of(x).ndim == 0 and all(t is Ellipsis for t in template):
        return _without_dims(x, bool(template))
    x, template, dynamic = through(x, template, dynamic)
    return apply(getitem, x, *dynamic, index=template)


def _without_dims(x: Any, array: bool) -> Any:
    """``x[...]``, an array, the same one if ``x`` is an array; ``x[()]``, a number."""
    if not isinstance(x, Array) or x.is_buffer == array:
        return x
    result = Array(x.atom)
    result.is_buffer = array
    return result


@implements(op="setitem")
def store(x: Array, index: Any, value: Any) -> None:
    """``x[index] = value``: the cell's next version; the value takes the array's dtype."""
    value = operand(value)
    _check_store_dtype(x, value)
    x, template, dynamic = indexed(x, index)
    whole = all(t is Ellipsis or t == slice(None) for t in template)
    whole = whole and isinstance(value, Array) and not value.type.weak
    if whole and value.dims == x.dims and value.dtype == x.dtype:
        fresh = definition(value)
        if fresh is not None and fresh.primitive.kind not in ("indexing", "view"):
            x.replace(Array(value.atom))
            return
    if isinstance(value, Array) and value.dtype != x.dtype:
        value = taken(value, x.dtype, is_basic(template, dynamic))
        value = value if value.dtype == x.dtype else cast(value, x.dtype)
    x, template, dynamic = through(x, template, dynamic)
    x.replace(apply(update, x, value, *dynamic, index=template))


def _check_store_dtype(x: Array, value: Any) -> None:
    have, want = type_of(value).dtype, x.dtype
    if have.kind == "c" and want.kind != "c":
        raise DtypeError(f"A complex value is stored into an array of {want}.", current().origin)


def store_add(x: Array, index: Any, value: Any, negative: bool = False) -> bool:
    """``x[index] += value`` as one addition, where the index names no element twice."""
    value = operand(value)
    x, template, dynamic = indexed(x, index)
    if not is_basic(template, dynamic) and not is_unique(template, dynamic):
        return False
    if not np.can_cast(type_of(value).dtype, x.dtype, "same_kind") or x.dtype.kind == "b":
        return False
    if value.dtype != x.dtype if isinstance(value, Array) else not fits(value, x.dtype):
        return False
    if negative:
        value = -value
    x, template, dynamic = through(x, template, dynamic)
    x.replace(apply(update_add, x, value, *dynamic, index=template))
    return True


@implements(np.add.at, (np.add, "at"))
def np_add_at(x: Array, index: Any, value: Any) -> None:
    """``np.add.at``: every mention of an element counts."""
    x, template, dynamic = indexed(x, index)
    value = operand(value)
    if value.dtype != x.dtype if isinstance(value, Array) else not fits(value, x.dtype):
        value = cast(strong(value), x.dtype)  # NumPy casts it
    x.replace(apply(add_at, x, value, *dynamic, index=template))
