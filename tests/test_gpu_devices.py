"""`pmap` and `shard_map` over four emulated GPUs: the numbers of threads, and of JAX; what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import device_programs
import numpy as np
import pytest
from cuda_emulator import building, nccl
from cuda_emulator import standin as cp

import calque
from calque import P, grad, pmap, pmean, psum, shard_map
from calque.transpiler.errors import MixedDevices, NoSuchDevice, UnsupportedOption

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
    for name, (f, args) in on_gpus(monkeypatch).items():
        if "outside" in name:
            continue  # there the devices are a batch
        wanted = on_threads[name][0](*args)
        found = f(*args)
        if not np.allclose(host(found), wanted, rtol=1e-12, atol=1e-13) or found.shape != np.shape(wanted):
            wrong.append(name)
    assert not wrong


# what is refused


def refused(kind: type, f: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as error:
        f(*args, **kwargs)
    return str(error.value)


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
