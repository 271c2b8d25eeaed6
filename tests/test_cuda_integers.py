"""Integers on a GPU: NumPy's values of all dtypes and mixed signs, also where C leaves them undefined."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import cuda_text, on_cuda, prepare
from sampling import sampled

import calque

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
DTYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
OPERATIONS: dict[str, Any] = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "quotient": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "divmod": lambda a, b: np.divmod(a, b)[0] + np.divmod(a, b)[1],
    "fraction": lambda a, b: a / b,
    "less": lambda a, b: a < b,
    "at most": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "at least": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "unequal": lambda a, b: a != b,
    "maximum": lambda a, b: np.maximum(a, b),
    "minimum": lambda a, b: np.minimum(a, b),
    "clip": lambda a, b: np.clip(a, b // 2, b),
    "bits": lambda a, b: (a & b) + (a | b) - (a ^ b) + ~a,
    "left": lambda a, b: a << b,
    "right": lambda a, b: a >> b,
    "by few bits": lambda a, b: (a << 3) + (b >> 2),
    "negative": lambda a, b: -a,
    "abs": lambda a, b: np.abs(a),
    "sign": lambda a, b: np.sign(a),
    "powers": lambda a, b: a**3 + np.square(b),
    "chosen": lambda a, b: np.where(a > b, a, b),
    "folded": lambda a, b: ((a + b) * a) // (b | 1),
    "compared": lambda a, b: (a + b > a) | (a * b < b),
    "with numbers": lambda a, b: (a * 3 + 100) // 2,
    "below zero": lambda a, b: (a > -1) & (b >= -3),
    "with a float": lambda a, b: a * 0.5 + b,
}
PAIRS = [(a, b) for a in DTYPES for b in DTYPES]
CHOSEN = sampled(PAIRS, 5, 6)  # from u1 with u8 on


def numbers(dtype: str) -> np.ndarray:
    """The ends of a dtype, numbers near zero, and some between."""
    ends = np.iinfo(dtype)
    found = [ends.min, ends.min + 1, ends.max, ends.max - 1, 0, 1, 2, 3, 5, 7]
    found += [ends.max // 2, ends.max // 2 + 1, ends.max // 3]
    return np.array(found + ([-1, -2, -3, -7] if ends.min else []), dtype)


def pairs_of(first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """Each number of the first dtype with each of the second."""
    a, b = np.meshgrid(numbers(first), numbers(second))
    return a.ravel().copy(), b.ravel().copy()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy warns of what overflows, and of a division by zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def assert_same(got: Any, want: Any, said: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, said
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-6 if want.dtype == "f4" else 1e-14, err_msg=said)
    else:
        np.testing.assert_array_equal(got, want, err_msg=str(said))


def taken(first: str, second: str) -> dict[str, Any]:
    """The operations that NumPy has for two dtypes."""
    a, b = pairs_of(first, second)

    def has(operation: Any) -> bool:
        try:
            operation(a, b)
        except TypeError:
            return False
        return True

    return {name: operation for name, operation in OPERATIONS.items() if has(operation)}


def all_of(operations: dict[str, Any]) -> Any:
    """One function of all operations: one text."""
    return calque.jit(lambda a, b: [operation(a, b) for operation in operations.values()])


def test_operations_on_two_dtypes() -> None:
    made = {pair: (taken(*pair), pairs_of(*pair)) for pair in CHOSEN}
    functions = {pair: all_of(operations) for pair, (operations, _) in made.items()}
    prepare(cuda_text(functions[pair], *args) for pair, (_, args) in made.items())
    for pair, (operations, args) in made.items():
        found = on_cuda(functions[pair], *args)
        for (name, operation), got in zip(operations.items(), found, strict=True):
            assert_same(got, operation(*args), f"{name} of {pair}")


# loops: what a number has been, and is stored into


def arithmetic(a, b):
    out = np.zeros(a.size, dtype=np.result_type(a.dtype, b.dtype))
    for i in range(a.size):
        out[i] = (a[i] + b[i]) * a[i] - b[i]
    return out


def accumulated(a, b):
    s, p, d, most = a[0], a[0], a[0], a[0]
    for i in range(a.size):
        s = s + a[i]
        p = p * a[i]
        d = d - a[i]
        most = np.maximum(most, a[i])
    return s, p, d, most


def in_place(a, b):
    a, c, d, e, f, g = a.copy(), a.copy(), a.copy(), a.copy(), a.copy(), a.copy()
    for i in range(a.size):
        a[i] += a[i]
        c[i] -= 3
        d[i] *= d[i]
        e[i] &= e[0]
        f[i] //= 3
        g[i] %= 5
    return a, c, d, e, f, g


def whole_arrays_in_place(a, b):
    a, c, d = a.copy(), a.copy(), a.copy()
    a += a
    c -= d
    d *= c
    d <<= 2
    c >>= 1
    return a, c, d


def reduced(a, b):
    m = a.reshape(-1, 1) + np.zeros((1, 40), dtype=a.dtype)
    rows = np.sum(m, axis=1), np.prod(m, axis=1), np.max(m, axis=1)
    columns = np.sum(m, axis=0), np.min(m, axis=0)
    return *rows, *columns, np.sum(a), np.prod(a), np.max(a), np.min(a), np.mean(a), np.sum(a * a)


def scanned(a, b):
    return np.cumsum(a), np.cumprod(a), np.maximum.accumulate(a)


def counted(a, b):
    h, g = np.zeros(4, dtype=a.dtype), np.zeros(4, dtype=a.dtype)
    for i in range(a.size):
        h[b[i] % 4] += a[i]
    np.add.at(g, (b % 4).astype(np.int64), a)
    return h, g


def chosen(a, b):
    out = np.zeros(a.size)
    for i in range(a.size):
        if a[i] < b[i]:
            out[i] = 1.0
        elif a[i] == b[i]:
            out[i] = 2.0
        if -a[i] > a[i]:
            out[i] += 10.0
        if a[i] + a[i] > a[i]:
            out[i] += 20.0
    return out


def narrowed(a, b):
    out, other = np.zeros(a.size, dtype=np.int8), np.zeros(a.size, dtype=np.uint32)
    for i in range(a.size):
        out[i] = a[i]
        other[i] = a[i]
    return out, other


def with_scalars(a, b):
    shifted = (a >> 1) * np.int32(2**30)
    wide = a + np.uint32(3000000000), a * np.int64(10**10), a.astype(np.int64) + 2**40
    return *wide, a - np.int16(5), shifted, np.where(a > 0, a, 7)


def searched(a, b):
    places, out = np.sort(a), np.zeros(b.size, dtype=np.int64)
    for i in range(b.size):
        out[i] = np.searchsorted(places, b[i])
    return out


def told_by_a_difference(a, b):
    """An index out of what wraps around."""
    out = np.zeros(a.size)
    for i in range(a.size):
        j = a[i] - a[0]
        if 0 <= j and j < 5:
            out[i] = out[int(j) % a.size] + 1.0
    return out


def one_name(a, b):
    """A name is several variables in C, if it has had several dtypes: none is widened to another."""
    out, other = np.zeros(a.size), np.zeros(a.size, dtype=np.result_type(a.dtype, np.int64))
    for i in range(a.size):
        t = a[i] + a[i]
        other[i] = t
        t = t * 0.5
        out[i] = t
        t = b[i] * np.float32(1.5)
        t = t + t
        out[i] += t
    return out, other


LOOPS = [arithmetic, accumulated, in_place, whole_arrays_in_place, reduced, scanned, counted, chosen]
LOOPS += [narrowed, with_scalars, searched, told_by_a_difference, one_name]
OTHER_SIGN = {d: ("u" if d[0] == "i" else "i") + d[1] for d in DTYPES}
PROGRAMS = [(fn, d, other) for d in DTYPES for fn in LOOPS for other in (d, OTHER_SIGN[d])]
CHOSEN_PROGRAMS = sampled(PROGRAMS, 3)


def arguments(first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = numbers(first), numbers(second)
    size = min(a.size, b.size)
    return a[:size].copy(), b[:size][::-1].copy()


def test_loops_over_integers() -> None:
    wanted = {}
    for fn, *dtypes in CHOSEN_PROGRAMS:
        try:
            wanted[fn, *dtypes] = fn(*arguments(*dtypes))
        except (TypeError, OverflowError, IndexError):  # NumPy has none for these
            continue
    assert len(wanted) > 0.7 * len(CHOSEN_PROGRAMS)
    prepare(cuda_text(calque.jit(fn), *arguments(*dtypes)) for fn, *dtypes in wanted)
    for (fn, *dtypes), want in wanted.items():
        got = on_cuda(calque.jit(fn), *arguments(*dtypes))
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        for k, (one, other) in enumerate(pairs):
            assert_same(one, other, f"{fn.__name__}[{k}] of {dtypes}")


def test_counters_are_written_as_they_are() -> None:
    """Numbers that 64 bits hold need no care, nor have those of which an index is made."""

    def steps(x, n):
        s, k = 0.0, 0
        for i in range(1, x.size - 1):
            k += 2
            s += x[i - 1] * x[i + 1] + x[(i + n) % x.size] - abs(i - 3) - k
        return s

    x = np.arange(9.0)
    assert on_cuda(steps, x, 5) == steps(x, 5)
    assert "wrapped" not in cuda_text(calque.jit(steps), x, 5).partition("void steps_kernel(")[2]


FLOATS = [0.0, -0.9, 2.5, -7.5, 127.0, 128.0, -129.0, 255.9, 256.0, 32768.0, -32769.0, 65536.5]
FLOATS += [2.0**31 - 1, 2.0**31, -(2.0**31) - 1, 2.0**32, 2.0**53 + 2, 2.0**63 - 1024, -(2.0**63)]
FLOATS += [2.0**63, -(2.0**63) - 2048, 1e300, -1e300, np.inf, -np.inf, np.nan]


ENDS = {"u1": 31, "u2": 31, "u4": 63, "u8": 64}


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_floats_become_integers_as_on_the_cpu(kind: str) -> None:
    def cast(x):
        out = [np.empty(x.size, dtype=d) for d in DTYPES]
        for i in range(x.size):
            for k in range(8):
                out[k][i] = x[i].astype(DTYPES[k])
        return [x.astype(d) for d in DTYPES], out

    x = np.array(FLOATS).astype(kind)
    got, want = on_cuda(calque.jit(cast), x), cast(x)
    for found, expected in zip(got, want, strict=True):
        for one, other, dtype in zip(found, expected, DTYPES, strict=True):
            end = 2.0 ** ENDS.get(dtype, 1023)  # beyond it NumPy's own loops differ
            known = (x >= -min(end, 2.0**63)) & (x < end) if dtype in ENDS else np.full(x.size, True)
            np.testing.assert_array_equal(one[known], other[known], err_msg=dtype)


def test_floats_stored_into_integers() -> None:
    def stored(x, k, w):
        for i in range(x.size):
            k[i], w[i] = x[i], x[i] + 0.5
        return k, w

    x = np.array([0.0, -2.5, 2.0**53 + 2, -(2.0**62), 7.9])
    args = np.zeros(5, np.int64), np.zeros(5, np.uint64)
    got, want = on_cuda(stored, x, *args), stored(x, *(a.copy() for a in args))
    np.testing.assert_array_equal(got, want)


def test_an_index_without_a_sign_that_is_too_large() -> None:
    def element(x, k):
        s = 0.0
        for i in range(k.size):
            s += x[k[i]]
        return s

    x = np.arange(5.0)
    assert on_cuda(element, x, np.array([4, 0], np.uint64)) == 4.0
    with pytest.raises(IndexError):
        on_cuda(element, x, np.array([2**64 - 1], np.uint64))
