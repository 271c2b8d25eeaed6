"""`pmap` and `shard_map` on threads: JAX's numbers, what is refused, what is run."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import device_programs
import numpy as np
import pytest

import calque
from calque import (
    P,
    all_gather,
    grad,
    jit,
    make_mesh,
    pcast,
    pmap,
    pmean,
    ppermute,
    psum,
    shard_map,
    value_and_grad,
    vmap,
)
from calque.transpiler.errors import (
    DevicesDiffer,
    DivergentCollective,
    NoSuchDevice,
    ShapeError,
    UnboundAxisName,
    VariesOverDevices,
)


@pytest.fixture(autouse=True)
def four_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_the_numbers_are_those_of_jax(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    script = Path(__file__).with_name("device_reference.py")
    running = subprocess.Popen([sys.executable, str(script), str(tmp_path / "jax.npz")], stderr=subprocess.PIPE, text=True)
    found = {}
    for name, (f, args) in device_programs.cases().items():
        result = f(*args)
        for k, leaf in enumerate(result if isinstance(result, tuple) else (result,)):
            found[f"{name}/{k}"] = np.asarray(leaf)
    _, errors = running.communicate()
    assert running.returncode == 0, errors
    wanted = dict(np.load(tmp_path / "jax.npz"))
    assert found.keys() == wanted.keys()
    wrong = [n for n, x in wanted.items() if found[n].shape != x.shape or not np.allclose(found[n], x, rtol=1e-10, atol=1e-12)]
    assert not wrong


# whole programs


def loss(params: Any, x: Any, y: Any) -> Any:
    (W_0, b_0), (W_1, b_1) = params
    hidden = np.tanh(x @ W_0 + b_0)
    error = hidden @ W_1 + b_1 - y
    return np.mean(error * error)


def mean_grad(params: Any, x: Any, y: Any) -> Any:
    return pmean(grad(loss)(params, x, y), "i")


def network() -> Any:
    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(3, 5)), rng.normal(size=5)), (rng.normal(size=(5, 2)), rng.normal(size=2))]
    return params, rng.normal(size=(4, 6, 3)), rng.normal(size=(4, 6, 2))


@pytest.mark.parametrize("wrap", [lambda f: pmap(f, "i", (None, 0, 0)), lambda f: jit(pmap(f, "i", (None, 0, 0))), lambda f: pmap(jit(f), "i", (None, 0, 0))], ids=["plain", "jit of pmap", "pmap of jit"])
def test_gradients_averaged_over_devices(wrap: Any) -> None:
    params, x, y = network()
    found = wrap(mean_grad)(params, x, y)
    wanted = grad(loss)(params, x.reshape(24, 3), y.reshape(24, 2))
    for (W, b), (W_bar, b_bar) in zip(found, wanted):
        assert W.shape == (4, *W_bar.shape)
        for k in range(4):
            close(W[k], W_bar)
            close(b[k], b_bar)


def test_a_tensor_parallel_layer_on_a_grid() -> None:
    """The batch is cut along "data", the hidden units along "model"."""
    params, x, y = network()
    (W_0, b_0), (W_1, b_1) = params
    W_0, b_0, W_1 = np.tile(W_0, (1, 2)), np.tile(b_0, 2), np.tile(W_1, (2, 1))
    mesh = make_mesh((2, 2), ("data", "model"))

    def predict(x: Any, W_0: Any, b_0: Any, W_1: Any, b_1: Any) -> Any:
        return psum(np.tanh(x @ W_0 + b_0) @ W_1, "model") + b_1

    def whole_loss(W_0: Any, b_0: Any, W_1: Any, b_1: Any, x: Any, y: Any) -> Any:
        error = predict(x, W_0, b_0, W_1, b_1) - y
        return pmean(np.mean(error * error), "data")

    specs = (P(None, "model"), P("model"), P("model", None), P())
    step = shard_map(value_and_grad(whole_loss, argnums=(0, 1, 2, 3)), mesh=mesh, in_specs=(*specs, P("data"), P("data")), out_specs=(P(), specs))
    x, y = x.reshape(24, 3), y.reshape(24, 2)
    value, bars = step(W_0, b_0, W_1, b_1, x, y)

    def alone(W_0: Any, b_0: Any, W_1: Any, b_1: Any) -> Any:
        error = np.tanh(x @ W_0 + b_0) @ W_1 + b_1 - y
        return np.mean(error * error)

    wanted, wanted_bars = value_and_grad(alone, argnums=(0, 1, 2, 3))(W_0, b_0, W_1, b_1)
    close(value, wanted)
    for bar, other in zip(bars, wanted_bars):
        close(bar, other)


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


def heat(u: Any, kappa: Any, steps: Any) -> Any:
    for t in range(steps):
        padded = np.pad(u, ((1, 1), (0, 0)))
        change = padded[:-2, 1:-1] + padded[2:, 1:-1] + u[:, :-2] + u[:, 2:] - 4.0 * u[:, 1:-1]
        u[:, 1:-1] += kappa * change
    return np.sum(u * u)


def test_a_plate_whose_rows_are_dealt_out() -> None:
    u = np.random.default_rng(1).normal(size=(12, 6))
    values, bars = pmap(value_and_grad(heat_rows), "i", in_axes=(0, None, None))(u.reshape(4, 3, 6), 0.1, 5)
    value, bar = value_and_grad(heat)(u, 0.1, 5)
    close(values.sum(), value)
    close(bars.reshape(12, 6), bar)


def test_results_are_the_same_in_each_run() -> None:
    x = np.random.default_rng(2).normal(size=(4, 50_000))
    total = pmap(lambda x: psum(x, "i"), "i")
    first = total(x)
    for _ in range(5):
        assert np.array_equal(total(x), first)
    assert np.array_equal(first[0], x[0] + x[1] + x[2] + x[3])


@pytest.mark.parametrize("dtype", ["i1", "u2", "f4", "?"])
def test_a_sum_that_is_dealt_out_keeps_its_dtype(dtype: str) -> None:
    x = (np.arange(16).reshape(4, 4) % 3).astype(dtype)
    found = pmap(lambda x: calque.psum_scatter(x, "i"), "i")(x)
    assert found.dtype == dtype
    close(found, x.sum(0).astype(dtype))


def test_axes_of_arguments_and_results() -> None:
    x = np.arange(24.0).reshape(2, 4, 3)
    found = pmap(lambda p, s: (p["a"] * s, p["b"]), in_axes=({"a": 1, "b": None}, None), out_axes=(1, None))({"a": x, "b": 7.0}, 2.0)
    close(found[0], 2.0 * x)
    assert found[1] == 7.0


def test_an_argument_may_be_static() -> None:
    f = pmap(lambda x, kind: x * 2.0 if kind == "twice" else x, static_broadcasted_argnums=1, in_axes=(0, None))
    close(f(np.arange(4.0), "twice"), 2.0 * np.arange(4.0))
    close(f(np.arange(4.0), "once"), np.arange(4.0))


def test_within_other_transformations() -> None:
    x, w = np.linspace(0.0, 1.0, 8).reshape(2, 4), 0.3
    f = pmap(lambda x, w: psum(np.sin(w * x), "i"), "i", in_axes=(0, None))
    one = [np.full(4, np.sin(w * row).sum()) for row in x]
    close(vmap(f, in_axes=(0, None))(x, w), one)
    close(calque.checkpoint(f)(x[0], w), one[0])
    close(grad(lambda w: np.sum(f(x[0], w)))(w), 4.0 * np.sum(x[0] * np.cos(w * x[0])))
    close(jit(grad(lambda w: np.sum(f(x[0], w))))(w), 4.0 * np.sum(x[0] * np.cos(w * x[0])))
    close(calque.jacrev(f)(x[0], w), np.tile(w * np.cos(w * x[0]), (4, 1)))


def test_pcast_keeps_each_devices_own_derivative() -> None:
    x = np.arange(1.0, 5.0)
    mesh = make_mesh((4,), ("i",))

    def own(w: Any, x: Any) -> Any:
        w = pcast(w, "i", to="varying")
        return grad(lambda w: np.sum(w * x))(w) * x

    close(shard_map(own, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"))(2.0, x), x * x)


# what is refused


def refused(kind: type, f: Any, *args: Any) -> str:
    with pytest.raises(kind) as error:
        f(*args)
    return str(error.value)


def test_a_collective_under_a_test_that_differs() -> None:
    def chooses(x: Any) -> Any:
        if x > 0.0:
            y = psum(x, "i")
        else:
            y = 0.0
        return y

    text = refused(DivergentCollective, pmap(chooses, "i"), np.arange(4.0) - 1.0)
    assert "y = psum(x, \"i\")" in text and "axis 'i'" in text and "Instead: call it before the branch" in text

    def iterations(x: Any) -> Any:
        while x < 3.0:
            x = x + psum(1.0, "i") + pmean(x, "i")
        return x

    assert "pmean(x" in refused(DivergentCollective, pmap(iterations, "i"), np.arange(4.0))


def test_a_collective_under_a_test_that_does_not_differ() -> None:
    def chooses(x: Any, w: Any) -> Any:
        y = psum(x, "i")
        if w > 0.0 and y > 1.0:
            y = y + psum(x * x, "i")
        return y

    x = np.arange(4.0)
    close(pmap(chooses, "i", in_axes=(0, None))(x, 1.0), np.full(4, 6.0 + 14.0))
    close(pmap(chooses, "i", in_axes=(0, None))(x, -1.0), np.full(4, 6.0))


def test_a_value_used_in_one_arm_is_summed_before_the_branch() -> None:
    def chooses(x: Any) -> Any:
        total = psum(x, "i")
        if x > 1.0:
            y = total * 2.0
        else:
            y = x
        return y

    for f in (pmap(chooses, "i"), jit(pmap(chooses, "i"))):
        close(f(np.arange(4.0)), [0.0, 1.0, 12.0, 12.0])


def test_what_out_specs_call_whole_is_the_same_on_all() -> None:
    mesh = make_mesh((4,), ("i",))
    f = shard_map(lambda x: np.sum(x), mesh=mesh, in_specs=P("i"), out_specs=P())
    text = refused(VariesOverDevices, f, np.arange(4.0))
    assert "np.sum(x)" in text and "psum or pmean over 'i'" in text


def test_a_loop_that_makes_differ_what_a_derivative_took_for_whole() -> None:
    mesh = make_mesh((4,), ("i",))

    def steps(w: Any, x: Any) -> Any:
        for k in range(3):
            w = w * x[0] - grad(lambda w: np.sum((w * x - 1.0) ** 2))(w)
        return w

    f = shard_map(steps, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"))
    assert "pcast(w, 'i', to='varying')" in refused(VariesOverDevices, f, 1.0, np.arange(4.0))


def test_too_few_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    text = refused(NoSuchDevice, pmap(lambda x: x), np.arange(5.0))
    assert "5 devices are asked for, and there are 4" in text and "CALQUE_CPU_DEVICES=5" in text
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "none")
    assert "must be a positive number" in refused(ValueError, calque.devices)


def test_arguments_that_do_not_fit() -> None:
    mesh = make_mesh((4,), ("i",))
    whole = shard_map(lambda x: x, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    assert "axis 0 of argument 0 has 6 elements" in refused(ShapeError, whole, np.arange(6.0))
    assert "no axis of the mesh" in refused(ValueError, shard_map(lambda x: x, mesh=mesh, in_specs=P("j"), out_specs=P("i")), np.arange(4.0))
    assert "argument 1 has 3 elements" in refused(ShapeError, pmap(lambda x, y: x), np.arange(4.0), np.arange(3.0))
    assert "none has" in refused(ValueError, pmap(lambda x: x, in_axes=None), np.arange(4.0))
    assert "2 entries" in refused(ValueError, pmap(lambda x: x, in_axes=(0, 0)), np.arange(4.0))
    assert "mesh must be a Mesh" in refused(TypeError, shard_map, len)
    assert "Axis names in scope here: 'i'" in refused(UnboundAxisName, pmap(lambda x: psum(x, "j"), "i"), np.arange(4.0))


def test_an_option_that_differs() -> None:
    f = pmap(lambda x, n: np.sum(x, axis=n)[0], in_axes=(0, 0))
    text = refused(DevicesDiffer, f, np.ones((2, 3, 3)), np.array([0, 1]))
    assert "device 1" in text and "in_axes=None" in text


# what happens when one fails


def test_an_exception_on_one_device_ends_the_call_on_all() -> None:
    def checks(x: Any) -> Any:
        if x[0] > 2.0:
            raise ValueError("too large")
        return psum(x, "i")

    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(ValueError, match="too large") as error:
            pmap(checks, "i")(np.arange(8.0).reshape(4, 2))
        assert error.value.__notes__ == ["on device 2 of 4"]
    assert threading.active_count() == before


def test_meshes_and_devices() -> None:
    assert calque.device_count() == calque.local_device_count() == 4
    assert [d.id for d in calque.devices()] == [0, 1, 2, 3] and calque.process_index() == 0
    mesh = make_mesh((2, 2), ("x", "y"))
    assert mesh.shape == {"x": 2, "y": 2} and mesh.size == 4 and repr(mesh) == "Mesh('x': 2, 'y': 2)"
    assert mesh == calque.Mesh(np.array(calque.devices()).reshape(2, 2), ("x", "y"))
    assert "platform 'gpu'" in refused(NoSuchDevice, calque.devices, "gpu")


def test_arrays_on_devices() -> None:
    x = {"w": np.arange(8.0), "n": 2}
    put = calque.device_put(x, calque.devices()[3])
    assert put["w"] is not x["w"] and np.array_equal(put["w"], x["w"]) and put["n"] == 2
    mesh = make_mesh((4,), ("i",))
    close(calque.device_put(x["w"], calque.NamedSharding(mesh, P("i"))), x["w"])
    assert "cannot be shared evenly" in refused(ShapeError, calque.device_put, np.ones(6), calque.NamedSharding(mesh, P("i")))
    assert "CALQUE_CPU_DEVICES=8" in refused(NoSuchDevice, calque.device_put, x, calque.Device("cpu", 7))
    assert "extras cuda12" in refused(NoSuchDevice, calque.device_put, x, "gpu")
    assert "no axis 'j'" in refused(ValueError, calque.NamedSharding, mesh, P("j"))
    with calque.default_device(calque.devices()[1]):
        assert calque.block_until_ready(calque.device_get(put)) == put

    def within(x: Any) -> Any:
        return np.sum(calque.device_get(calque.block_until_ready(calque.device_put(x) * x)))

    close(grad(within)(x["w"]), 2.0 * x["w"])


def test_gathered_along_an_axis() -> None:
    x = np.arange(24.0).reshape(4, 2, 3)
    for axis in (0, 1, 2):
        found = pmap(lambda x: all_gather(x, "i", axis=axis), "i")(x)
        close(found[1], np.stack(list(x), axis=axis))
