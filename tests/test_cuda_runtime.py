"""Calls with arrays of CuPy: programs run where the arrays are, and nothing moves unasked.

A stand-in for CuPy is installed, whose arrays are none of NumPy's, and which counts transfers.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import ON_CARD, counts, installed, wait
from cuda_emulator.running import library as cp

import calque
from calque.runtime.call import dispatch
from calque.runtime.cuda import captured_arrays
from calque.runtime.cuda.launcher_dispatch import DeviceDispatcher
from calque.transpiler.errors import (
    AliasUndecided,
    MixedDevices,
    NeedsKnownValue,
    NoSuchDevice,
    NotDifferentiable,
    ShapeError,
    UnsupportedOption,
)

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
X, Y = np.random.default_rng(3).standard_normal((2, 600))
SEVERAL = pytest.mark.skipif(ON_CARD, reason="it takes as many GPUs as it says, which the stand-in has")


@pytest.fixture(autouse=True)
def standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "2")
    with installed():
        for log in (counts.transfers, counts.waits, counts.launches):
            log.clear()
        yield
    counts.device_count = 1


def there(*arrays: np.ndarray) -> Any:
    """Arrays on the device; transfers from here on count."""
    made = [cp.asarray(a) for a in arrays]
    counts.transfers.clear()
    return made if len(made) > 1 else made[0]


def assert_there(found: Any, wanted: Any) -> None:
    """An array of CuPy with these numbers, for which nothing was moved, and nobody waited."""
    assert type(found) is cp.ndarray
    assert ON_CARD or not (counts.transfers or counts.waits)
    np.testing.assert_allclose(found.get(), wanted, rtol=1e-11, atol=1e-12)
    counts.transfers.clear()


def refused(kind: type, f: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as error:
        f(*args, **kwargs)
    return str(error.value)


class Foreign:
    """As another library's array on a GPU shows itself."""

    def __init__(self, array: Any, read_only: bool = False):
        self.array, self.read_only = array, read_only

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = self.array.__cuda_array_interface__
        return {**interface, "data": (interface["data"][0], self.read_only)}


class Capsule:
    """The same for a library that has DLPack alone."""

    def __init__(self, array: Any):
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return getattr(self.array, "_memory", self.array).__dlpack__()


def selu(x, alpha=1.67):
    return 1.05 * np.where(x > 0, x, alpha * np.exp(x) - alpha)


def half(x):
    return np.sum(0.5 * x * x * np.tanh(x))


# calls


def test_a_program_runs_where_the_arrays_are():
    x = there(X)
    f = calque.jit(selu)
    assert_there(f(x), selu(X))
    assert ON_CARD or counts.launches == ["selu_kernel"]
    assert_there(f(x, 2.0), selu(X, 2.0))
    assert_there(f(x, alpha=2.0), selu(X, 2.0))
    np.testing.assert_allclose(f(X), selu(X), rtol=1e-14)  # on the host as ever
    assert ON_CARD or counts.transfers == []


@pytest.mark.parametrize(
    "transform",
    [
        calque.grad,
        calque.value_and_grad,
        lambda f: calque.jit(calque.grad(f)),
        lambda f: calque.grad(calque.jit(f)),
        calque.vmap,
        calque.jacrev,
    ],
    ids=["grad", "value_and_grad", "jit of grad", "grad of jit", "vmap", "jacrev"],
)
def test_transformations(transform):
    argument = X.reshape(20, 30) if transform is calque.vmap else X
    wanted, found = transform(half)(argument), transform(half)(there(argument))
    for one, other in zip(*[v if isinstance(v, tuple) else (v,) for v in (found, wanted)]):
        np.testing.assert_allclose(one.get(), other, rtol=1e-10)


def test_derivatives_at_a_point():
    x, y = there(X, Y)
    value, pull = calque.vjp(selu, x)
    wanted, pull_here = calque.vjp(selu, X)
    assert_there(value, wanted)
    assert_there(pull(y)[0], pull_here(Y)[0])
    value, tangent = calque.jvp(selu, (x,), (y,))
    assert_there(tangent, calque.jvp(selu, (X,), (Y,))[1])
    assert_there(calque.linearize(selu, x)[1](y), calque.linearize(selu, X)[1](Y))
    f_vjp = calque.vjp(selu)
    assert_there(f_vjp(x, y)[0], pull_here(Y)[0])
    assert_there(f_vjp(x, y)[0], pull_here(Y)[0])
    assert refused(ValueError, f_vjp, x, y[:-1]) == (
        "vjp: the result is float64[600], and its cotangent float64[599]"
    )
    assert "has shape (599,), and its primal (600,)" in refused(ValueError, calque.jvp, selu, (x,), (y[:-1],))


def test_trees_of_arrays_and_names_and_static_arguments():
    def layer(p, x, scale, *, kind):
        made = np.tanh(x * p["w"] + p["b"][0]) * scale
        return {"y": made, "kind": (made + 1.0 if kind == "more" else made, 3)}

    x, w, b = there(X, Y, np.array([0.5]))
    f = calque.jit(layer, static_argnames="kind")
    for kind, scale in (("more", 2), ("less", 2), ("more", 3), ("more", 2)):
        found = f({"w": w, "b": [b]}, x, scale, kind=kind)
        wanted = layer({"w": Y, "b": [np.array([0.5])]}, X, scale, kind=kind)
        assert_there(found["y"], wanted["y"])
        assert_there(found["kind"][0], wanted["kind"][0])
        assert found["kind"][1] == 3


def test_a_number_that_the_code_holds_is_part_of_the_key():
    power = calque.jit(lambda x, n: sum(x**k for k in range(n)))
    x = there(X)
    for n in (2, 3, 2, 3):
        assert_there(power(x, n), sum(X**k for k in range(n)))


def test_a_second_call_is_found_by_shapes(monkeypatch):
    x, y = there(X, Y)
    f, g = calque.jit(selu), calque.grad(lambda p: half(p["x"]) + half(p["y"]))
    f(x), f(x, alpha=2.0), g({"x": x, "y": y})
    monkeypatch.setattr(DeviceDispatcher, "find", None)
    assert_there(f(y), selu(Y))
    assert_there(f(y, alpha=2.0), selu(Y, 2.0))
    assert_there(g({"x": y, "y": x})["y"], calque.grad(half)(X))


def test_one_program_for_all_sizes_and_one_account():
    f = calque.jit(selu)
    for size in (10, 20, 600):
        assert_there(f(there(X[:size])), selu(X[:size]))
    assert str(f.cache_info()) == "1 generated; kernels: 0 compiled, 0 loaded\n- first call"
    f.cache_clear()
    assert f.cache_info().programs == 0


def test_layouts_and_numbers_of_no_dims():
    f = calque.jit(lambda x, a: np.sin(x) * a)
    matrix, number = there(X.reshape(20, 30), np.array(2.0))
    assert_there(f(matrix.T, number), np.sin(X.reshape(20, 30).T) * 2.0)
    assert_there(f(matrix[::2, 3:], np.array(3.0)), np.sin(X.reshape(20, 30)[::2, 3:]) * 3.0)
    assert_there(f(matrix, np.float64(4.0)), np.sin(X.reshape(20, 30)) * 4.0)
    assert f(matrix[:0], 1.0).shape == (0, 30)


def test_source_is_shown_for_arrays_there():
    x = there(X)
    assert "cp." in calque.source(calque.jit(selu), x, stage="cuda")
    assert "np." in calque.source(calque.grad(half), x)
    assert "x_dot" in calque.source(calque.jvp(half), x)


# arrays of other libraries


def test_other_libraries_arrays_go_in_without_a_copy():
    x, y = there(X, Y)
    f = calque.jit(selu)
    for kind in (Foreign, Capsule):
        assert_there(f(kind(x)), selu(X))
        assert_there(f(kind(y)), selu(Y))
    assert_there(calque.grad(lambda p: half(p["x"]))({"x": Foreign(x)})["x"], calque.grad(half)(X))
    assert calque.device_get(Foreign(x)).tolist() == X.tolist()


def test_what_another_library_may_not_change_is_not_changed():
    def store(x):
        x[0] = 7.0
        return np.sum(x)

    x = there(X)
    f = calque.jit(store)
    f(Foreign(x))
    assert float(x[0]) == 7.0
    f(x)
    assert refused(MixedDevices, f, Foreign(x, read_only=True)) == (
        "store_jit: argument 0 (x) is stored into, and is a Foreign, which may not change.\n"
        "Instead: pass an array of CuPy"
    )


# what is refused


def test_arrays_of_the_host_beside_those_of_the_device():
    def layer(p, x, n):
        return p["w"] * x + n

    f = calque.jit(layer)
    x = there(X)
    assert refused(MixedDevices, f, {"w": Y}, x, 1) == (
        "layer_jit: argument 0 (p['w']) on the host and argument 1 (x) on cuda:0 are given together.\n"
        "Instead: calque.device_put(p['w'], \"cuda:0\") or cupy.asarray(p['w'])"
    )
    moved = calque.device_put(Y, "cuda:0")
    counts.transfers.clear()
    assert_there(f({"w": moved}, x, 1), Y * X + 1)
    assert "argument 0 (p['w']) on the host" in refused(TypeError, f, {"w": Y}, x, 1)


@SEVERAL
def test_arrays_of_two_devices():
    counts.device_count = 2
    x = there(X)
    y = calque.device_put(Y, "cuda:1")
    f = calque.jit(lambda x, y: x * y)
    assert refused(MixedDevices, f, x, y) == (
        "function_jit: argument 0 (x) on cuda:0 and argument 1 (y) on cuda:1 are given together.\n"
        'Instead: calque.device_put(y, "cuda:0")'
    )
    found = f(calque.device_put(x, "cuda:1"), y)
    assert found.data.device_id == 1
    assert f(y, y).data.device_id == 1 and f(x, x).data.device_id == 0


def test_a_value_that_the_code_needs():
    f = calque.jit(lambda x, axis: np.sum(x, axis=axis))
    x, axis = there(X.reshape(20, 30), np.array(1))
    text = refused(NeedsKnownValue, f, x, axis)
    assert "it is on a GPU" in text and "Instead: pass x.item(), which waits for the GPU" in text
    assert_there(f(x, 1), X.reshape(20, 30).sum(axis=1))


def test_what_no_target_takes_is_refused_as_on_the_host():
    def integers(x):
        return np.sum(x)

    k = there(np.arange(3))
    assert refused(NotDifferentiable, calque.grad(integers), k) == refused(NotDifferentiable, calque.grad(integers), np.arange(3))
    x, y = there(X, Y[:-1])
    added = calque.jit(lambda x, y: x + y)
    assert refused(ShapeError, added, x, y) == refused(ShapeError, added, X, Y[:-1])
    with calque.debug_nans():
        assert "calque.device_get(x)" in refused(MixedDevices, calque.grad(half), x)


# captured arrays


def test_a_captured_array_of_the_host_is_moved_when_it_changes():
    weights = Y.copy()
    f = calque.jit(lambda x: np.sum(weights * x))
    x = there(X)
    f(x), f(x)
    assert ON_CARD or counts.transfers == ["put"]
    weights[3] = 100.0
    np.testing.assert_allclose(float(f(x)), np.sum(weights * X))
    assert ON_CARD or counts.transfers == ["put", "put", "get"]
    weights = np.ones(600, np.float32)
    np.testing.assert_allclose(float(f(x)), np.sum(X))
    del f
    kept = len(captured_arrays._moved)
    weights = None
    gc.collect()
    assert len(captured_arrays._moved) == kept - 1


def test_a_result_is_not_what_is_kept():
    weights = Y.copy()
    f = calque.jit(lambda x: (weights, x * weights[2:3]))
    x = there(X)
    f(x)[0][:] = 0.0
    np.testing.assert_array_equal(f(x)[0].get(), Y)


class Model:
    def __init__(self, weights):
        self.weights = weights

    @calque.jit
    def value(self, x):
        return np.sum(np.tanh(self.weights * x))


def test_captured_arrays_of_the_device():
    x, y = there(X, Y)
    model = Model(y)
    wanted = np.sum(np.tanh(Y * X))
    assert_there(model.value(x), wanted)
    assert_there(calque.grad(model.value)(x), calque.grad(lambda x: np.sum(np.tanh(Y * x)))(X))
    f = calque.jit(lambda s: np.sum(y * s))  # numbers go where what is captured lies
    for s in (2.0, 3.0):
        assert_there(f(s), np.sum(Y * s))
    assert refused(MixedDevices, f, X) == (
        "function_jit: y lies on a GPU, and the arguments do not.\n"
        'Instead: calque.device_put(x, "cuda:0") moves an argument there'
    )
    y = Y
    np.testing.assert_allclose(f(X), np.sum(Y * X))


def test_functions_made_anew_share_their_programs(monkeypatch):
    loads = []
    load = dispatch.load
    monkeypatch.setattr(dispatch, "load", lambda *args: loads.append(args) or load(*args))
    p = there(np.zeros(600))
    q = np.zeros(600)
    for k in range(6):
        batch = X * k
        moved = there(batch)

        def loss(p, batch=batch, x=moved):
            return np.sum((p - x) ** 2)

        p = p - 0.1 * calque.grad(lambda p, x=moved: np.sum((p - x) ** 2))(p)
        q = q - 0.1 * 2.0 * (q - batch)
    assert_there(p, q)
    assert len(loads) <= 3


# stores into arguments


def test_stores_are_the_callers():
    def step(u, v):
        u[1:-1] += 0.1 * v[2:]
        return np.sum(u)

    want = X.copy()
    value = step(want, Y)
    u, v = there(X, Y)
    f = calque.jit(step)
    assert_there(f(u, v), value)
    assert_there(u, want)
    both = there(np.concatenate([X, Y]))
    assert_there(f(both[:600], both[600:]), value)
    assert_there(both, np.concatenate([want, Y]))
    for wrong in ((both[:600], both[300:900]), (u, u)):
        text = refused(AliasUndecided, f, *wrong)
        assert "u is stored into, and shares memory with another argument" in text


# devices


@SEVERAL
def test_devices_of_the_gpu():
    counts.device_count = 2
    first, second = calque.devices("cuda")
    assert calque.devices("gpu") == [first, second] == calque.local_devices(backend="gpu")
    assert (first.platform, repr(first), str(second)) == ("gpu", "CudaDevice(id=0)", "cuda:1")
    assert all(d.platform == "cpu" for d in calque.devices())
    assert "There is no CudaDevice(id=2); there are CudaDevice(id=0), CudaDevice(id=1)." in refused(
        NoSuchDevice, calque.device_put, X, "cuda:2"
    )
    assert "is no device; there are CpuDevice(id=0)" in refused(NoSuchDevice, calque.device_put, X, "tpu")
    assert calque.Mesh(np.array([first, second]), ("i",)).shape == {"i": 2}
    mixed = [first, calque.devices()[0]]
    assert "devices of one platform" in refused(NoSuchDevice, calque.Mesh, np.array(mixed), ("i",))
    assert "devices of one platform" in refused(NoSuchDevice, calque.pmap(half, devices=mixed), np.stack([X, X]))
    assert "cuda:1 twice" in refused(NoSuchDevice, calque.Mesh, np.array([second, second]), ("i",))
    counts.device_count = 0
    assert "CuPy finds no GPU" in refused(NoSuchDevice, calque.devices, "cuda")


@SEVERAL
def test_putting_and_getting():
    counts.device_count = 2
    tree = {"w": X, "n": 2.0}
    put = calque.device_put(tree, calque.devices("gpu")[1])
    assert {type(leaf) for leaf in put.values()} == {cp.ndarray}
    assert put["w"].data.device_id == put["n"].data.device_id == 1
    assert calque.block_until_ready(put) is put and counts.waits == [1]
    again = calque.device_put(put["w"])
    assert again is not put["w"] and type(again) is cp.ndarray
    for back in (calque.device_get(put), calque.device_put(put, "cpu")):
        assert type(back["w"]) is np.ndarray
        np.testing.assert_array_equal(back["w"], X)
    assert type(calque.device_get(tree)["n"]) is float


@SEVERAL
def test_a_default_device():
    counts.device_count = 2
    f = calque.jit(selu)
    with calque.default_device("cuda:1"):
        found = f(X)
        assert calque.device_put(X).data.device_id == 1
        with calque.default_device(calque.devices()[0]):
            assert type(f(X)) is np.ndarray
        stores = calque.jit(lambda x: x.__setitem__(0, 1.0))
        assert "lies on the host: the caller would not see it" in refused(MixedDevices, stores, X.copy())
    assert found.data.device_id == 1
    np.testing.assert_allclose(found.get(), selu(X))
    assert type(f(X)) is np.ndarray


@SEVERAL
def test_a_function_on_one_device():
    counts.device_count = 2
    f = calque.jit(selu, device="cuda:1")
    found = f(X)
    assert found.data.device_id == 1
    np.testing.assert_allclose(f(there(X)).get(), selu(X))
    assert f(there(X)).data.device_id == 1
    np.testing.assert_allclose(calque.grad(lambda x: np.sum(f(x)))(X), calque.grad(lambda x: np.sum(selu(x)))(X))
    here = calque.jit(selu, device=calque.devices()[0])
    assert type(here(found)) is np.ndarray
    assert refused(NoSuchDevice, calque.jit, selu, device="cuda:7").startswith("There is no CudaDevice(id=7)")
    assert "choose the devices" in refused(UnsupportedOption, calque.jit, calque.pmap(half), device="cuda:0")


def test_an_index_outside_is_raised_by_whoever_waits():
    def picked(x, k):
        return x[k]

    x, inside, outside = there(X, np.arange(5), np.array([1, 700]))
    f = calque.jit(picked)
    for waits in (calque.block_until_ready, calque.device_get):
        found = f(x, outside)
        assert "return x[k]: index 700 is out of bounds" in refused(IndexError, waits, found)
        assert np.isnan(found.get()[1])
        assert_there(f(x, inside), X[:5]) if not counts.transfers.clear() and not counts.waits.clear() else None
    f(x, outside)
    wait()
    assert "index 700 is out of bounds" in refused(IndexError, f, x, inside)
