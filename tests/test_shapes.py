"""Shapes, joining, creation and products: values against NumPy, derivatives by dot products."""

import array_tracing
import numpy as np
import pytest
from array_tracing import dot_product_test, run, sampled

import calque
from calque.transpiler import primitives as P
from calque.transpiler.errors import ShapeError, SpecializationNeeded, UnsupportedFunction
from calque.transpiler.ir.builder import FUNCTIONS

A = np.arange(12.0).reshape(3, 4)
V = np.array([3.0, -1.0, 2.0])
CUBE = np.arange(24.0).reshape(2, 3, 4)
MODULES = [
    P.axes,
    P.shapes,
    P.joining,
    P.rearranging,
    P.diagonals,
    P.ranges,
    P.creation,
    P.products,
    P.einsum,
]
CALLS = sampled(MODULES)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("call", range(len(CALLS)), ids=[c[0].name for c in CALLS])
def test_sampled(call, symbolic):
    primitive, args, params = CALLS[call]
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    try:
        if primitive.vjp is not None and arrays:
            dot_product_test(primitive, args, params, np.random.default_rng(1), symbolic)
        else:
            filled = lambda *xs: primitive(*_filled(args, xs), **params)
            run(filled, *arrays, symbolic=symbolic)
    except SpecializationNeeded:
        assert symbolic


def _filled(args, cells):
    rest = iter(cells)
    return [next(rest) if isinstance(a, np.ndarray) else a for a in args]


PROGRAMS = [
    lambda x: np.vstack([x, x[0]]),
    lambda x: np.hstack([x, x[:, :1]]),
    lambda x: np.column_stack([x[:, 0], x]),
    lambda x: np.append(x, 5.0),
    lambda x: np.append(x, x, axis=1),
    lambda x: np.concatenate([x, x], axis=None),
    lambda x: np.insert(x, 1, 9.0),
    lambda x: np.insert(x, [1, 2], x[:2], axis=0),
    lambda x: np.insert(x, 2, x[:, 0], axis=1),
    lambda x: np.delete(x, 1, axis=0),
    lambda x: np.delete(x, [0, -1], axis=1),
    lambda x: np.delete(x, slice(0, 3)),
    lambda x: np.split(x, [1, 2], axis=1),
    lambda x: np.array_split(x, 3, axis=1),
    lambda x: np.vsplit(x, 3),
    lambda x: np.ravel(x, order="F"),
    lambda x: x.reshape((2, 6), order="F"),
    lambda x: x.reshape(2, -1),
    lambda x: np.squeeze(x[None, :, None]),
    lambda x: np.atleast_2d(x[0]),
    lambda x: np.atleast_3d(x[0], x),
    lambda x: np.atleast_1d(x[0, 0]),
    lambda x: np.broadcast_arrays(x, x[0], x[:, :1]),
    lambda x: np.tile(x, (2, 1, 1)),
    lambda x: np.repeat(x, 2),
    lambda x: x.repeat([1, 0, 2], axis=0),
    lambda x: np.roll(x, (1, -1), axis=(0, 1)),
    lambda x: np.pad(x, ((1, 2), (0, 1)), constant_values=x[0, 0] + 1.0),
    lambda x: np.pad(x, 1, mode="edge"),
    lambda x: np.rot90(x, 2),
    lambda x: np.tril(x, -1) + np.triu(x, 1),
    lambda x: np.diagflat(x[:2]),
    lambda x: np.diag(x, 1),
    lambda x: x.trace(1),
    lambda x: np.meshgrid(x[0], x[:, 0]),
    lambda x: np.meshgrid(x[0], x[:, 0], indexing="ij", sparse=True),
    lambda x: np.vander(x[0], 3),
    lambda x: np.array([[x[0, 0], 2], [3.0, x[1, 1]]]),
    lambda x: np.apply_along_axis(lambda r: r[1:] * r[0], 1, x),
    lambda x: np.apply_along_axis(lambda r: r.sum(), 0, x),
    lambda x: np.kron(x, x[0]),
    lambda x: np.cross(x[:, :3], x[0, 1:]),
    lambda x: np.outer(x, x[0]),
    lambda x: np.einsum("ij,ij->i", x, x),
    lambda x: np.einsum(x, [0, 1], x, [2, 1], [0, 2]),
    lambda x: np.dot(x, 2.0),
    lambda x: x.dot(x.T),
    lambda x: np.tensordot(x, x, ([0, 1], [0, 1])),
    lambda x: np.inner(x, x),
    lambda x: np.vdot(x, x),
    lambda x: x.astype(np.float32) @ np.ones(4, np.float32),
    lambda x: np.select([x > 6, x > 2], [x * 2.0, -x], 0.5),
    lambda x: np.choose((x > 5).astype(int), [x, -x]),
    lambda x: np.compress([True, False, True], x, axis=0),
    lambda x: np.extract(x > 3, x),
    lambda x: np.piecewise(x, [x < 3, x > 8], [lambda t: t * t, -1.0, 7.0]),
    lambda x: np.nonzero(x > 4),
    lambda x: np.argwhere(x > 4),
    lambda x: np.unravel_index(np.flatnonzero(x > 4), (3, 4)),
    lambda x: np.logspace(x[0, 0], x[0, 1], 4),
    lambda x: np.linspace(x[0], x[1], 5, axis=1),
    lambda x: np.linspace(x[0, 0], 3.0, 4, retstep=True),
    lambda x: np.geomspace(x[0, 1], x[1, 0], 4),
    lambda x: np.stack([x, x], axis=-1),
    lambda x: np.dstack([x, x]),
    lambda x: np.moveaxis(x[None], (0, 1), (-1, 0)),
    lambda x: x.nbytes + x.itemsize + x.size,
    lambda x: x[:2, :2].tolist(),
]


@pytest.mark.parametrize("k", range(len(PROGRAMS)))
def test_program(k):
    f = PROGRAMS[k]
    expected = array_tracing.flat(f(A.copy()))
    for symbolic in (False, True):
        try:
            found, _ = run(_on_arrays(f), A, symbolic=symbolic)
        except SpecializationNeeded:
            assert symbolic
            continue
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            np.testing.assert_array_equal(a, b)
            assert np.asarray(a).dtype == np.asarray(b).dtype


def _on_arrays(f):
    """``f`` as the interpreter runs it: every NumPy function looked up in the table first."""
    numpy = np

    class Looked:
        def __getattr__(self, name):
            found = getattr(numpy, name)
            return (
                FUNCTIONS.get(found, found)
                if callable(found) and not isinstance(found, type)
                else found
            )

    def g(x):
        f.__globals__["np"] = Looked()
        try:
            return f(x)
        finally:
            f.__globals__["np"] = numpy

    return g


def test_refusals():
    for f in (
        lambda x: FUNCTIONS[np.frompyfunc](lambda v: v, 1, 1)(x),
        lambda x: x.strides,
        lambda x: np.pad(x, 1, mode="mean"),
    ):
        with pytest.raises(UnsupportedFunction):
            run(f, A)
    for f in (
        lambda x: np.swapaxes(x, 0, 5),
        lambda x: np.concatenate([x, x[0]]),
        lambda x: x.reshape(5, -1),
        lambda x: np.split(x, 2),
        lambda x: FUNCTIONS[np.array]([[x[0], x[1]], [x[0]]]),
    ):
        with pytest.raises(ShapeError):
            run(f, A)


def test_sizes_stay_symbolic():
    def f(x):
        return np.concatenate([x, x, x[1:]]), FUNCTIONS[np.tile](x, 2)

    run(f, A, symbolic=True)
    joined = next(s for s in run.block.statements if s.primitive.name == "np.concatenate")
    assert str(joined.out.type) == "float64[3*n3 - 1, n4]"


def test_transposed_products_read_well():
    from calque.transpiler.primitives.products import matmul

    def f(x, v, y_bar):
        return matmul.vjp((y_bar,), (None,), (x, v), {})

    run(f, A, np.ones(4), np.ones(3))
    names = [s.primitive.name for s in run.block.statements]
    assert names == ["np.outer", "np.transpose", "np.matmul"]


def test_the_shape_that_arrays_have_together() -> None:
    def f(x, y):
        both = np.broadcast(x, y)
        return np.zeros(both.shape) + x * y * both.size + both.ndim + both.nd + both.numiter

    x, y = np.ones((3, 1)), np.arange(4.0)
    np.testing.assert_array_equal(calque.jit(f)(x, y), f(x, y))
    with pytest.raises(ValueError):
        calque.jit(f)(np.ones(3), y)
