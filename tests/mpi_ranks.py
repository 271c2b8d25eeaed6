"""The program of the ranks of `test_mpi.py`: `mpiexec -n 4 python mpi_ranks.py WHAT [PATH]`."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import calque
from calque import P, grad, jit, make_mesh, pmap, pmean, psum, shard_map

RANK, SIZE = calque.process_index(), calque.process_count()


def loss(w, x, y):
    error = x @ w - y
    return np.mean(error * error)


def mean_grad(w, x, y):
    return pmean(grad(loss)(w, x, y), "i")


step = pmap(mean_grad, axis_name="i", in_axes=(None, 0, 0), out_axes=None)
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(SIZE, 6, 3)), rng.normal(size=(SIZE, 6))


def trained(step, w, iterations=5):
    x, y = calque.shard((X, Y))
    for k in range(iterations):
        w = w - 0.1 * step(w, x, y)
    return w


def training(path):
    """Every rank has the weights that one process would have."""
    for f in (step, jit(step)):
        w = trained(f, np.zeros(3))
        alone = np.zeros(3)
        for k in range(5):
            alone = alone - 0.1 * grad(loss)(alone, X.reshape(-1, 3), Y.reshape(-1))
        np.testing.assert_allclose(w, alone, rtol=1e-12)
    whole = calque.unshard(calque.shard({"x": X}))
    assert np.array_equal(whole["x"], X)
    assert calque.device_count() == SIZE and calque.local_device_count() == 1
    print("right", flush=True)


def part(x, how):
    """This rank's part of an argument or a result of a case of `device_programs`."""
    if how == "pmap":
        return x[RANK : RANK + 1]
    if how == "line":
        return np.split(x, 4)[RANK]
    return np.split(np.split(x, 2)[RANK // 2], 2, axis=1)[RANK % 2]


def numbers(path):
    """All programs of `device_programs`, against what threads gave."""
    import device_programs

    wanted, count = np.load(path), 0
    for name, (f, args) in device_programs.cases().items():
        if "outside" in name or name.startswith("parameter False"):  # there each rank has its own
            continue
        how = "pmap" if name.startswith("pmap") else "line" if "line" in name else "grid"
        if name.startswith("parameter"):
            args = (args[0], part(args[1], "line"))
        else:
            args = tuple(part(x, how) for x in args)
        found = f(*args)
        whole = wanted[f"{name}/0"]
        whole = whole if name.startswith("parameter") else part(whole, how)
        np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-12, err_msg=name)
        count += 1
    print(f"right {count}", flush=True)


def gpu_numbers(path):
    """The same, of arrays on an emulated GPU; and what stays there."""
    import device_programs
    from cuda_emulator import standin, validity

    from calque.runtime.engines.mpi_gpus import MpiGpuCommunicator

    filled = MpiGpuCommunicator._filled

    def noted(self, x, shape, fill):
        """MPI stores by an address, which the emulator does not see."""
        made = filled(self, x, shape, fill)
        if isinstance(made, standin.ndarray):
            validity.store(made._memory)
        return made

    MpiGpuCommunicator._filled = noted
    wanted, count = np.load(path), 0
    with standin.installed():
        for name, (f, args) in device_programs.cases().items():
            if f"{name}/0" not in wanted:
                continue
            how = "pmap" if name.startswith("pmap") else "line" if "line" in name else "grid"
            if name.startswith("parameter"):
                args = (args[0], part(args[1], "line"))
            else:
                args = tuple(part(x, how) for x in args)
            there = [standin.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
            standin.transfers.clear()
            found = f(*there)
            assert type(found) is standin.ndarray, name
            assert not standin.transfers or os.environ.get("CALQUE_MPI_CUDA") != "1", name
            whole = wanted[f"{name}/0"]
            whole = whole if name.startswith("parameter") else part(whole, how)
            assert found.shape == whole.shape, name
            np.testing.assert_allclose(found.get(), whole, rtol=1e-12, atol=1e-12, err_msg=name)
            count += 1
        x = standin.asarray(X[RANK])
        assert np.array_equal(calque.unshard(x).get(), X.reshape(-1, 3))
        assert np.array_equal(calque.shard(standin.asarray(X)).get(), X[RANK : RANK + 1])
        try:
            step(np.zeros(3), standin.asarray(X[RANK : RANK + 1]), standin.asarray(Y[RANK : RANK + 1]))
        except TypeError as error:
            assert "on the host" in str(error) and "calque.device_put" in str(error), error
        else:
            raise AssertionError("an array of the host beside those on a GPU")
    print(f"right {count}", flush=True)


def killed(path):
    """One rank is killed at a random moment."""
    w = trained(step, np.zeros(3), 1)
    print("started", flush=True)
    moment = float(path)
    began = time.time()
    while True:
        if RANK == 1 and time.time() - began > moment:
            os.kill(os.getpid(), signal.SIGKILL)
        w = trained(step, w, 1)


def differs(what):
    """Rank 1 does something else than the others after a first call."""
    w = trained(step, np.zeros(3), 1)
    x, y = calque.shard((X, Y))
    print("started", flush=True)
    if RANK == 1:
        match what:
            case "shapes":
                x, y = x[:, :4], y[:, :4]
            case "dtypes":
                x = x.astype("f4")
            case "program":
                globals()["loss"] = lambda w, x, y: np.mean(np.abs(x @ w - y))
            case "raises":
                raise ArithmeticError("rank 1 fails")
            case "ends":
                return
            case "function":
                pmap(lambda x: psum(np.sum(x), "i"), axis_name="i")(x)
            case "kernel":
                jit(step)(w, x, y)
    for k in range(3):
        w = w - 0.1 * step(w, x, y)
    if what == "outside":
        grad(lambda w: np.sum(pmap(lambda x, w: psum(np.sum(x) * w, "i"), "i", (0, None))(x, w)))(2.0)


def sources(path):
    """The programs of two devices, asked for with a call's arguments, and with types."""
    total = grad(lambda w, x: psum(np.sum(np.tanh(x @ w)), "i"))
    cut = shard_map(total, mesh=make_mesh((2,), ("i",)), in_specs=(P(), P("i", None)), out_specs=P())
    x, y, rows = calque.shard((np.ones((2, 6, 3)), np.ones((2, 6)), np.ones((8, 3))))
    texts = [calque.source(step, np.ones(3), x, y, engine="mpi"), calque.source(cut, np.ones(3), rows, engine="mpi")]
    texts.append(calque.source(step, *map(calque.spec, ("f8[3]", "f8[d,6,3]", "f8[d,6]")), engine="mpi"))
    if RANK == 0:
        calque.save(step, path, np.ones(3), x, y, engine="mpi")
        print(*texts, Path(path).read_text(), sep="\n")


def mesh(path):
    """A mesh must have as many devices as there are ranks."""
    try:
        make_mesh((SIZE + 1,), ("x",))
    except ValueError as error:
        assert f"mpiexec -n {SIZE + 1}" in str(error)
    f = shard_map(lambda x: psum(np.sum(x), "x"), mesh=make_mesh((SIZE,), ("x",)), in_specs=P("x"), out_specs=P())
    assert f(np.ones(2)) == 2 * SIZE
    print("right", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else None)
