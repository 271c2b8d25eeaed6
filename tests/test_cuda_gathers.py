"""Indices of run time on a GPU: gathers and stores are NumPy's, and none goes outside of its array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, standin
from cuda_emulator.running import ON_CARD, cuda_text, installed, on_cuda, to_device, to_host, wait

import calque
from calque.runtime.cuda import raise_if_outside

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(5)
VECTOR = RNG.standard_normal(300)
SINGLE = VECTOR.astype(np.float32)
TABLE = RNG.standard_normal((30, 7))
INDICES = RNG.integers(-300, 300, 90)
ROWS = RNG.integers(-30, 30, 40)
COLUMNS = RNG.integers(-7, 7, 40).astype(np.int32)
NEXT = np.append(np.arange(1, 300), -1)


def gathered(x, indices):
    return np.sin(x[indices])


def by_loop(x, indices):
    out = np.zeros(indices.size)
    for i in range(indices.size):
        out[i] = 2.0 * x[indices[i]]
    return out


def rows_of(table, rows):
    return table[rows] * 2.0


def columns_of(table, columns):
    return table[:, columns]


def pairs_of(table, rows, columns):
    return table[rows, columns] + 1.0


def embedding_loss(table, rows):
    return np.sum(table[rows] ** 2)


def taken(x, indices):
    return np.take(x, indices)


def row_at(table, k):
    return table[k] * 2.0


def stored(x, indices):
    out = x.copy()
    for i in range(indices.size):
        out[indices[i]] = 3.0
    return out


def stored_apart(x, indices):
    out = np.zeros((5, indices.size))
    for i in range(indices.size):
        out[indices[i] % 5 - 5, i] = x[indices[i]]
    return out


def linked(x, follower):
    k, total = 0, 0.0
    while k >= 0:
        total = total + x[k]
        k = follower[k]
    return total


def twice(x, indices):
    return x[indices[indices]]


def complex_gather(z, indices):
    return z[indices] * 2.0


def along_rows(table, columns):
    return np.take_along_axis(table, columns, axis=1)


def largest_row(table):
    return table[np.argmax(table[:, 0])] * 2.0


def two_of(x, indices):
    return x[indices[0]] + x[indices[1]]


def marked(x, indices):
    u = x.copy()
    for t in range(indices.size):
        k = indices[t]
        u = u * 0.5 + x[k]
        u[k] = u[k] + 1.0
    return u


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (gathered, (VECTOR, INDICES)),
    (gathered, (SINGLE, INDICES)),
    (by_loop, (VECTOR, INDICES)),
    (rows_of, (TABLE, ROWS)),
    (columns_of, (TABLE, COLUMNS)),
    (pairs_of, (TABLE, ROWS, COLUMNS)),
    (embedding_loss, (TABLE, ROWS)),
    (taken, (VECTOR, INDICES)),
    (row_at, (TABLE, -3)),
    (stored, (VECTOR, INDICES)),
    (stored_apart, (VECTOR, INDICES)),
    (linked, (VECTOR, NEXT)),
    (twice, (VECTOR, RNG.integers(-90, 90, 90))),
    (complex_gather, (VECTOR * 1j, INDICES)),
    (along_rows, (TABLE, RNG.integers(-7, 7, (30, 3)))),
    (largest_row, (TABLE,)),
    (two_of, (VECTOR, INDICES)),
    (marked, (VECTOR, INDICES[:6])),
]


@pytest.mark.parametrize("order", [0, 1, 7])
@pytest.mark.parametrize("case", range(len(PROGRAMS)))
def test_programs(case, order):
    function, args = PROGRAMS[case]
    got, want = on_cuda(function, *args, order=order), np.asarray(function(*args))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    tolerance = 1e-6 if want.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, want, rtol=tolerance)


def with_one(indices: np.ndarray, bad: int) -> np.ndarray:
    changed = indices.copy()
    changed[17] = bad
    return changed


OUTSIDE: list[tuple[Any, tuple[Any, ...], str, int]] = [
    (gathered, (VECTOR, with_one(INDICES, 300)), "return np.sin(x[indices])", 300),
    (gathered, (VECTOR, with_one(INDICES, -301)), "return np.sin(x[indices])", -301),
    (gathered, (VECTOR, with_one(INDICES, 2**50)), "return np.sin(x[indices])", 2**39 - 1),
    (by_loop, (VECTOR, with_one(INDICES, 999)), "out[i] = 2.0 * x[indices[i]]", 999),
    (rows_of, (TABLE, with_one(ROWS, 30)), "return table[rows] * 2.0", 30),
    (pairs_of, (TABLE, ROWS, with_one(COLUMNS, 7)), "return table[rows, columns] + 1.0", 7),
    (embedding_loss, (TABLE, with_one(ROWS, -31)), "return np.sum(table[rows] ** 2)", -31),
    (stored, (VECTOR, with_one(INDICES, 300)), "out[indices[i]] = 3.0", 300),
    (linked, (VECTOR, with_one(NEXT, 400)), "total = total + x[k]", 400),
]


@pytest.mark.parametrize("order", [0, 1, 7])
@pytest.mark.parametrize("case", range(len(OUTSIDE)))
def test_an_index_outside_raises_with_the_users_line(case, order):
    function, args, statement, index = OUTSIDE[case]
    line = function.__code__.co_firstlineno
    with pytest.raises(IndexError) as caught:
        on_cuda(function, *args, order=order)
    place, told = str(caught.value).split(": ", 1)
    assert told == f"{statement}: index {index} is out of bounds"
    name, number = place.split(", line ")
    assert name == "test_cuda_gathers.py"
    assert line < int(number) < line + 9
    on_cuda(gathered, VECTOR, INDICES)  # said once


def program_of(function: Any, *args: Any) -> Any:
    return calque.jit(function).cuda_programs().find(args, {})[0]


def test_what_depends_on_it_is_nan_and_the_next_launcher_raises():
    bad = with_one(INDICES, 300)
    program = program_of(gathered, VECTOR, bad)
    with installed():
        given = [to_device(VECTOR), to_device(bad)]
        result = to_host(program.call(*given))  # no wait, no error yet
        assert np.flatnonzero(np.isnan(result)).tolist() == [17]
        wait()
        with pytest.raises(IndexError, match="index 300 is out of bounds"):
            program.call(*given)
        raise_if_outside()  # said once: the second call has run nothing


def each(x, k):
    out = np.empty(k.size, dtype=x.dtype)
    for i in range(k.size):
        out[i] = x[k[i]]
    return out


@pytest.mark.parametrize("kind", ["?", "i1", "u1", "i4", "u4", "i8", "u8", "f4", "f8", "c8", "c16"])
def test_what_an_index_outside_reads_is_what_docs_gpu_md_says(kind):
    x, k = np.ones(4, kind), np.array([1, 4, -5])
    with installed():
        got = to_host(program_of(each, x, k).call(to_device(x), to_device(k)))
        with pytest.raises(IndexError):
            raise_if_outside()
    assert got[0] == x[1]
    for number in got[1:]:
        if x.dtype.kind in "fc":
            assert np.isnan(number.real) and (x.dtype.kind == "f" or np.isnan(number.imag))
        elif x.dtype.kind == "b":
            assert not number
        else:
            ends = np.iinfo(kind)
            assert number == (ends.max if x.dtype.kind == "u" else ends.min)


def doubled_and_moved(x):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2.0 + 1.0
    x[1:-1] = 0.5 * (x[:-2] + x[2:])


@pytest.mark.parametrize("part", [np.s_[::2], np.s_[::-1], np.s_[3:9], np.s_[-1:2:-3]])
def test_stores_into_an_argument_that_has_steps_are_the_callers(part):
    base, want = np.arange(12.0), np.arange(12.0)
    doubled_and_moved(want[part])
    with installed():
        x = to_device(base)
        calque.jit(doubled_and_moved)(x[part])
        wait()
        np.testing.assert_array_equal(to_host(x), want)


def test_a_store_outside_is_skipped():
    bad = with_one(INDICES, -301)
    program = program_of(stored, VECTOR, bad)
    with installed():
        result = to_host(program.call(to_device(VECTOR), to_device(bad)))
        with pytest.raises(IndexError):
            raise_if_outside()
    want = VECTOR.copy()
    want[np.delete(bad, 17)] = 3.0
    np.testing.assert_array_equal(result, want)


def test_indices_of_what_is_in_no_kernel_are_looked_at_by_the_host():
    with pytest.raises(IndexError, match=r"z\[indices\] \* 2.0: index 300 is out of bounds"):
        on_cuda(complex_gather, VECTOR * 1j, with_one(INDICES, 300))
    with pytest.raises(IndexError, match=r"axis=1\): index -8 is out of bounds for size 7"):
        on_cuda(along_rows, TABLE, np.full((30, 1), -8))


def test_a_number_on_the_device_is_checked_there():
    program = program_of(marked, VECTOR, INDICES)
    with installed():
        given = to_device(VECTOR), to_device(INDICES[:6])
        before = len(standin.transfers), len(standin.waits)
        program.call(*given)
        assert ON_CARD or (len(standin.transfers), len(standin.waits)) == before


def test_an_index_of_the_host_raises_at_once():
    with pytest.raises(IndexError, match=r"return table\[k\] \* 2.0: index 30 is out of bounds"):
        on_cuda(row_at, TABLE, 30)


def test_text_of_a_check():
    text = cuda_text(gathered, VECTOR, INDICES)
    assert "Index indices_checked = checked_index(indices[i], x_size, outside, place);" in text
    assert "out[i] = sin(indices_checked >= 0 ? x[indices_checked] : NaN);" in text
    assert "checked_index" not in cuda_text(lambda x: x[::-1] + x[1] * x, VECTOR)


def test_a_saved_module_carries_the_checks(tmp_path):
    path = tmp_path / "saved.py"
    calque.save(calque.jit(gathered), path, VECTOR, INDICES, stage="cuda")
    text = path.read_text()
    assert "from calque" not in text
    module: dict[str, Any] = {}
    with installed():
        exec(text, module)
        module["gathered_jit"](to_device(VECTOR), to_device(with_one(INDICES, 300)))
        wait()
        with pytest.raises(IndexError, match="index 300 is out of bounds"):
            module["raise_if_outside"]()


def overwritten_at_places(x, y, k):
    x, y = x.copy(), y.copy()
    for i in range(x.size):
        for j in range(i):
            y[k[i]] = 0.3 * x[j] + y[k[i]]
            x[j] = 0.2 * y[j]
    return np.sum(x * y)


def test_places_of_an_array_that_the_kernel_calls_by_another_name():
    """The gradient's y_bar starts in the memory of x."""
    args = np.arange(5.0), np.ones(5), np.array([1, 0, 2, 2, 4])
    gradient = calque.grad(overwritten_at_places, argnums=(0, 1))
    for got, want in zip(on_cuda(gradient, *args), gradient(*args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
