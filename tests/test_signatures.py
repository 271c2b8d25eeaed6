"""Functions of Python and NumPy in their less usual signatures: values, shapes and dtypes as theirs.

The oracle of a value is NumPy, or Python, itself; that of a derivative are differences.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque
from calque.transpiler import errors

A = np.array([[0.5, 1.0, 2.0], [3.0, 4.0, 7.0]])
X = np.array([0.5, -1.0, 2.0])
SINGLE = A.astype(np.float32)
K = np.array([100, 27, 5])


def equal(found: Any, wanted: Any, name: str = "") -> None:
    """The same values, shape and dtype; of a Python number the same type; of each part."""
    if isinstance(wanted, tuple):
        for part, each in zip(found, wanted, strict=True):
            equal(part, each, name)
        return
    kind = type(wanted) in (bool, int, float, complex)
    assert not kind or type(found) is type(wanted), (name, found, wanted)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype, (name, found, wanted)
    np.testing.assert_array_equal(found, wanted, err_msg=name, strict=True)


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def same(fn: Callable[..., Any], *args: Any, batched: bool = True) -> None:
    """``jit`` gives what Python gives, and ``vmap`` what a loop would."""
    wanted = fn(*copied(args))
    equal(calque.jit(fn)(*copied(args)), wanted, "jit")
    if batched:
        stacked = [np.stack([np.asarray(a)] * 2) for a in args]
        found = calque.vmap(fn)(*stacked)
        several = isinstance(wanted, tuple)
        for part, each in zip(found, wanted) if several else [(found, wanted)]:
            np.testing.assert_allclose(part, np.stack([each] * 2), rtol=1e-6)


def slope(fn: Callable[..., Any], x: np.ndarray, step: float = 1e-6) -> None:
    """Reverse mode, plain and compiled, against differences."""
    units = np.eye(x.size).reshape(x.size, *x.shape) * step
    wanted = [(fn(x + u) - fn(x - u)) / (2 * step) for u in units]
    for form in (calque.grad(fn), calque.jit(calque.grad(fn))):
        np.testing.assert_allclose(np.ravel(form(x)), wanted, rtol=1e-6, atol=1e-8)


# Python's numbers


def test_complex_of_two_parts() -> None:
    for fn in (
        lambda a, b: complex(a, b) ** 2,
        lambda a, b: complex(0, b) * a,
        lambda a, b: complex(a, 1) + b,
        lambda a, b: complex(a, 0) + complex(b),
        lambda a, b: complex(real=a, imag=b),
        lambda a, b: complex(imag=b) - complex(a, imag=b * b),
        lambda a, b: complex(1.5, 2) * a + complex("1+2j") + b,
    ):
        same(fn, 1.5, -2.0)
    same(lambda b: complex(1.0, b), np.inf)
    same(lambda x: complex(x[0], x[2]) * x[1], X)
    same(lambda k: complex(k, 2), 3)
    assert type(calque.jit(lambda x: complex(x[0], x[1]))(SINGLE[0])) is complex


def test_slope_of_complex_of_two_parts() -> None:
    slope(lambda x: (np.exp(complex(0, x[0])) * complex(x[1], x[2]) ** 2).real, X)
    slope(lambda x: abs(complex(x[0] * x[1], imag=x[2])), X)
    found = calque.vmap(calque.grad(lambda a, b: (complex(a, b) ** 3).imag))(X, X[::-1].copy())
    np.testing.assert_allclose(found, [(3 * complex(a, b) ** 2).imag for a, b in zip(X, X[::-1])])


def test_numbers_from_one_argument() -> None:
    same(lambda x: x * int("12", 8) + float() + bool() + int(), 2.0)
    with pytest.raises(errors.UnsupportedFunction, match="line"):
        calque.jit(lambda x: complex(x * 1j, x))(1.0)
    with pytest.raises(TypeError):
        calque.jit(lambda k: int(k, 8))(12)


# arrays from iterables and nested lists


def test_fromiter() -> None:
    for fn in (
        lambda x: np.fromiter((v * v for v in x), float),
        lambda x: np.fromiter([v * v for v in x], dtype=np.float32),
        lambda x: np.fromiter(map(np.sin, x), float, len(x)),
        lambda x: np.fromiter((a * b for a, b in zip(x, x[::-1])), float, count=2),
        lambda x: np.fromiter(x, "f4"),
        lambda x: np.fromiter((x[k] for k in range(3) if k != 1), float),
        lambda x: np.fromiter((v for v in x if v > 0), float),
        lambda x: np.fromiter(range(3), int) * x,
    ):
        same(fn, X, batched=False)
    slope(lambda x: np.sum(np.fromiter((v**3 for v in x), float) * x), X)
    slope(lambda x: np.prod(np.fromiter(map(np.exp, x), float, count=-1)), X)
    same(lambda x, k: np.fromiter((v for v in x), float, k), X, 2, batched=False)
    with pytest.raises(ValueError, match="too short"):
        calque.jit(lambda x: np.fromiter((v for v in x), float, 5))(X)
    with pytest.raises(errors.NeedsKnownValue, match="line"):
        calque.jit(lambda x: np.fromiter((v for v in x if v > 0), float, 2))(X)


def test_block_of_lists_that_grow() -> None:
    for fn in (
        lambda x: np.block([[v, v] for v in x]),
        lambda x: np.block([v for v in x]),
        lambda x: np.block([[x[k : k + 1]] for k in range(len(x))]),
        lambda x: np.block([[x[k : k + 1], x[k : k + 1] * 2.0] for k in range(len(x))]),
        lambda x: np.block([[v[:2] for v in x], [v[1:] for v in x]]),
        lambda x: np.block([[[v, 2 * v], [v, 3 * v]] for v in x]),
        lambda x: np.block([[x, x], [x * 2, x * 3]]),
        lambda x: np.block([v[0] for v in x]),
    ):
        same(fn, A, batched=False)
    slope(lambda x: np.sum(np.block([[v, v * v] for v in x]) ** 2), A)


@pytest.mark.parametrize("order", ["K", "A"])
def test_order_in_memory(order: str) -> None:
    for fn in (
        lambda x: x.T.ravel(order),
        lambda x: np.ravel(x.T, order),
        lambda x: x.T.flatten(order),
        lambda x: x.T.reshape(-1, order="A"),
    ):
        for form in (calque.jit(fn), calque.vmap(fn)):
            with pytest.raises(errors.UnsupportedFunction, match="line"):
                form(A if form.kind == "jit" else A[None])
    with pytest.raises(errors.UnsupportedFunction, match="line"):
        calque.jit(lambda x: x.ravel(order))(np.asfortranarray(A))
    same(lambda x: x.ravel(order), A, batched=False)
    for fn in (
        lambda x: x.ravel(order),
        lambda x: np.sin(x[::-1]).flatten(order),
        lambda x: np.outer(x, x).ravel(order),
        lambda x: np.stack([x, x]).reshape(3, 2, order="A"),
        lambda x: np.ravel(np.outer(x, x + 1), "f") + np.outer(x, x).reshape(-1, order="c"),
    ):
        same(fn, X, batched=False)


SHIFTS = [0, 1, 7, 8, 31, 32, 63, 64, 100]


PAIRS = itertools.product(["i1", "u1", "i4", "u4", "i8", "u8"], ["i1", "u2", "i8", "u8"])
INTEGERS = [(a, b) for a, b in PAIRS if np.result_type(a, b).kind != "f"]


@pytest.mark.parametrize(("dtype", "bits"), sampled(INTEGERS, 1))
def test_shifts_by_all_bits(dtype: str, bits: str) -> None:
    a = np.array([0, 1, 5, 100, *([-1, -100] if dtype[0] == "i" else [])], dtype)[:, None]
    b = np.array([*SHIFTS, *([-1, -100] if bits[0] == "i" else [])], bits)
    same(lambda a, b: (a << b, np.right_shift(a, b)), a, b)


@pytest.mark.parametrize("count", [3, 31, 32, 64])
def test_shifts_by_a_known_number(count: int) -> None:
    for dtype in ("i4", "u4", "i8", "u8"):
        a = np.array([0, 1, 100], dtype)
        same(lambda a: (a << count, a >> count, count >> a), a)
    source = calque.jit(lambda a: (a << 3) + (a >> 5)).source(a, stage="kernels")
    assert "<< 3" in source and "shift(" not in source, source


def by_columns(x):
    a = np.array(x, order="F")
    b = a.ravel()
    b[0] = 5.0
    return a * b[0]


def copied_by_columns(x):
    a = x.copy("F")
    a[0, 1] = 7.0
    return a.reshape(-1) + x.ravel()


def zeros_by_columns(x):
    a = np.zeros((2, 3), order="F")
    a[:, 1] = x[:, 0]
    return a * 2.0


def stored_through_columns(x):
    a = np.zeros((2, 3), order="F")
    b = a.ravel()
    b[0] = x[0, 0]
    return a


def test_arrays_by_columns() -> None:
    """A store through ``a.ravel()`` went into ``a``, of which it is a copy."""
    same(copied_by_columns, A)
    same(zeros_by_columns, A)
    for fn in (by_columns, stored_through_columns):
        with pytest.raises(errors.AliasUndecided, match="line"):
            calque.jit(fn)(A)


# reductions


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, bool, np.float32])
def test_dtype_of_reductions(dtype: Any) -> None:
    table = np.array([[100, 27], [120, 90]], np.int32)
    for fn in (
        lambda k: (np.cumsum(k, dtype=dtype), np.cumprod(k, dtype=dtype)),
        lambda k: np.stack([np.sum(k, dtype=dtype), np.prod(k, dtype=dtype)]),
        lambda k: (
            k.sum(0, dtype=dtype) + k.cumsum(axis=1, dtype=dtype),
            np.multiply.accumulate(k, 1, dtype) + np.add.reduce(k, 1, dtype),
            np.maximum.reduce(k, 1, dtype),
            np.trace(k, dtype=dtype),
            np.nancumsum(k, dtype=dtype),
        ),
    ):
        same(fn, table)
        equal(calque.jit(fn)(table > 95), fn(table > 95))


def extrema(x):
    return (
        np.max(x, initial=0.0),
        np.min(x, axis=1, initial=1.0, keepdims=True) * 2.0,
        x.max(axis=(0, 1), initial=1, keepdims=True),
        np.max(x, axis=0, initial=0.5, where=x < 2.0),
        np.minimum.reduce(x, initial=2.0),
    )


def squares_of_extrema(x):
    total = 0.0
    for part in extrema(x):
        total = total * 0.7 + np.sum(part**2)
    return total


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (3, 0)])
def test_extrema_from_an_initial_value(shape: tuple[int, ...]) -> None:
    x = np.linspace(-2.1, 3.0, int(np.prod(shape))).reshape(shape)
    same(extrema, x, batched=bool(x.size))
    equal(calque.jit(extrema)(x.astype("f4")), extrema(x.astype("f4")))
    if x.size:
        slope(squares_of_extrema, x)
    else:
        equal(calque.grad(squares_of_extrema)(x), np.zeros(shape))
    with pytest.raises(ValueError):
        calque.jit(lambda x: np.max(x))(np.zeros(0))


# stores of fewer values, membership, powers with a modulus


def placed(x, values):
    y = x.copy()
    np.place(y, y > 0.6, values)
    return y


def test_place_takes_values_in_turn() -> None:
    for values in ([9.0], [8.0, 9.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]):
        same(lambda x, values=values: placed(x, values), A)
    same(lambda x: placed(x, x[0]), A)
    slope(lambda x: np.sum(placed(x, x[0] ** 2) ** 2), A)

    def by_flat_mask(x):
        y = x.copy()
        np.place(y, (x > 1.5).ravel(), x[0, :2])
        return y

    same(by_flat_mask, A)


def test_membership_in_what_is_iterated() -> None:
    for fn in (
        lambda x: x * (2 in (k for k in range(3))),
        lambda x: 2.0 in (v * 4 for v in x),
        lambda x: 2.5 not in (v * 2 for v in x),
        lambda x: 1.0 in map(abs, x),
        lambda x: x[1] in [v for v in x],
    ):
        same(fn, X, batched=False)


def test_power_with_a_modulus() -> None:
    same(lambda n: pow(n, 5, 7) + pow(n, -1, 7), 3, batched=False)
    same(lambda n: pow(base=n, exp=40, mod=1_000_007) + pow(n, exp=2), 12345, batched=False)
    with pytest.raises(errors.NeedsKnownValue, match="line"):
        calque.jit(lambda k: pow(int(k[0]), 5, 7))(K)


# precision


def close(fn: Callable[..., Any], *args: Any) -> None:
    """The same dtypes and shapes as NumPy's, and its values to rounding."""
    found, wanted = calque.jit(fn)(*args), fn(*args)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for got, want in pairs:
        assert np.asarray(got).dtype == np.asarray(want).dtype, (got, want)
        np.testing.assert_allclose(got, want, rtol=2e-6, strict=True)


def test_numbers_in_a_list_count_as_arrays() -> None:
    for fn in (
        lambda x: np.array([x[0, 0], 1.0], dtype=x.dtype),
        lambda x: np.asarray([1, x[0, 0]], dtype="f4"),
        lambda x: np.array([x[0, 0], 1.0]),
        lambda x: np.array([np.array([v[0], 2]) for v in x]),
        lambda x: np.max([x[0, 0], x[0, 1], 0]),
        lambda x: np.dot(3, x) + np.inner(x, 2.0),
        lambda x: np.r_[x[0], 1.0],
        lambda x: np.stack([x[0, 0], 1]) * np.hstack([x[0, 1], True]),
    ):
        same(fn, SINGLE)
    slope(lambda x: np.sum(np.array([x[0], 1.0, x[2] * 2], np.float64) ** 2), X)


def test_pythons_numbers_adapt() -> None:
    for fn in (
        lambda x: x[0] + 2 * any(v > 1 for v in x),
        lambda x: x[0] + 2 * all([v < 5 for v in x]),
        lambda x: x * any(x > 1) + x * (x[0] in [1.0, x[0]]),
        lambda x: x * abs(int(x[1])) + abs(float(x[1])),
        lambda x: x * round(float(x[2]), 1),
        lambda x: x * np.abs(float(x[1])),
        lambda x: round(x[2], 1) * x + round(x[1]),
        lambda x: abs(x[1] > 0.0),
    ):
        equal(calque.jit(fn)(SINGLE[0] - 1.26), fn(SINGLE[0] - 1.26))
    assert calque.jit(lambda x: abs(int(x)))(-3.5) == 3
    slope(lambda x: np.sum(x * abs(float(x[1]))), X)


def test_precision_of_statistics() -> None:
    for fn in (
        lambda x: (
            np.mean(x, where=x > 1),
            np.mean(x, axis=1, where=x > 0.5),
            np.mean(x > 1, where=x > 0.5),
            np.var(x, mean=x.mean()),
            np.std(x, axis=1, where=x > 0.7),
        ),
        lambda x: (
            np.nanquantile(x, 0.3, axis=0),
            np.nanpercentile(x, [30, 50]),
            np.nanmedian(x, axis=1),
            np.percentile(x, [25, 60]),
            np.quantile(x, 0.3),
        ),
        lambda x: (
            np.cov(x),
            np.corrcoef(x * x, x[::-1]),
            np.ediff1d(x, to_begin=0, to_end=[1, 2]),
        ),
        lambda x: np.average(x, weights=[[1, 2, 1], [1, 1, 1]], returned=True),
        lambda x: np.average(x.astype(int), weights=x, returned=True),
        lambda x: np.gradient(x[0], [0, 1, 3.0]),
    ):
        close(fn, SINGLE)
        close(fn, A)
    with pytest.raises(errors.DtypeError, match="line"):
        calque.jit(lambda x: np.ediff1d(x, to_end=1.5j))(A)


# factorizations


def test_svd_with_all_columns() -> None:
    for a in (A, A.T.copy(), A[:, :2].copy()):
        fn = lambda a: tuple(np.linalg.svd(a))
        wanted = fn(a)
        for found in (calque.jit(fn)(a), [f[1] for f in calque.vmap(fn)(np.stack([a + 1.0, a]))]):
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(got, want, atol=1e-14)
        slope(lambda a: np.sum(np.linalg.svd(a)[1] ** 3), a)
    slope(lambda a: np.linalg.svd(a)[0][0, 1] * np.linalg.svd(a).Vh[1, 0], A[:, :2].copy())
    for form in (calque.grad, lambda f: lambda a: calque.jvp(f, (a,), (a,))):
        with pytest.raises(errors.NotDifferentiable, match="line"):
            form(lambda a: np.linalg.svd(a)[0][0, 0])(A)


def test_an_array_is_the_default_of_a_lambda() -> None:
    """It was called ``lambda`` in the code, which is no name."""
    weighted = lambda y, w=X: np.sum(w) * y  # noqa: E731
    equal(calque.jit(weighted)(X), weighted(X))
    assert calque.grad(weighted)(2.0) == np.sum(X)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def clipped(x, low=-np.inf, high=float("inf"), by=1.0):
    return np.clip(x, low, high) * by


def applied(x, by=2, function=np.sin, level=Level.LOW):
    return function(x) * by * level


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (clipped, (0.5,), {}),
        (clipped, (0.5, 1.5, 2.0), {}),
        (clipped, (), {"high": 1.5}),
        (applied, (3, np.cos), {}),
        (applied, (3.0, np.cos, Level.HIGH), {}),
        (applied, (), {"level": Level.HIGH}),
    ],
)
def test_defaults_that_are_no_literals(function, args, kwargs) -> None:
    x = np.array([0.2, 0.9, 1.7])
    compiled = calque.jit(function)
    np.testing.assert_allclose(compiled(x, *args, **kwargs), function(x, *args, **kwargs), rtol=1e-14)
