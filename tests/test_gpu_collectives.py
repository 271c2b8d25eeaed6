"""The collectives of several GPUs, one by one, and the emulated NCCL that they are tested on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from cuda_emulator import nccl
from cuda_emulator import standin as cp

from calque.runtime.engines import gpu_threads, threads

SHAPES = [(), (1,), (0,), (7,), (4, 3), (2, 0), (4, 1, 5)]
DTYPES = ["f4", "f8", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?", "c8", "c16"]
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cp, "device_count", 4)
    monkeypatch.setattr(nccl, "patience", 3.0)
    with cp.installed():
        nccl.calls.clear()
        yield
    gpu_threads._connected.clear()


def sample(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return random numbers whose sum is exact in any order: no overflow, no rounding."""
    found = np.rint(4 * RNG.standard_normal(shape)) if np.dtype(dtype).kind in "fic" else RNG.integers(0, 30, shape)
    found = np.asarray(found).astype(dtype)
    return found + np.asarray(1j * np.rint(RNG.standard_normal(shape))).astype(dtype) if found.dtype.kind == "c" else found


def there(array: np.ndarray, device: int) -> Any:
    with cp.Device(device):
        return cp.asarray(array)


def both(program: Callable[[Any, Any], Any], arrays: list[np.ndarray], shape: tuple[int, ...] = (4,)) -> None:
    """The results on GPUs are those of threads: values, shape, dtype, and where they are."""
    wanted = threads.run(program, [(a,) for a in arrays], {}, shape)
    found = gpu_threads.run_on_gpus(program, [(there(a, k),) for k, a in enumerate(arrays)], {}, shape)
    for k, (x, y) in enumerate(zip(found, wanted, strict=True)):
        assert type(x) is cp.ndarray and x.data.device_id == k
        assert x.dtype == np.asarray(y).dtype and x.shape == np.shape(y)
        np.testing.assert_array_equal(x.get(), y)


COLLECTIVES: dict[str, Callable[[Any, Any], Any]] = {
    "psum": lambda comm, x: comm.psum(x),
    "pmax": lambda comm, x: comm.pmax(x),
    "pmin": lambda comm, x: comm.pmin(x),
    "all_gather": lambda comm, x: comm.all_gather(x, x.ndim),
    "ring": lambda comm, x: comm.ppermute(x, RING),
    "to one": lambda comm, x: comm.ppermute(x, [(3, 1)]),
    "to itself": lambda comm, x: comm.ppermute(x, [(2, 2), (0, 3)]),
    "to nobody": lambda comm, x: comm.ppermute(x, []),
}


@pytest.mark.parametrize("missing", [False, True], ids=["NCCL", "no NCCL"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_of_all_dtypes(name: str, dtype: str, missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "available", not missing)
    for shape in SHAPES:
        both(COLLECTIVES[name], [sample(shape, dtype) for _ in range(4)])
    assert bool(nccl.calls) is not (missing or name == "to nobody")


@pytest.mark.parametrize("missing", [False, True], ids=["NCCL", "no NCCL"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_collectives_that_deal_out(dtype: str, missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "available", not missing)
    for shape, axis in [((4,), 0), ((3, 4), 1), ((4, 5), 0), ((2, 4, 3), 1), ((4, 0), 0)]:
        arrays = [sample(shape, dtype) for _ in range(4)]
        both(lambda comm, x, axis=axis: comm.psum_scatter(x, axis), arrays)
        both(lambda comm, x, axis=axis: comm.all_to_all(x, axis, 0), arrays)
        both(lambda comm, x, axis=axis: comm.all_to_all(x, axis, x.ndim - 1), arrays)


def test_views_are_given_as_they_read() -> None:
    arrays = [sample((6, 8), "f8") for _ in range(4)]
    for program in COLLECTIVES.values():
        both(lambda comm, x, program=program: program(comm, x.T), arrays)
        both(lambda comm, x, program=program: program(comm, x[::-2, 1::3]), arrays)
        both(lambda comm, x, program=program: program(comm, x[3, 2]), arrays)


def test_nan_is_an_extremum() -> None:
    arrays = [sample((5,), "f4") for _ in range(4)]
    arrays[2][1] = arrays[0][3] = np.nan
    arrays[1][4] = -np.inf
    both(COLLECTIVES["pmax"], arrays)
    both(COLLECTIVES["pmin"], arrays)


def test_means_are_floats() -> None:
    for dtype in ("i4", "f4", "f8", "c8"):
        both(lambda comm, x: comm.pmean(x), [sample((3,), dtype) for _ in range(4)])


def test_numbers_of_the_host_stay_there() -> None:
    def program(comm: Any, x: Any) -> Any:
        rank = comm.rank
        assert comm.psum(rank) == 6 and comm.pmax(rank + 0.5) == 3.5 and comm.pmean(rank) == 1.5
        assert comm.ppermute(np.float64(rank), RING) == (rank - 1) % 4
        return comm.all_gather(rank)

    found = gpu_threads.run_on_gpus(program, [(there(np.ones(1), k),) for k in range(4)], {}, (4,))
    assert [f.get().tolist() for f in found] == [[0, 1, 2, 3]] * 4
    assert [f.data.device_id for f in found] == [0, 1, 2, 3]


@pytest.mark.parametrize("numbers", [(0,), (2,), (1, 3), (3, 0, 2)])
def test_some_of_the_gpus(numbers: tuple[int, ...]) -> None:
    arrays = [sample((3,), "f8") for _ in numbers]
    given = [(there(a, n),) for a, n in zip(arrays, numbers, strict=True)]
    found = gpu_threads.run_on_gpus(lambda comm, x: comm.psum(x), given, {}, (len(numbers),), numbers)
    assert [f.data.device_id for f in found] == list(numbers)
    for f in found:
        np.testing.assert_array_equal(f.get(), sum(arrays))


@pytest.mark.parametrize("shape", [(2, 2), (4, 1), (1, 2, 2)])
def test_axes_of_a_mesh(shape: tuple[int, ...]) -> None:
    arrays = [sample((3,), "f8") for _ in range(4)]

    def program(*given: Any) -> Any:
        *communicators, x = given
        for k, comm in enumerate(communicators):
            x = comm.psum(x) + comm.rank * 10.0**k
        return x

    wanted = threads.run(program, [(a,) for a in arrays], {}, shape)
    found = gpu_threads.run_on_gpus(program, [(there(a, k),) for k, a in enumerate(arrays)], {}, shape)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x.get(), y)


# what happens when one fails


def test_a_gpu_that_raises_ends_the_call_on_all() -> None:
    def program(comm: Any, x: Any) -> Any:
        if comm.rank == 2:
            raise ArithmeticError("here")
        return comm.psum(x)

    given = [(there(np.ones(3), k),) for k in range(4)]
    for _ in range(2):  # and once more: the next call connects them anew
        with pytest.raises(ArithmeticError, match="here") as error:
            gpu_threads.run_on_gpus(program, given, {}, (4,))
        assert error.value.__notes__ == ["on device 2 of 4"]
        found = gpu_threads.run_on_gpus(lambda comm, x: comm.psum(x), given, {}, (4,))
        assert [f.get().tolist() for f in found] == [[4.0] * 3] * 4


def test_a_gpu_that_raises_behind_a_collective() -> None:
    def program(comm: Any, x: Any) -> Any:
        x = comm.psum(x)
        if comm.rank == 0:
            raise KeyError("first")
        return comm.ppermute(comm.psum(x), RING)

    with pytest.raises(KeyError, match="first"):
        gpu_threads.run_on_gpus(program, [(there(np.ones(3), k),) for k in range(4)], {}, (4,))


def test_connections_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    before = nccl.NcclCommunicator.initAll
    monkeypatch.setattr(nccl.NcclCommunicator, "initAll", staticmethod(lambda d: made.append(d) or before(d)))
    for _ in range(3):
        both(COLLECTIVES["psum"], [np.ones(2)] * 4)
    assert made == [[0, 1, 2, 3]]
    both(lambda a, b, x: b.psum(x), [np.ones(2)] * 4, (2, 2))  # type: ignore[arg-type]
    assert made[1:] == [[0, 2], [1, 3], [0, 1], [2, 3]]


# the emulator


def each(act: Callable[[Any, int], Any]) -> list[Any]:
    """Run ``act`` on four ranks in four threads; return the results, or the texts of errors."""
    ranks = nccl.NcclCommunicator.initAll(4)

    def work(k: int) -> Any:
        with cp.Device(k):
            try:
                return act(ranks[k], k)
            except nccl.NcclError as error:
                return str(error)

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(work, range(4)))


def reduce(rank: Any, count: int, kind: int, how: int = nccl.NCCL_SUM) -> Any:
    x, y = cp.asarray(np.ones(8)), cp.empty(8)
    rank.allReduce(x.data.ptr, y.data.ptr, count, kind, how, 0)
    return y.get().tolist()[0]


def test_the_emulator_finds_calls_that_differ() -> None:
    good = each(lambda rank, k: reduce(rank, 8, nccl.NCCL_FLOAT64))
    assert good == [4.0] * 4
    for wrong in (
        each(lambda rank, k: reduce(rank, 8 - (k == 1), nccl.NCCL_FLOAT64)),
        each(lambda rank, k: reduce(rank, 8, nccl.NCCL_FLOAT64 if k else nccl.NCCL_INT64)),
        each(lambda rank, k: reduce(rank, 8, nccl.NCCL_FLOAT64, nccl.NCCL_MAX if k == 3 else nccl.NCCL_SUM)),
    ):
        assert all("ranks call" in w for w in wrong), wrong


def test_the_emulator_finds_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "patience", 0.3)
    found = each(lambda rank, k: reduce(rank, 8, nccl.NCCL_FLOAT64) if k else "elsewhere")
    assert found[0] == "elsewhere" and all("deadlock" in f for f in found[1:])

    def one_after_the_other(rank: Any, k: int) -> Any:  # each sends first, and nobody receives
        x = cp.asarray(np.ones(3))
        rank.send(x.data.ptr, 3, nccl.NCCL_FLOAT64, (k + 1) % 4, 0)
        rank.recv(x.data.ptr, 3, nccl.NCCL_FLOAT64, (k - 1) % 4, 0)

    assert all("deadlock" in f for f in each(one_after_the_other))


def test_the_emulator_has_groups() -> None:
    def together(rank: Any, k: int) -> Any:
        x, y = cp.asarray(np.full(3, float(k))), cp.empty(3)
        nccl.groupStart()
        rank.send(x.data.ptr, 3, nccl.NCCL_FLOAT64, (k + 1) % 4, 0)
        rank.recv(y.data.ptr, 3, nccl.NCCL_FLOAT64, (k - 1) % 4, 0)
        nccl.groupEnd()
        return y.get().tolist()[0]

    assert each(together) == [3.0, 0.0, 1.0, 2.0]
    ranks = nccl.NcclCommunicator.initAll(4)  # one thread for all
    given = [there(np.full(2, float(k)), k) for k in range(4)]
    nccl.groupStart()
    for k, rank in enumerate(ranks):
        with cp.Device(k):
            rank.allReduce(given[k].data.ptr, given[k].data.ptr, 2, nccl.NCCL_FLOAT64, nccl.NCCL_SUM, 0)
    nccl.groupEnd()
    assert [g.get().tolist() for g in given] == [[6.0, 6.0]] * 4
    with pytest.raises(nccl.NcclError, match="no group"):
        nccl.groupEnd()


def test_the_emulator_knows_whose_memory_it_is() -> None:
    x = there(np.ones(4), 1)
    rank = nccl.NcclCommunicator.initAll(1)[0]
    for pointer in (x.data.ptr, np.ones(4).ctypes.data, there(np.ones(3), 0).data.ptr):
        with pytest.raises(nccl.NcclError, match="do not lie on device 0"):
            rank.allReduce(pointer, pointer, 4, nccl.NCCL_FLOAT64, nccl.NCCL_SUM, 0)
    with cp.Device(1), pytest.raises(nccl.NcclError, match="the current one is 1"):
        rank.allReduce(x.data.ptr, x.data.ptr, 4, nccl.NCCL_FLOAT64, nccl.NCCL_SUM, 0)


def test_memory_belongs_to_a_device() -> None:
    x, y = there(np.ones(3), 0), there(np.ones(3), 1)
    for wrong in (lambda: x + y, lambda: y + 1.0, lambda: np.sum(y), lambda: cp.stack([x, x, y]), lambda: x.__setitem__(0, y[0]), lambda: y[cp.asarray([0])], lambda: y.sum()):
        with pytest.raises(ValueError, match="Array device must be same as the current device"):
            wrong()
    assert y[1:].data.device_id == y.T.data.device_id == 1
    assert y.copy().data.device_id == cp.asarray(y).data.device_id == 0
    found: list[int] = []
    with cp.Device(3):
        thread = threading.Thread(target=lambda: found.append(cp.runtime.getDevice()))
        thread.start()
        thread.join()
        assert found == [0] and cp.runtime.getDevice() == 3
    with pytest.raises(RuntimeError, match="cudaErrorInvalidDevice"):
        cp.Device(4)
