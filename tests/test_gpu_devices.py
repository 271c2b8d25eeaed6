"""`pmap` and `shard_map` over four emulated GPUs: the numbers of threads, and of JAX; what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import device_programs
import numpy as np
import pytest
from cuda_emulator import building, nccl, running
from cuda_emulator import standin as cp

import calque
from calque import (
    P,
    axis_index,
    grad,
    jit,
    make_mesh,
    pmap,
    pmean,
    ppermute,
    psum,
    shard_map,
    value_and_grad,
)
from calque.runtime.cuda.sharded_array import ShardedArray
from calque.runtime.devices.device_source import DeviceSource
from calque.transpiler.errors import (
    AliasUndecided,
    ImpureFunction,
    MixedDevices,
    NoSuchDevice,
    ShapeError,
    UnsupportedOption,
)

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")
    monkeypatch.setattr(cp, "device_count", 4)
    monkeypatch.setattr(nccl, "patience", 5.0)
    with cp.installed():
        for log in (cp.transfers, cp.waits, cp.launches, cp.peer_copies, nccl.calls):
            log.clear()
        yield


def test_a_sum_over_four_gpus() -> None:
    x = np.random.default_rng(0).normal(size=(4, 30))
    f = pmap(lambda x: x * psum(np.sin(x), "i"), "i", devices=calque.devices("gpu"))
    found = f(x)
    assert found.shape == (4, 30) and [s.device.id for s in found.addressable_shards] == [0, 1, 2, 3]
    assert [s.data.device_id for s in found.addressable_shards] == [0, 1, 2, 3]
    np.testing.assert_allclose(found.get(), x * np.sin(x).sum(0), rtol=1e-12)
    assert sorted(nccl.calls) == [("allReduce", k, 30) for k in range(4)]


# the programs that stand in `device_programs.py`, whose numbers on threads are JAX's


def on_gpus(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The same programs, over GPUs."""
    gpus = calque.devices("gpu")
    monkeypatch.setattr(device_programs, "pmap", lambda f, axis_name: pmap(f, axis_name, devices=gpus))
    monkeypatch.setattr(device_programs, "make_mesh", lambda *a: calque.make_mesh(*a, devices=gpus))
    return device_programs.cases()


def host(value: Any) -> Any:
    return calque.device_get(value)


def test_every_collective_has_the_numbers_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    on_threads = device_programs.cases()
    wrong = []
    cases = {n: case for n, case in on_gpus(monkeypatch).items() if "outside" not in n}  # a batch there
    running.prepare(DeviceSource(f, args, "nccl").program.text for f, args in cases.values())
    for name, (f, args) in cases.items():
        wanted = on_threads[name][0](*args)
        found = f(*args)
        if not np.allclose(host(found), wanted, rtol=1e-12, atol=1e-13) or found.shape != np.shape(wanted):
            wrong.append(name)
    assert not wrong


# arrays, and where they lie


def gpus() -> list[calque.Device]:
    return calque.devices("gpu")


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(host(found), wanted, rtol=1e-12, atol=1e-12)


def test_a_result_goes_in_again_as_it_is() -> None:
    mesh = make_mesh((2, 2), ("a", "b"), devices=gpus())
    x = np.random.default_rng(2).normal(size=(6, 4))
    f = shard_map(lambda x: np.sin(x) + psum(x, "a"), mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"))
    once = f(x)
    cp.transfers.clear()
    twice = f(once)
    assert not cp.transfers and not cp.peer_copies and not cp.waits
    assert repr(twice) == "ShardedArray(shape=(6, 4), dtype=float64, on cuda:0, cuda:1, cuda:2, cuda:3)"
    assert (len(twice), twice.ndim, twice.size) == (6, 2, 24)
    cpu = shard_map(lambda x: np.sin(x) + psum(x, "a"), mesh=make_mesh((2, 2), ("a", "b")), in_specs=P("a", "b"), out_specs=P("a", "b"))
    close(twice, cpu(cpu(x)))


def test_a_result_that_is_dealt_out_otherwise_is_moved() -> None:
    x = np.random.default_rng(3).normal(size=(8, 4))
    mesh = make_mesh((4,), ("i",), devices=gpus())
    rows = shard_map(lambda x: x + 1.0, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    columns = shard_map(lambda x: x * 2.0, mesh=mesh, in_specs=P(None, "i"), out_specs=P(None, "i"))
    found = columns(rows(x))
    assert cp.peer_copies and cp.transfers.count("get") == 0
    close(found, (x + 1.0) * 2.0)
    close(pmap(lambda x: x, in_axes=1, out_axes=1, devices=gpus())(found), (x + 1.0) * 2.0)
    close(pmap(lambda x: x, in_axes=1, out_axes=-1, devices=gpus()[::-1])(found), (x + 1.0) * 2.0)


def test_arrays_on_one_gpu_are_dealt_out() -> None:
    x = np.random.default_rng(4).normal(size=(4, 3))
    with cp.Device(2):
        there = cp.asarray(x)
    cp.transfers.clear()
    f = pmap(lambda x, w: x * w + axis_index("i"), "i", in_axes=(0, None), devices=gpus())
    found = f(there, there[1])
    assert not cp.transfers and {pair[0] for pair in cp.peer_copies} == {2}
    close(found, x * x[1] + np.arange(4.0)[:, None])
    close(f(x, 2.0), x * 2.0 + np.arange(4.0)[:, None])


def test_a_sharding_says_where_an_array_lies() -> None:
    mesh = make_mesh((2, 2), ("a", "b"), devices=gpus())
    x = np.arange(24.0).reshape(4, 6)
    whole = calque.device_put(x, calque.NamedSharding(mesh, P()))
    cut = calque.device_put(x, calque.NamedSharding(mesh, P("b", "a")))
    assert [s.data.shape for s in whole.addressable_shards] == [(4, 6)] * 4
    assert [s.index for s in cut.addressable_shards[:2]] == [(slice(0, 2), slice(0, 3)), (slice(2, 4), slice(0, 3))]
    for array in (whole, cut):
        close(array, x)
        one = calque.device_put(array, "cuda:3")
        assert type(one) is cp.ndarray and one.data.device_id == 3
        close(one, x)
        again = calque.device_put(array)
        assert isinstance(again, ShardedArray) and again is not array
        assert calque.block_until_ready(array) is array and cp.waits == [0, 1, 2, 3]
        cp.waits.clear()
        assert type(calque.device_put(array, "cpu")) is np.ndarray
    cp.transfers.clear()
    cp.peer_copies.clear()
    f = shard_map(lambda w, x: psum(w * np.sum(x), ("a", "b")), mesh=mesh, in_specs=(P(), P("b", "a")), out_specs=P())
    found = f(whole, cut)
    assert not cp.transfers and not cp.peer_copies
    assert type(found) is cp.ndarray and found.data.device_id == 0
    close(found, x * x.sum())
    assert "cannot be shared evenly by 2 devices" in refused(ShapeError, calque.device_put, np.ones(3), calque.NamedSharding(mesh, P("a")))


def test_captured_arrays_are_on_every_gpu() -> None:
    w = np.arange(3.0)
    there = cp.asarray(w)
    x = np.ones((4, 3))
    close(pmap(lambda x: x * w, devices=gpus())(x), x * w)
    f = pmap(lambda x: x * there + w, devices=gpus())
    close(f(x), x * w + w)
    close(pmap(lambda x: (there, w, x), devices=gpus(), out_axes=0)(x)[0], [w] * 4)
    w[0] = 5.0
    there[1] = 7.0
    close(f(x), x * np.array([0.0, 7.0, 2.0]) + w)


def test_nothing_that_is_given_back_is_what_was_captured() -> None:
    w = np.arange(3.0)
    f = pmap(lambda x: w, devices=gpus())
    with cp.Device(1):
        f(np.ones(4)).addressable_shards[1].data[...] = 0.0
    close(f(np.ones(4)), [w] * 4)


@pytest.mark.parametrize("wrap", [lambda f, **o: jit(pmap(f, **o)), lambda f, **o: pmap(jit(f), **o)], ids=["jit of pmap", "pmap of jit"])
def test_trees_static_arguments_and_names(wrap: Any) -> None:
    def step(params: Any, x: Any, kind: str) -> Any:
        scale = 2.0 if kind == "twice" else 1.0
        return {"w": params["w"] * scale, "n": (psum(x, "i"), params["b"], None)}, axis_index("i")

    f = wrap(step, axis_name="i", in_axes=({"w": 1, "b": None}, 0, None), out_axes=({"w": 1, "n": 0}, 0), static_broadcasted_argnums=2, devices=gpus())
    w, x = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    for kind, scale in (("twice", 2.0), ("once", 1.0)):
        tree, number = f({"w": w, "b": 3.0}, x, kind)
        close(tree["w"], scale * w)
        close(tree["n"][0], np.full(4, 6.0))
        close(tree["n"][1], np.full(4, 3.0))
        assert tree["n"][2] is None
        close(number, np.arange(4))
    close(pmap(lambda x, y: x - y, devices=gpus())(y=x, x=2.0 * x), x)


def heat_rows(u: Any, kappa: Any, steps: Any) -> Any:
    down = [(k, k + 1) for k in range(calque.axis_size("i") - 1)]
    up = [(k + 1, k) for k in range(calque.axis_size("i") - 1)]
    for t in range(steps):
        above = ppermute(u[-1], "i", down)
        below = ppermute(u[0], "i", up)
        padded = np.vstack((above, u, below))
        change = padded[:-2, 1:-1] + padded[2:, 1:-1] + u[:, :-2] + u[:, 2:] - 4.0 * u[:, 1:-1]
        u[:, 1:-1] += kappa * change
    return np.sum(u * u)


def test_a_plate_whose_rows_are_dealt_out() -> None:
    u = np.random.default_rng(1).normal(size=(4, 3, 6))
    options: Any = {"axis_name": "i", "in_axes": (0, None, None)}
    own = lambda u, kappa, steps: heat_rows(u.copy(), kappa, steps)
    wanted = pmap(value_and_grad(own), **options)(u, 0.1, 5)
    found = pmap(value_and_grad(own), **options, devices=gpus())(u, 0.1, 5)
    for a, b in zip(found, wanted, strict=True):
        close(a, b)
    value = pmap(lambda u, k, s: psum(own(u, k, s), "i"), **options, out_axes=None, devices=gpus())
    bumped = u.copy()
    bumped[2, 1, 3] += 1e-6
    slope = (float(value(bumped, 0.1, 5)) - float(value(u, 0.1, 5))) / 1e-6
    assert abs(slope - host(found[1])[2, 1, 3]) < 1e-4 * abs(slope)


def test_iterations_that_values_of_the_run_decide() -> None:
    def until(x: Any) -> Any:
        n = 0
        while psum(np.sum(x * x), "i") > 1.0:
            x = 0.5 * x
            n = n + 1
        return x, n

    x = np.arange(8.0).reshape(4, 2)
    wanted = pmap(until, "i")(x)
    found = pmap(until, "i", devices=gpus())(x)
    close(found[0], wanted[0])
    close(found[1], wanted[1])


def test_what_a_gpu_raises_says_which_it_was() -> None:
    def picks(x: Any, k: Any) -> Any:
        return psum(x[k], "i")

    f = pmap(picks, "i", devices=gpus())
    close(f(np.ones((4, 3)), np.array([0, 1, 2, 0])), np.full(4, 4.0))
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        calque.block_until_ready(f(np.ones((4, 3)), np.array([0, 7, 2, 0])))
        f(np.ones((4, 3)), np.array([0, 1, 2, 0]))
    close(f(np.ones((4, 3)), np.array([0, 1, 2, 0])), np.full(4, 4.0))


def test_parts_are_alike_whatever_they_are_cut_of() -> None:
    x = np.random.default_rng(5).normal(size=(3, 4, 2))
    there = cp.asarray(x)
    f = pmap(lambda x: np.sin(x) + psum(x, "i"), "i", in_axes=1, out_axes=1, devices=gpus())
    wanted = pmap(lambda x: np.sin(x) + psum(x, "i"), "i", in_axes=1, out_axes=1)(x)
    mesh = make_mesh((4,), ("i",), devices=gpus())
    cut = calque.device_put(x, calque.NamedSharding(mesh, P(None, "i")))
    for given in (x, x[::-1, ::-1][::-1, ::-1], np.asfortranarray(x), there, cp.asarray(np.asfortranarray(x)), cut):
        close(f(given), wanted)
    turned = cp.asarray(np.ascontiguousarray(x.T)).T
    close(f(turned), wanted)
    g = shard_map(lambda w, x: w * psum(x, "i"), mesh=mesh, in_specs=(P(), P(None, "i")), out_specs=P())
    close(g(turned[:, 0:1], there), x[:, 0:1] * x.sum(1, keepdims=True))


@pytest.mark.parametrize("dtype", ["f4", "i4", "?", "c16"])
@pytest.mark.parametrize("shape", [(4,), (4, 0), (4, 1), (4, 7)])
def test_edges_of_shapes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    x = (np.arange(np.prod(shape)).reshape(shape) % 3).astype(dtype)

    def f(x: Any) -> Any:
        return psum(x, "i"), x * x, ppermute(x, "i", [(0, 1)]), calque.all_gather(x, "i")

    for a, b in zip(pmap(f, "i", devices=gpus())(x), pmap(f, "i")(x), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        close(a, b)
    three = pmap(f, "i", devices=gpus()[1:])(x[:3])
    for a, b in zip(three, pmap(f, "i")(x[:3]), strict=True):
        close(a, b)
    close(pmap(lambda x: psum(x, "i"), "i", devices=gpus()[3:])(x[:1]), x[:1])


def test_results_have_memory_of_their_own() -> None:
    there = cp.asarray(np.arange(8.0).reshape(4, 2))
    f = pmap(lambda x, w: (x, x[:1], w), in_axes=(0, None), devices=gpus())
    first = f(there, there[0])
    second = f(first[0], there[0])
    with cp.Device(0):
        there[...] = -1.0
        first[0].addressable_shards[0].data[...] = -2.0
    close(second[0], np.arange(8.0).reshape(4, 2))
    close(second[2], [[0.0, 1.0]] * 4)
    close(first[1], np.arange(0.0, 8.0, 2.0).reshape(4, 1))


def test_within_another_transformation_one_gpu_has_the_devices_as_a_batch() -> None:
    x = cp.asarray(np.linspace(0.0, 1.0, 12).reshape(4, 3))
    f = pmap(lambda x: psum(np.sin(x), "i") * x, "i", devices=gpus())
    found = grad(lambda x: np.sum(f(x)))(x)
    assert type(found) is cp.ndarray
    close(found, grad(lambda x: np.sum(pmap(lambda x: psum(np.sin(x), "i") * x, "i")(x)))(x.get()))


# what is refused


def refused(kind: type, f: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as error:
        f(*args, **kwargs)
    return str(error.value)


def test_an_array_of_several_gpus_where_one_runs() -> None:
    x = pmap(np.sin, devices=gpus())(np.ones((4, 2)))
    for f in (jit(np.cos), grad(lambda x: np.sum(x)), calque.vmap(np.cos)):
        text = refused(MixedDevices, f, x)
        assert "shape (4, 2) is shared by 4 GPUs" in text and 'calque.device_put(x, "cuda:0") puts it together' in text
    assert "calque.device_get(x)" in refused(TypeError, np.asarray, x)
    with calque.debug_nans():
        assert "values on the host" in refused(MixedDevices, pmap(np.sin, devices=gpus()), np.ones((4, 2)))


def test_engines_and_devices_that_do_not_fit() -> None:
    gpus, cpus = calque.devices("gpu"), calque.devices()
    text = refused(UnsupportedOption, pmap, np.sin, devices=gpus, engine="threads")
    assert "the devices are GPUs, which the engine 'threads' does not run" in text
    text = refused(UnsupportedOption, pmap, np.sin, devices=cpus, engine="nccl")
    assert "Instead: leave engine out, or take calque.devices('gpu')" in text
    mesh = calque.make_mesh((4,), ("i",))
    assert "the devices are CPUs" in refused(UnsupportedOption, shard_map, np.sin, mesh=mesh, in_specs=P(), out_specs=P(), engine="nccl")
    assert "5 devices are asked for, and there are 4" in refused(NoSuchDevice, pmap(np.sin, devices=gpus), np.ones((5, 2)))
    assert "the devices are CPUs" in refused(MixedDevices, pmap(np.sin), cp.asarray(np.ones((4, 2))))
    np.testing.assert_allclose(pmap(np.sin, engine="nccl")(np.ones((4, 2))).get(), np.sin(np.ones((4, 2))))


def test_stores_into_memory_that_is_shared() -> None:
    def adds(x: Any, y: Any) -> None:
        x += y

    mesh = make_mesh((4,), ("i",), devices=gpus())
    x, y = (calque.device_put(np.ones((4, 3)), calque.NamedSharding(mesh, P("i"))) for _ in range(2))
    f = pmap(adds, devices=gpus())
    f(x, y)
    close(x, np.full((4, 3), 2.0))
    assert "shares memory with another argument" in refused(AliasUndecided, f, x, x)
    whole = calque.device_put(np.ones(3), calque.NamedSharding(mesh, P()))
    assert "same array on several devices" in refused(ImpureFunction, pmap(adds, in_axes=(None, 0), devices=gpus()), whole, y)


def test_stores_that_the_caller_would_not_see() -> None:
    def doubles(x: Any) -> None:
        x[0] = 2.0 * x[0]

    f = pmap(doubles, devices=calque.devices("gpu"))
    assert "Instead: work on a copy: x = x.copy()" in refused(MixedDevices, f, np.ones((4, 3)))
    mesh = calque.make_mesh((4,), ("i",), devices=calque.devices("gpu"))
    x = calque.device_put(np.ones((4, 3)), calque.NamedSharding(mesh, P("i")))
    f(x)
    np.testing.assert_array_equal(x.get()[:, 0], 2.0)


# text


def mean_grad(w: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        error = np.tanh(x @ w) - y
        return np.mean(error * error)

    return pmean(grad(loss)(w), "i")


def test_a_saved_module_needs_no_calque(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    args = rng.normal(size=3), rng.normal(size=(4, 5, 3)), rng.normal(size=(4, 5))
    f = pmap(mean_grad, "i", (None, 0, 0), None)
    calque.save(f, tmp_path / "saved_gpus.py", *args, engine="nccl")
    text = (tmp_path / "saved_gpus.py").read_text()
    assert "import calque" not in text and "from calque" not in text
    names: dict[str, Any] = {}
    exec(compile(text, "saved_gpus.py", "exec"), names)
    found = names["mean_grad_pmap"](*args)
    assert found.data.device_id == 0
    np.testing.assert_allclose(found.get(), f(*args), rtol=1e-12)
    assert "ValueError" in refused_as_text(names["mean_grad_pmap"], args[0], args[1][:3], args[2][:3])


def refused_as_text(f: Any, *args: Any) -> str:
    with pytest.raises(ValueError) as error:
        f(*args)
    return repr(error.value)


def test_the_stage_and_the_engine_agree() -> None:
    f = pmap(mean_grad, "i", (None, 0, 0), None)
    args = np.ones(3), np.ones((4, 5, 3)), np.ones((4, 5))
    text = calque.source(f, *args, stage="cuda")
    assert text == calque.source(f, *args, engine="nccl") and "comm.pmean(w_bar)" in text
    assert "no stage 'numpy'" in refused(ValueError, calque.source, f, *args, stage="numpy", engine="nccl")
    assert "no stage 'cuda'" in refused(ValueError, calque.source, f, *args, stage="cuda", engine="mpi")
