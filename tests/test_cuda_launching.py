"""Arguments of kernel launches: checked arrays, numbers of the right types, narrow indices."""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_emulator import standin

import calque.runtime.cuda
from calque.runtime.cuda import launching, launching_source

CODE = """extern "C" __global__ void k(
    const float* __restrict__ x, double* __restrict__ out, double scale, unsigned char level,
    Index n, volatile long long* outside, long long place)"""
FAR = 1 << 40  # an address


class Recorded:
    """A kernel that keeps what it is handed."""

    calls: list[Any]

    def __init__(self, code: str, name: str, options: tuple[str, ...]):
        self.options = options

    def __call__(self, grid: Any, threads: Any, args: Any) -> None:
        Recorded.calls.append((self.options, grid, threads, args))


@pytest.fixture
def launch() -> Iterator[Any]:
    Recorded.calls = []
    with standin.installed():
        yield launching.kernel(CODE, "k", Recorded)


X, OUT = standin.asarray(np.ones(4, np.float32)), standin.asarray(np.zeros(4))


def test_numbers_are_what_their_parameters_are(launch):
    launch(4, 256, X, OUT, 2, 3, 4, FAR, 5)
    options, grid, threads, args = Recorded.calls[0]
    assert (options, grid, threads) == (("-DIndex=int",), (4,), (256,))
    assert args[0] is X and args[1] is OUT and args[5] == FAR
    kinds = [type(args[k]) for k in (2, 3, 4, 6)]
    assert kinds == [np.float64, np.uint8, np.int32, np.int64] and args[2:5] == (2.0, 3, 4)


def test_an_address_makes_no_index_wide_and_a_large_number_does(launch):
    for n, place, width in [(2**30 - 1, 1, "int"), (2**30, 1, "long long"), (-(2**30), 1, "long long"),
                            (1, 2**30, "long long"), (np.int64(7), 1, "int")]:  # fmt: skip
        launch((1,), (32, 8), X, OUT, np.float32(0.5), np.uint8(1), n, FAR, place)
        options, _, _, args = Recorded.calls[-1]
        assert options == (f"-DIndex={width}",)
        assert [type(args[k]) for k in (2, 3, 6)] == [np.float64, np.uint8, np.int64]
        assert type(args[4]) is (np.int32 if width == "int" else np.int64) and args[4] == n


def test_zeros_keep_their_sign_and_flags_their_value(launch):
    for scale in (0.0, -0.0, True, 1):
        launch(1, 1, X, OUT, scale, True, False, FAR, 0)
        args = Recorded.calls[-1][3]
        assert args[2] == scale and np.signbit(args[2]) == np.signbit(float(scale))
        assert (args[3], args[4]) == (1, 0)


def test_views_are_handed_over_whole_and_stored_back(launch):
    wide, target = standin.asarray(np.arange(8, dtype=np.float32)), standin.asarray(np.arange(8.0))
    launch(1, 1, wide[::2], target[::2], 1.0, 1, 4, FAR, 0)
    args = Recorded.calls[0][3]
    assert args[0].flags.c_contiguous and standin.asnumpy(args[0]).tolist() == [0, 2, 4, 6]
    assert args[1].flags.c_contiguous and standin.asnumpy(args[1]).tolist() == [0, 2, 4, 6]
    assert standin.asnumpy(target).tolist() == list(range(8))


def test_a_number_for_a_pointer_goes_there(launch):
    launch(1, 1, 2.5, OUT, 1.0, 1, 4, FAR, 0)
    given = Recorded.calls[0][3][0]
    assert given.dtype == np.float32 and given.shape == () and given.get() == 2.5


def test_what_does_not_fit_is_refused(launch):
    rest = (1.0, 1, 4, FAR, 0)
    with pytest.raises(TypeError, match="x must be float32, not float64"):
        launch(1, 1, OUT, OUT, *rest)
    with pytest.raises(TypeError, match="out must be float64, not float32"):
        launch(1, 1, X, X, *rest)
    with pytest.raises(TypeError, match="x is an array of NumPy"):
        launch(1, 1, np.ones(4, np.float32), OUT, *rest)
    with pytest.raises(TypeError, match="k has 7 parameters, and got 6"):
        launch(1, 1, X, OUT, *rest[1:])
    with pytest.raises(OverflowError):
        launch(1, 1, X, OUT, 1.0, 256, 4, FAR, 0)
    assert not Recorded.calls


def test_embedded_definitions_need_nothing_behind_them():
    lines, text, _ = launching_source.embedded(frozenset(calque.runtime.cuda.__all__))
    table = symtable.symtable("\n".join([*lines, text]), "embedded", "exec")
    defined = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
    pending, read = [table], set()
    while pending:
        scope = pending.pop()
        read |= {s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced()}
        pending += scope.get_children()
    assert read - defined - set(dir(builtins)) == set()
