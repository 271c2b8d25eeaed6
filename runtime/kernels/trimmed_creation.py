"""New arrays of a kernel, as instructions.

Numba compiles three libraries for the first ``np.empty`` of a kernel, more for ``np.zeros_like``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.core import cgutils, ir, types
from numba.core.imputils import impl_ret_new_ref
from numba.core.ir_utils import get_definition, guard
from numba.core.types.containers import BaseTuple
from numba.core.typing.npydecl import parse_dtype
from numba.extending import intrinsic
from numba.np.arrayobj import get_itemsize, make_array, populate_array

CREATION = {"empty": False, "zeros": True, "empty_like": False, "zeros_like": True}


def created(function: Any, named: Any, call: Any) -> tuple[str, Any, list[Any]] | None:
    """The name, maker and arguments of a new array, in place of a call of NumPy's; else None."""
    module = guard(get_definition, function, named.value)
    if not isinstance(module, ir.Global) or module.value is not np:
        return None
    by_name = [value for key, value in call.kws if key == "dtype"]
    args = [*call.args, *by_name]
    if len(by_name) < len(call.kws) or not call.args or len(args) > 2:
        return None
    return named.attr, _made_by(named.attr, len(args)), args


@functools.cache
def _made_by(name: str, count: int) -> Any:
    """An intrinsic for a function of NumPy's; what it does not know, Numba's own does."""

    def typed(typing_context: Any, given: Any, kind: Any = None) -> Any:
        wanted = (given,) if kind is None else (given, kind)
        gives = _result(given, kind) if name.endswith("_like") else _of_shape(given, kind)
        if gives is not None:
            return gives(*wanted), functools.partial(_new, CREATION[name])
        known = typing_context.resolve_value_type(getattr(np, name))
        full = known.get_call_type(typing_context, wanted, {})

        def plain(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
            left_out = [context.get_dummy_value()] * (len(full.args) - len(args))
            return context.get_function(known, full)(builder, [*args, *left_out])

        return full.return_type(*wanted), plain

    if count == 1:
        return intrinsic(lambda typing_context, given: typed(typing_context, given))
    return intrinsic(lambda typing_context, given, kind: typed(typing_context, given, kind))


def _of_shape(shape: Any, kind: Any) -> Any:
    """The type of a new array of such a shape."""
    sizes = shape if isinstance(shape, BaseTuple) else (shape,)
    if not all(isinstance(t, types.Integer) for t in sizes):
        return None
    dtype = types.float64 if kind is None else parse_dtype(kind)
    return None if dtype is None else types.Array(dtype, len(sizes), "C")


def _result(like: Any, kind: Any) -> Any:
    """The type of a new array that is like another one, row by row in memory."""
    if not isinstance(like, types.Array) or like.layout == "F":
        return None
    dtype = like.dtype if kind is None else parse_dtype(kind)
    return None if dtype is None else like.copy(dtype=dtype, layout="C", readonly=False)


def _new(zeros: bool, context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
    gives, given = signature.return_type, signature.args[0]
    shape = _sizes(context, builder, given, args[0])
    found = make_array(gives)(context, builder)
    itemsize = context.get_constant(types.intp, get_itemsize(context, gives))
    strides, count = [itemsize], itemsize
    too_big = cgutils.false_bit
    for size in reversed(shape):
        both = builder.smul_with_overflow(count, size)
        count = builder.extract_value(both, 0)
        too_big = builder.or_(too_big, builder.extract_value(both, 1))
        strides.insert(0, count)
    if not isinstance(given, types.Array):
        negative = cgutils.false_bit
        for size in shape:
            negative = builder.or_(negative, builder.icmp_signed("<", size, size.type(0)))
        _refuse_if(negative, "negative dimensions are not allowed", context, builder)
        _refuse_if(too_big, "array is too big", context, builder)
    align = context.get_preferred_array_alignment(gives.dtype)
    meminfo = context.nrt.meminfo_alloc_aligned(builder, count, align)
    data = context.nrt.meminfo_data(builder, meminfo)
    intp = context.get_value_type(types.intp)
    populate_array(
        found,
        data=builder.bitcast(data, context.get_data_type(gives.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, shape, ty=intp),
        strides=cgutils.pack_array(builder, strides[1:], ty=intp),
        itemsize=itemsize,
        meminfo=meminfo,
    )
    if zeros:
        cgutils.memset(builder, found.data, count, 0)
    return impl_ret_new_ref(context, builder, gives, found._getvalue())


def _sizes(context: Any, builder: Any, given: Any, value: Any) -> list[Any]:
    if isinstance(given, types.Array):
        return cgutils.unpack_tuple(builder, make_array(given)(context, builder, value).shape)
    if isinstance(given, types.Integer):
        return [context.cast(builder, value, given, types.intp)]
    parts = cgutils.unpack_tuple(builder, value, len(given))
    return [context.cast(builder, v, t, types.intp) for v, t in zip(parts, given, strict=True)]


def _refuse_if(wrong: Any, text: str, context: Any, builder: Any) -> None:
    with builder.if_then(wrong, likely=False):
        context.call_conv.return_user_exc(builder, ValueError, (text,))
