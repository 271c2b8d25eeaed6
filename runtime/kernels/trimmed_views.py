"""NumPy's views of arrays, and stores into them, as instructions.

Numba compiles a library for each: a store into a slice has strings joined for its error's message.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import cgutils, ir, types
from numba.core.imputils import impl_ret_borrowed
from numba.core.ir_utils import get_definition, guard, mk_unique_var
from numba.core.types.containers import BaseTuple
from numba.extending import intrinsic, overload
from numba.np import arrayobj
from numba.np.arrayobj import make_array, populate_array

from calque.runtime.kernels.trimmed_creation import CREATION, created


def views_at_once(function: Any, block: Any) -> None:
    """Have ``np.transpose(x, (1, 0, 2))`` and ``x.reshape(n, m)`` of a block done by intrinsics.

    So are new arrays, as ``np.empty((n, m))``.
    """
    body: list[Any] = []
    for s in block.body:
        made = s.value if isinstance(s, ir.Assign) else None
        if isinstance(made, ir.Expr) and made.op == "call" and not made.vararg:
            called = guard(get_definition, function, made.func)
            known = called.attr if isinstance(called, ir.Expr) and called.op == "getattr" else None
            if known in CREATION:
                made = created(function, called, made)
            elif known == "transpose" and len(made.args) == 2 and not made.kws:
                made = _transpose(function, made)
            elif known == "reshape" and not made.kws:
                made = _reshape(function, made, called.value, body, block.scope)
            if isinstance(made, tuple):
                name, view, args = made
                body.append(ir.Assign(ir.Global(name, view, s.loc), _new(name, block, s), s.loc))
                s.value = ir.Expr.call(body[-1].target, args, (), s.loc)
        body.append(s)
    block.body = body


def _new(name: str, block: Any, s: Any) -> Any:
    return ir.Var(block.scope, mk_unique_var(f"${name}"), s.loc)


def _transpose(function: Any, call: Any) -> tuple[str, Any, list[Any]] | None:
    axes = guard(get_definition, function, call.args[1])
    if not isinstance(axes, ir.Expr) or axes.op != "build_tuple":
        return None
    order = [guard(get_definition, function, item) for item in axes.items]
    if not all(isinstance(k, ir.Const) for k in order):
        return None
    return "transposed", transposed(tuple([k.value for k in order])), call.args[:1]


def _reshape(function: Any, call: Any, array: Any, body: list[Any], scope: Any) -> Any:
    """A reshape to sizes in one tuple; None if one of several sizes is -1."""
    sizes = [guard(get_definition, function, v) for v in call.args]
    if len(sizes) == 1 and isinstance(sizes[0], ir.Const) and sizes[0].value == -1:
        return "flattened", flattened, [array]
    if not sizes or any(_is_to_be_found(size) for size in sizes):
        return None
    together = ir.Var(scope, mk_unique_var("$sizes"), call.loc)
    body.append(ir.Assign(ir.Expr.build_tuple(call.args, call.loc), together, call.loc))
    return "reshaped", reshaped, [array, together]


def _is_to_be_found(size: Any) -> bool:
    if isinstance(size, ir.Expr):
        return size.op in ("unary", "build_tuple")
    return isinstance(size, ir.Const) and not (isinstance(size.value, int) and size.value >= 0)


@functools.cache
def transposed(axes: tuple[int, ...]) -> Any:
    """An intrinsic that gives an array with its axes in another order."""

    @intrinsic
    def transposed(typing_context: Any, x: Any) -> Any:
        if not isinstance(x, types.Array) or x.ndim != len(axes):
            return None

        def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
            array = make_array(x)(context, builder, args[0])
            shape = cgutils.unpack_tuple(builder, array.shape, x.ndim)
            strides = cgutils.unpack_tuple(builder, array.strides, x.ndim)
            shape, strides = [shape[k] for k in axes], [strides[k] for k in axes]
            return _view(context, builder, signature.return_type, array, shape, strides)

        return x.copy(layout="A")(x), code

    return transposed


@intrinsic
def reshaped(typing_context: Any, x: Any, sizes: Any) -> Any:
    """An array of contiguous memory with other sizes, of as many elements; else ValueError."""
    if not isinstance(x, types.Array) or not isinstance(sizes, BaseTuple):
        return None
    if not all(isinstance(t, types.Integer) for t in sizes):
        return None

    def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        array = make_array(x)(context, builder, args[0])
        parts = cgutils.unpack_tuple(builder, args[1], len(sizes))
        shape = [context.cast(builder, v, t, types.intp) for v, t in zip(parts, sizes, strict=True)]
        strides = _contiguous(builder, array.itemsize, shape)
        count = builder.mul(strides[0], shape[0])
        fits = builder.icmp_signed("==", count, builder.mul(array.itemsize, array.nitems))
        for size in shape:
            fits = builder.and_(fits, builder.icmp_signed(">=", size, size.type(0)))
        _refuse_unless(fits, "cannot reshape array to these sizes", context, builder)
        _refuse_gaps(x, array, context, builder)
        return _view(context, builder, signature.return_type, array, shape, strides)

    view = x.copy(ndim=len(sizes), layout="C")
    return view(x, sizes), code


@intrinsic
def flattened(typing_context: Any, x: Any) -> Any:
    """An array of contiguous memory as one axis."""
    if not isinstance(x, types.Array):
        return None

    def code(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        array = make_array(x)(context, builder, args[0])
        _refuse_gaps(x, array, context, builder)
        shape, strides = [array.nitems], [array.itemsize]
        return _view(context, builder, signature.return_type, array, shape, strides)

    return x.copy(ndim=1, layout="C")(x), code


def _refuse_gaps(x: Any, array: Any, context: Any, builder: Any) -> None:
    """ValueError where elements do not lie one after the other, row by row."""
    if x.layout == "C":
        return
    sizes = cgutils.unpack_tuple(builder, array.shape, x.ndim)
    steps = cgutils.unpack_tuple(builder, array.strides, x.ndim)
    one = array.itemsize.type(1)
    is_empty = builder.icmp_signed("==", array.nitems, one.type(0))
    dense = is_empty.type(1)
    wanted = _contiguous(builder, array.itemsize, sizes)
    for size, step, along in zip(sizes, steps, wanted, strict=True):
        same = builder.icmp_signed("==", step, along)
        single = builder.icmp_signed("==", size, one)
        dense = builder.and_(dense, builder.or_(same, single))
    text = "reshape: an array that is not contiguous"
    _refuse_unless(builder.or_(is_empty, dense), text, context, builder)


def _contiguous(builder: Any, itemsize: Any, shape: list[Any]) -> list[Any]:
    """The steps in memory along the axes of an array without gaps."""
    steps = [itemsize]
    for size in reversed(shape[1:]):
        steps.append(builder.mul(steps[-1], size))
    return steps[::-1][: len(shape)]


def _refuse_unless(fits: Any, text: str, context: Any, builder: Any) -> None:
    with builder.if_then(builder.not_(fits), likely=False):
        context.call_conv.return_user_exc(builder, ValueError, (text,))


def _view(
    context: Any, builder: Any, kind: Any, array: Any, shape: list[Any], strides: list[Any]
) -> Any:
    found = make_array(kind)(context, builder)
    populate_array(
        found,
        data=array.data,
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=array.itemsize,
        meminfo=array.meminfo,
        parent=array.parent,
    )
    return impl_ret_borrowed(context, builder, kind, found._getvalue())


def _sizes_differ(given: Any, wanted: Any) -> None:
    """A name for what ``_refusal`` compiles."""


@overload(_sizes_differ)
def _refusal(given: Any, wanted: Any) -> Any:
    def refuse(given: Any, wanted: Any) -> None:
        raise ValueError("could not broadcast input array to the shape of what is stored into")

    return refuse


@contextmanager
def short_refusals() -> Iterator[None]:
    """Numba's stores into slices have this file's message within; its compiler's lock is held."""
    theirs = arrayobj.raise_with_shape_context
    arrayobj.raise_with_shape_context = _sizes_differ
    try:
        yield
    finally:
        arrayobj.raise_with_shape_context = theirs
