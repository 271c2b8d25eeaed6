"""Elements, sizes and loops in few instructions: Numba's numbers, and what LLVM is given."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from calque.runtime.kernels.decorator import _Proven
from calque.runtime.kernels.trimmed_compiler import _Library, quick


def down(x, y, out):
    for i in range(x.shape[0] - 1, -1, -1):
        for j in range(1, x.shape[1]):
            out[i, j] = x[i, j] + y[j, i] * x[i, j - 1]


def constants(x, y, out):
    for i in range(x.shape[0]):
        out[i, 0] = x[i, -1] + y[0, i]
        out[i, 2] = x[0, 1]
    out[-1, -2] = 7.0


def empty(x, y, out):
    for i in range(x.shape[0], x.shape[0] - 3):
        out[i, 0] = 1.0
    for i in range(0, 3, -1):
        out[i, 0] = 2.0
    for i in range(2):
        for i in range(i, 2):
            out[i, 1] += 1.0
    out[0, 0] += i


def by_twos(x, y, out):
    step = 2 if x.shape[1] > 2 else 1
    for i in range(0, x.shape[0], step):
        out[i, 1] = x[i, 1]


def rows(x, y, out):
    for i in range(x.shape[0]):
        row = x[i]
        for j in range(row.size):
            out[i, j] = row[j] + y[j, i]


def another(x, y, out):
    for _ in range(2):
        for i in range(y.shape[1]):
            out[i, 0] += x[i, 1]
        x, out = out, x


def narrow(x, y, out):
    for i in range(np.int32(3)):
        k = np.int8(i)
        out[k, 1] = x[k, np.uint8(2)]


PROGRAMS = [down, constants, empty, by_twos, rows, another, narrow]
FLAGS = {"fastmath": {"contract", "reassoc"}, "error_model": "numpy"}


@pytest.mark.parametrize("order", ["C", "F", "A"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_numbers(program, order):
    """Compiled programs compute Python's numbers, for arrays in all orders of memory."""
    rng = np.random.default_rng(3)

    def integers(*shape):
        return rng.integers(-9, 9, shape).astype(float)  # sums of products are exact

    def arrays():
        x, y = integers(4, 6), integers(6, 4)
        if order == "A":
            return x[:, ::2], y[::2], integers(8, 3)[::2]
        return tuple(np.asarray(a, order=order) for a in (x[:, :3], y[:3], np.ones((4, 3))))

    given = arrays()
    expected = [a.copy() for a in given]
    program(*expected)
    compiled = numba.njit(pipeline_class=quick(_Proven), **FLAGS)(program)
    compiled(*given)
    for found, wanted in zip(given, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_kernel_is_short_before_llvm_works(monkeypatch):
    """Four accesses in two loops were 389 instructions; they are fewer than a hundred."""
    counts = []
    plain = _Library._optimize_functions

    def counted(self, module):
        blocks = [b for f in module.functions if "cpython" not in f.name for b in f.blocks]
        counts.append(sum(1 for b in blocks for _ in b.instructions))
        plain(self, module)

    monkeypatch.setattr(_Library, "_optimize_functions", counted)
    compiled = numba.njit(pipeline_class=quick(_Proven), **FLAGS)(down)
    x = np.ones((4, 3))
    compiled(x, x.T.copy(), x.copy())
    assert counts[0] < 200, counts
