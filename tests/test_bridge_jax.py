"""``calque.bridges.jax.wrap``: what JAX's transformations make of it, beside jax.numpy's own derivatives."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import DtypeError, ImpureFunction, NeedsKnownValue

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what JAX itself imports
    jax = pytest.importorskip("jax")
    wrap = calque.bridges.jax.wrap
jnp, lax = jax.numpy, jax.lax

X = np.linspace(0.1, 1.0, 4)
BATCH = np.stack([X, 2.0 * X])


@pytest.fixture(autouse=True)
def single_precision() -> Iterator[None]:
    """JAX's own default, whatever other tests of this process have set."""
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64(False):
        yield


@pytest.fixture(params=[False, True], ids=["float32", "x64"])
def x64(request: pytest.FixtureRequest, single_precision: None):
    with jax.enable_x64(request.param) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64(request.param):
        yield request.param


def total_of(xp: ModuleType) -> Any:
    def total(x, k):
        return xp.sum(xp.sin(x) * x**2 * k)

    return total


def spread_of(xp: ModuleType) -> Any:
    def spread(x, k):
        return xp.exp(x * k) * xp.sum(x * x)

    return spread


def summed(f):
    return lambda *args: f(*args).sum()


def scanned(f):
    def run(x):
        def step(c, k):
            c = 0.1 * f(c, k) + c
            return c, c.sum()

        c, sums = lax.scan(step, x, jnp.array([0.3, 0.4, 0.2]))
        return c.sum() + sums.sum()

    return run


def chosen(f):
    return lambda x: lax.cond(x[0] > 0.15, lambda x: f(x, 0.2).sum(), lambda x: x.sum(), x)


TRANSFORMED = {
    "call": lambda f, x: f(x, 2.0),
    "jit": lambda f, x: jax.jit(f)(x, 2.0),
    "grad": lambda f, x: jax.grad(summed(f), (0, 1))(x, 2.0),
    "value_and_grad": lambda f, x: jax.value_and_grad(summed(f), (0, 1))(x, 2.0),
    "jit grad": lambda f, x: jax.jit(jax.grad(summed(f)))(x, 2.0),
    "jvp": lambda f, x: jax.jvp(f, (x, 2.0), (x, 1.0)),
    "vjp": lambda f, x: jax.vjp(f, x, 2.0)[1](f(x, 2.0)),
    "linearize": lambda f, x: jax.linearize(lambda x: f(x, 2.0), x)[1](x),
    "linear_transpose": lambda f, x: jax.linear_transpose(lambda t: jax.jvp(lambda x: f(x, 2.0), (x,), (t,))[1], x)(f(x, 2.0)),
    "transpose of a batch": lambda f, x: jax.linear_transpose(
        lambda t, s: jax.vmap(lambda t, s, k: jax.jvp(f, (x, k), (t, s))[1], (1, None, 0))(t, s, X[:3].astype(x.dtype)), jnp.ones((4, 3), x.dtype), jnp.ones((), x.dtype)
    )(jax.vmap(lambda k: f(x, k))(X[:3].astype(x.dtype))),
    "vmap": lambda f, x: jax.vmap(f, (1, 0))(BATCH.T.astype(x.dtype), X[:2].astype(x.dtype)),
    "vmap of vmap": lambda f, x: jax.vmap(jax.vmap(f, (0, None)), (None, 0))(BATCH.astype(x.dtype), X.astype(x.dtype)),
    "vmap of grad": lambda f, x: jax.vmap(jax.grad(summed(f)), (0, None))(BATCH.astype(x.dtype), 2.0),
    "grad of vmap": lambda f, x: jax.grad(lambda b: jax.vmap(f, (0, None))(b, 2.0).sum())(BATCH.astype(x.dtype)),
    "hessian": lambda f, x: jax.hessian(summed(f), (0, 1))(x, 2.0),
    "jit hessian": lambda f, x: jax.jit(jax.hessian(summed(f)))(x, 2.0),
    "jacfwd": lambda f, x: jax.jacfwd(f)(x, 2.0),
    "jacrev": lambda f, x: jax.jacrev(f)(x, 2.0),
    "jacrev of jacfwd": lambda f, x: jax.jacrev(jax.jacfwd(f))(x, 2.0),
    "jacrev of jacrev": lambda f, x: jax.jacrev(jax.jacrev(f))(x, 2.0),
    "third order": lambda f, x: jax.jacfwd(jax.jacfwd(jax.jacrev(summed(f))))(x, 2.0),
    "hessian times a vector": lambda f, x: jax.jvp(jax.grad(summed(f)), (x, 2.0), (x, 1.0)),
    "checkpoint": lambda f, x: jax.grad(jax.checkpoint(summed(f)))(x, 2.0),
    "scan": lambda f, x: scanned(f)(x),
    "grad of scan": lambda f, x: jax.jit(jax.grad(scanned(f)))(x),
    "hessian of scan": lambda f, x: jax.hessian(scanned(f))(x),
    "fori_loop": lambda f, x: jax.jvp(lambda x: lax.fori_loop(0, 3, lambda i, c: 0.1 * f(c, 0.3) + c, x), (x,), (x,)),
    "cond": lambda f, x: jax.grad(chosen(f))(x),
    "vmap of cond": lambda f, x: jax.vmap(jax.grad(chosen(f)))(BATCH.astype(x.dtype)),
}


def agree(got: Any, wanted: Any, exact: bool = False) -> None:
    """Compare structure, shapes, dtypes and values."""
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    rtol = 1e-11 if exact else 1e-4
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", sorted(TRANSFORMED))
def test_a_transformation_is_that_of_jaxs_own_function(name: str, x64: bool) -> None:
    x, make = jnp.asarray(X), spread_of if x64 else total_of
    if "scan" in name or "loop" in name:
        make = spread_of  # the state of a loop keeps its shape
    transform = TRANSFORMED[name]
    agree(transform(wrap(make(np)), x), transform(make(jnp), x), exact=x64)


def test_without_kernels() -> None:
    agree(jax.grad(wrap(total_of(np), jit=False))(X, 2.0), jax.grad(total_of(jnp))(X, 2.0))


def diffuse(u, k, steps=3):
    for _ in range(steps):
        u[1:-1] += k * (u[:-2] - 2.0 * u[1:-1] + u[2:])
    return {"energy": np.sum(u * u), "u": u}


def test_loops_and_stores_leave_the_argument_alone() -> None:
    u, own = jnp.asarray(X**2), np.array(X**2, np.float32)
    made = wrap(diffuse)
    wanted = diffuse(own, 0.1, 5)
    agree(made(u, 0.1, steps=5), jax.tree.map(jnp.asarray, wanted))
    agree(jax.jit(made)(u, 0.1, 5), jax.tree.map(jnp.asarray, wanted))
    np.testing.assert_array_equal(u, np.array(X**2, np.float32))
    slope = jax.jit(jax.grad(lambda u, k, n: made(u, k, n)["energy"], (0, 1)))(u, 0.1, 5)
    wanted = calque.grad(lambda u, k: diffuse(u, k, 5)["energy"], (0, 1))(X**2, 0.1)
    np.testing.assert_allclose(slope[0], wanted[0], rtol=1e-5)
    np.testing.assert_allclose(slope[1], wanted[1], rtol=1e-4)


def test_trees_keywords_and_values_that_are_no_numbers() -> None:
    def layer(p, x, kind="tanh", *, flip=False):
        y = np.tanh(p["w"] @ x + p["b"]) if kind == "tanh" else p["w"] @ x
        return {"y": (-y if flip else y), "size": y.shape[0], "kind": kind, "none": None}

    p = {"w": jnp.ones((2, 4)), "b": jnp.arange(2.0)}
    made = wrap(layer)
    assert made.__name__ == "layer"
    found = made(p, X, flip=True)
    np.testing.assert_allclose(found["y"], -np.tanh(np.sum(X) + np.arange(2.0)), rtol=1e-6)
    assert found["size"] == 2 and found["kind"] == "tanh" and found["none"] is None
    np.testing.assert_allclose(made(p, X, "linear")["y"], np.sum(X) * np.ones(2), rtol=1e-6)
    slope = jax.grad(lambda p: made(p, X)["y"].sum())(p)
    agree(slope, jax.grad(lambda p: jnp.tanh(p["w"] @ jnp.asarray(X) + p["b"]).sum())(p))


def test_integers_bools_and_empty_arrays() -> None:
    def mixed(i, x, b):
        return x[i], i + 1, np.where(b, x, -x), i > 1, x.T[::-1], np.sum(x)

    made, i, x = wrap(mixed), jnp.array([2, 1]), jnp.asarray(X)
    agree(made(i, x, x > 0.5), (x[i], i + 1, jnp.where(x > 0.5, x, -x), i > 1, x[::-1], jnp.sum(x)))
    agree(jax.grad(lambda x: made(i, x, x > 0.5)[0].sum())(x), jnp.zeros(4).at[i].add(1.0))
    agree(jax.vmap(lambda i: made(i, x, x > 0.5)[0])(jnp.array([[2, 1], [0, 0]])), x[jnp.array([[2, 1], [0, 0]])])
    assert jax.grad(lambda i: made(i, x, x > 0.5)[0].sum(), allow_int=True)(i).dtype == jax.dtypes.float0
    none = jnp.ones((0, 3))
    agree(jax.grad(lambda x: wrap(lambda x: x * 2.0)(x).sum())(none), none)


def test_a_python_integer_may_decide_a_size() -> None:
    def repeated(n, x):
        return np.zeros(n) + x

    made = wrap(repeated)
    agree(made(3, 2.0), jnp.full(3, 2.0))
    agree(jax.jit(made, static_argnums=0)(2, 2.0), jnp.full(2, 2.0))
    agree(jax.grad(lambda x: made(3, x).sum())(2.0), jnp.float32(3.0))
    for n in range(4, 10):  # no number of which calque warns that it changes
        agree(jax.vmap(lambda x: made(n, x))(jnp.ones(n)), jnp.ones((n, n)))
    with pytest.raises(NeedsKnownValue, match="(?s)A result of repeated, .*static_argnums"):
        jax.jit(made)(3, 2.0)


def test_complex_numbers_have_jaxs_derivatives(x64: bool) -> None:
    def moduli_of(xp):
        return lambda z: (xp.sum(xp.abs(z) ** 2), z * z, xp.conj(z))

    def energy_of(xp):
        return lambda z: xp.sum(xp.abs(z) ** 2 + xp.real(z))

    z = jnp.array([1 + 2j, 3 - 1j])
    f, g = wrap(moduli_of(np)), moduli_of(jnp)
    agree(jax.jvp(f, (z,), (1j * z,)), jax.jvp(g, (z,), (1j * z,)), exact=x64)
    ct = (g(z)[0], z, 1j * z)
    agree(jax.vjp(f, z)[1](ct), jax.vjp(g, z)[1](ct), exact=x64)
    f, g = wrap(energy_of(np)), energy_of(jnp)
    agree(jax.grad(f)(z), jax.grad(g)(z), exact=x64)
    agree(jax.jvp(f, (z,), (1j * z + 1,)), jax.jvp(g, (z,), (1j * z + 1,)), exact=x64)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint32", "bool"])
def test_a_dtype_comes_back(dtype: str) -> None:
    x = jnp.array([1, 0, 1]).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calque.JitFallback)  # no kernel has float16
        agree(wrap(lambda x: x)(x), x)


def test_a_method_is_wrapped() -> None:
    class Spring:
        stiffness = 3.0

        def energy(self, x):
            return self.stiffness * np.sum(x * x)

    agree(jax.grad(wrap(Spring().energy))(jnp.asarray(X)), 6.0 * jnp.asarray(X))


def test_a_transformed_function_is_wrapped() -> None:
    slope = wrap(calque.grad(lambda x: np.sum(x**3)))
    agree(jax.jacrev(slope)(jnp.asarray(X)), jnp.diag(6.0 * jnp.asarray(X)))


def test_a_program_is_made_once() -> None:
    traced = []

    class Counted:
        def __call__(self, x):
            return np.sum(np.sin(x))

        @property
        def __name__(self):
            traced.append(1)
            return "counted"

    slope = jax.grad(wrap(Counted()))
    for _ in range(3):
        slope(X)
    once = len(traced)
    slope(X + 1.0)
    assert len(traced) == once


def test_large_arrays_do_not_wait_for_each_other() -> None:
    made = wrap(lambda x: np.cumsum(x))
    both = jax.jit(lambda x: made(2.0 * x).sum() + jax.vmap(made)(x.reshape(2, -1)).sum())
    x = jnp.ones(1_000_000)
    for _ in range(3):
        assert np.isfinite(jax.grad(both)(x)[0])


def test_what_is_refused_names_the_function() -> None:
    def positive(x):
        return x[x > 0]

    def noisy(x):
        return x * np.random.normal()

    with pytest.raises(NeedsKnownValue, match="A result of positive"):
        wrap(positive)(X)
    with pytest.raises(ImpureFunction, match="noisy"):
        wrap(noisy)(X)
    with pytest.raises(TypeError, match="noisy: an argument has dtype bfloat16"):
        wrap(noisy)(jnp.asarray(X, "bfloat16"))
    with pytest.raises(TypeError, match=r"noisy: an argument is set, \{1.0\}.*register_dataclass"):
        wrap(noisy)({1.0})
    with pytest.raises(TypeError, match="wrap: fun must be a function"):
        wrap(3)
    with pytest.raises(TypeError, match="wrap: jit must be True or False"):
        wrap(noisy, jit="numba")


def test_without_numba_numpy_source_answers(tmp_path: Path) -> None:
    text = "import sys; sys.modules['numba'] = None; import calque, jax, numpy as np\ndef f(x): return np.sum(x**2)\n"
    (tmp_path / "page.py").write_text(text + "print(jax.grad(calque.bridges.jax.wrap(f))(np.ones(3)))\n")
    done = subprocess.run([sys.executable, str(tmp_path / "page.py")], capture_output=True, text=True)
    assert done.stdout.strip() == "[2. 2. 2.]", done.stderr[-2000:]


def test_without_jax_the_command_that_brings_it_is_named() -> None:
    code = "import sys; sys.modules['jax'] = None; import calque; calque.bridges.jax"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "calque[jax]"' in done.stderr.splitlines()[-1]


DEVICES = """
import jax, jax.numpy as jnp, numpy as np, calque
from jax.sharding import NamedSharding, PartitionSpec as P
def waves(x, k):
    return np.exp(x * k)
made, x = calque.bridges.jax.wrap(waves), jnp.linspace(0.1, 1.0, 4)
mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
def mapped(f, check):
    return jax.shard_map(f, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"), check_vma=check)
def slopes(f):
    return jax.jit(jax.grad(lambda x, k: f(x, k).sum(), (0, 1)))(x, 2.0)
wanted = slopes(lambda x, k: jnp.exp(x * k))
for found in (slopes(mapped(made, False)), slopes(made)):
    assert all(np.allclose(a, b, rtol=1e-5) for a, b in zip(found, wanted)), (found, wanted)
apart = jax.device_put(x, NamedSharding(mesh, P("i")))
assert np.allclose(jax.jit(made)(apart, 2.0), jnp.exp(2.0 * x), rtol=1e-6)
assert made(jax.device_put(x, jax.devices()[1]), 2.0).devices() == {jax.devices()[1]}
try:
    mapped(made, True)(x, 2.0)
except calque.transpiler.errors.UnsupportedOption as error:
    print(error)
"""


def test_several_devices_and_shard_map(tmp_path: Path) -> None:
    if not hasattr(jax, "shard_map"):
        pytest.skip("this JAX has no jax.shard_map")
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    (tmp_path / "devices.py").write_text(DEVICES)
    done = subprocess.run([sys.executable, str(tmp_path / "devices.py")], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "waves: shard_map with check_vma=True" in done.stdout
    assert "pass check_vma=False" in done.stdout


@pytest.mark.parametrize("transform", [calque.grad, calque.jit, calque.vmap])
def test_arrays_of_jax_are_refused_with_the_name_of_the_bridge(transform: Any) -> None:
    with pytest.raises(DtypeError, match=r"x\) is JAX's ArrayImpl.*\n.*calque.bridges.jax.wrap\(f\)"):
        transform(lambda x: np.sum(x**2))(jnp.ones(3))
