"""Runs plain functions on recorded Arrays, and the recorded program on real arrays."""

import numpy as np

from calque.transpiler.errors import SpecializationNeeded
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.types import ArrayType, symbol
from calque.transpiler.primitives.record import PRIMITIVES, Scatter


def flat(tree):
    """The leaves of tuples and lists."""
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in flat(item)]
    return [tree]


def array_of(value, prefix, sizes, symbolic):
    """An argument's Var, its dimensions symbols (one a size) unless they are 0 or 1."""
    value = np.asarray(value)
    dims = tuple(
        symbol(sizes.setdefault(d, f"n{d}")) if symbolic and d > 1 else d for d in value.shape
    )
    return Array(Var(ArrayType(value.dtype, dims), prefix))


def evaluate(block, values):
    """The values of a straight-line block's results."""

    def read(atom):
        return values[atom] if isinstance(atom, Var) else atom

    for statement in block.statements:
        assert isinstance(statement, Apply), statement
        args = [read(a) for a in statement.args]
        before = [np.array(a) for a in args]
        out = statement.primitive.function(*args, **statement.params)
        for old, new in zip(before, args):
            np.testing.assert_array_equal(old, new)
        outs = out if len(statement.outs) > 1 or isinstance(out, (tuple, list)) else (out,)
        for var, value in zip(statement.outs, outs, strict=True):
            check_type(statement, var.type, value, values)
            values[var] = value
    return [read(a) for a in block.results]


def check_type(statement, declared, value, values):
    """The inferred type is what came out; symbols keep one size."""
    value = np.asarray(value)
    assert value.dtype == declared.dtype, (statement.primitive, value.dtype, declared)
    assert value.ndim == declared.ndim, (statement.primitive, value.shape, declared)
    for dim, size in zip(declared.dims, value.shape):
        if isinstance(dim, int):
            assert dim == size, (statement.primitive, value.shape, declared)


def run(f, *arrays, symbolic=False):
    """Run ``f`` through Core: return its results, and its arguments as they are afterwards."""
    sizes = {}
    builder = Builder([f"n{d}" for a in arrays for d in np.shape(a)])
    with builder.active(), builder.block() as block:
        cells = [array_of(a, f"a{i}", sizes, symbolic) for i, a in enumerate(arrays)]
        params = [c.atom for c in cells]
        result = f(*cells)
        leaves = [x.atom if isinstance(x, Array) else x for x in flat(result)]
        block.results = leaves + [c.atom for c in cells]
    values = evaluate(block, dict(zip(params, map(np.array, arrays))))
    run.block = block
    return values[: len(leaves)], values[len(leaves) :]


def same_as_numpy(f, *arrays):
    """Bit-identical results, and arguments that end alike, with known and with symbolic sizes."""
    copies = [np.array(a) for a in arrays]
    expected = flat(f(*copies))
    for symbolic in (False, True):
        try:
            found, after = run(f, *arrays, symbolic=symbolic)
        except SpecializationNeeded:
            assert symbolic
            continue
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            np.testing.assert_array_equal(a, b)
            assert np.asarray(a).dtype == np.asarray(b).dtype, (
                np.asarray(a).dtype,
                np.asarray(b).dtype,
            )
        for a, b in zip(after, copies):
            np.testing.assert_array_equal(a, b)


def summed_to(value, shape):
    """Broadcasting undone, as the reverse pass does."""
    value = np.asarray(value)
    value = np.broadcast_to(value, np.broadcast_shapes(value.shape, shape))
    value = value.sum(tuple(range(value.ndim - len(shape))))
    axes = tuple(a for a, d in enumerate(shape) if d == 1 and value.shape[a] != 1)
    return value.sum(axes, keepdims=True)


def is_float(value):
    """True if an argument can carry a derivative: an array or number, real or complex."""
    return np.asarray(value).dtype.kind in "fc" and isinstance(
        value, (np.ndarray, np.generic, float)
    )


def differentiate(primitive, args, params, tangents, cotangents, symbolic):
    """Values of the outs, the jvp and the vjp of one primitive, evaluated."""
    sizes = {}
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    builder = Builder([f"n{d}" for a in arrays for d in a.shape])
    inputs = {}

    def cell(value):
        made = array_of(value, None, sizes, symbolic)
        inputs[made.atom] = value
        return made

    with builder.active(), builder.block() as block:
        cells = [cell(a) if isinstance(a, np.ndarray) else a for a in args]
        outs = builder.apply(primitive, cells, params)
        outs = outs if isinstance(outs, tuple) else (outs,)
        dots = [None if t is None else cell(t) for t in tangents]
        out_dots = primitive.jvp(tuple(dots), outs, tuple(cells), params)
        bars = tuple(None if c is None else cell(c) for c in cotangents)
        arg_bars = list(primitive.vjp(bars, outs, tuple(cells), params))
        for i, bar in enumerate(arg_bars):
            if isinstance(bar, Scatter):
                total = np.zeros_like(cells[i])
                bar.add(total)
                arg_bars[i] = total
        results = [*outs, *out_dots, *arg_bars]
        block.results = [x.atom if isinstance(x, Array) else x for x in results]
    values = evaluate(block, inputs)
    n = len(outs)
    return values[:n], values[n : 2 * n], values[2 * n :]


def dot_product_test(primitive, args, params, rng, symbolic=False, symmetric=False, wrt=None):
    """``<v, J u> == <J' v, u>``, the jvp against differences, and dtypes kept."""
    primitive = PRIMITIVES[primitive] if isinstance(primitive, str) else primitive
    outs = primitive.function(*args, **params)
    outs = tuple(outs) if isinstance(outs, (tuple, list)) else (outs,)

    def draw(x):
        t = rng.standard_normal(np.shape(x)).astype(np.asarray(x).dtype)
        return np.asarray(t + np.swapaxes(t, -1, -2) if symmetric and t.ndim > 1 else t)

    tangents = [draw(a) if isinstance(a, np.ndarray) and is_float(a) else None for a in args]
    cotangents = [
        np.asarray(rng.standard_normal(np.shape(o)), np.asarray(o).dtype)
        if is_float(o) and (wrt is None or k in wrt)
        else None
        for k, o in enumerate(outs)
    ]
    _, dots, bars = differentiate(primitive, args, params, tangents, cotangents, symbolic)
    low = any(np.asarray(o).dtype in ("f4", "c8") for o in (*outs, *args))
    tol = 2e-4 if low else 1e-9
    left = sum(
        np.sum(c * (0.0 if d is None else d)) for c, d in zip(cotangents, dots) if c is not None
    )
    right = 0.0
    for t, bar, a in zip(tangents, bars, args):
        if t is not None and bar is not None:
            mixed = len({x.dtype for x in args if isinstance(x, np.ndarray) and is_float(x)}) > 1
            assert mixed or np.asarray(bar).dtype == a.dtype or np.ndim(bar) == 0, (bar, a)
            right += np.sum(t * summed_to(bar, a.shape))
    np.testing.assert_allclose(left, right, rtol=tol, atol=tol, err_msg=f"{primitive} {params}")
    if not low:
        step = 1e-6
        up = primitive.function(
            *[a if t is None else a + step * t for a, t in zip(args, tangents)], **params
        )
        down = primitive.function(
            *[a if t is None else a - step * t for a, t in zip(args, tangents)], **params
        )
        up, down = (tuple(v) if isinstance(v, (tuple, list)) else (v,) for v in (up, down))
        for k, (u, d, dot) in enumerate(zip(up, down, dots)):
            if cotangents[k] is not None:
                change = (np.asarray(u) - np.asarray(d)) / (2 * step)
                dot = np.broadcast_to(0.0 if dot is None else dot, change.shape)
                np.testing.assert_allclose(
                    dot, change, rtol=1e-5, atol=1e-6, err_msg=f"{primitive} {params}"
                )


def sampled(modules):
    """Every sampled call of the primitives of some modules, as (primitive, args, params)."""
    found = []
    records = {
        id(v): v for m in modules for v in vars(m).values() if type(v).__name__ == "Primitive"
    }
    for primitive in records.values():
        for args, params in (
            primitive.samples(np.random.default_rng(0)) if primitive.samples else []
        ):
            found.append((primitive, args, params))
    return found
