"""NumPy functions in PyTensor: values, derivatives, shapes, in each backend, against its own formulas."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

pytest.importorskip("pytensor")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTensor and its friends say when they are imported
    import pytensor
    import pytensor.tensor as pt
    from pytensor.compile.mode import Mode
    from pytensor.gradient import DisconnectedInputError, NullTypeGradError

import calque

wrap = calque.bridges.pytensor.wrap
MODES = {
    "c": lambda: Mode("cvm", "fast_run"),
    "python": lambda: Mode("py", "fast_compile"),
    "numba": lambda: "NUMBA",
    "jax": lambda: "JAX",
}
RNG = np.random.default_rng(0)
W, X, SEEN = RNG.normal(size=4), RNG.normal(size=(3, 4)), np.arange(3.0)


def energy(x, scale):
    total = 0.0
    for i in range(x.size):
        total += scale * x[i] ** 3
    return total


def epidemic(rates, start):
    """Daily numbers of the infected: stores, in a loop that carries three numbers."""
    s, i, seen = 1.0 - start, start, np.zeros(20)
    for day in range(20):
        new, gone = rates[0] * s * i, rates[1] * i
        s, i = s - new, i + new - gone
        seen[day] = i
    return seen


def epidemic_of_pytensor(rates, start):
    s, i, seen = 1.0 - start, start, []
    for _ in range(20):
        new, gone = rates[0] * s * i, rates[1] * i
        s, i = s - new, i + new - gone
        seen.append(i)
    return pt.stack(seen)


def steps(x):
    """A store into an argument, a branch on values and a while loop."""
    x[1:] += np.sin(x[:-1])
    while np.sum(x * x) > 1.0:
        x *= 0.5
    if x[0] > 0.0:
        return x * x[0]
    return -x


def steps_of_pytensor(x):
    x = pt.concatenate([x[:1], x[1:] + pt.sin(x[:-1])])
    for _ in range(6):
        x = pt.switch(pt.sum(x * x) > 1.0, 0.5 * x, x)
    return pt.switch(x[0] > 0.0, x * x[0], -x)


def deviance(w, x, seen):
    return np.sum(np.logaddexp(0.0, x @ w) - seen * (x @ w))


def deviance_of_pytensor(w, x, seen):
    return pt.sum(pt.logaddexp(0.0, x @ w) - seen * (x @ w))


def gaussian(a, x):
    m = a @ a.T + 3.0 * np.eye(3)
    return -0.5 * x @ np.linalg.solve(m, x) - 0.5 * np.linalg.slogdet(m)[1]


def gaussian_of_pytensor(a, x):
    m = a @ a.T + 3.0 * pt.eye(3)
    return -0.5 * x @ pt.linalg.solve(m, x) - 0.5 * pt.log(pt.linalg.det(m))


def captures(x):
    return np.sum((x - SEEN) ** 2)


def layered(x, w):
    for _ in range(3):
        x = layer(x, w)
    return x


def layer(x, w):
    return np.tanh(w @ x) + 0.1 * np.cumsum(x)


def layered_of_pytensor(x, w):
    for _ in range(3):
        x = pt.tanh(w @ x) + 0.1 * pt.cumsum(x)
    return x


CASES = {
    "energy": (energy, lambda x, s: s * pt.sum(x**3), (W, np.array(0.7))),
    "epidemic": (epidemic, epidemic_of_pytensor, (np.array([0.9, 0.3]), np.array(0.1))),
    "steps": (steps, steps_of_pytensor, (W,)),
    "deviance": (deviance, deviance_of_pytensor, (W, X, SEEN)),
    "gaussian": (gaussian, gaussian_of_pytensor, (X[:, :3], W[:3])),
    "captures": (captures, lambda x: pt.sum((x - SEEN) ** 2), (W[:3],)),
    "layered": (layered, layered_of_pytensor, (W, RNG.normal(size=(4, 4)))),
}


def variables(values):
    return [pt.tensor(dtype=v.dtype, shape=(None,) * v.ndim) for v in map(np.asarray, values)]


def compiled(inputs, outputs, mode):
    """A function of PyTensor; a warning (of object mode, say) is an error."""
    if mode == "jax":
        pytest.importorskip("jax")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        made = pytensor.function(inputs, outputs, mode=MODES[mode](), on_unused_input="ignore")
        return lambda *values: [np.asarray(y) for y in made(*values)]


def derivatives(f, xs, seed, order):
    """The value, the gradient of a weighted sum, and the gradient of that gradient's weighted sum."""
    y = f(*xs)
    gradient = pytensor.grad(pt.sum(pt.cos(y) * seed), xs)
    if order == 1:
        return [y, *gradient]
    second = pytensor.grad(sum(pt.sum(pt.sin(g)) for g in gradient), xs)
    return [y, *gradient, *second]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_value_and_two_derivatives(name, mode):
    f, own, values = CASES[name]
    before = [v.copy() for v in values]
    xs = variables(values)
    order = 1 if mode == "numba" and name != "energy" else 2  # it compiles for seconds
    seed = np.linspace(0.5, 1.5, 20)[: np.size(f(*(v.copy() for v in values)))]
    seed = seed if np.ndim(f(*(v.copy() for v in values))) else seed[0]
    found = compiled(xs, derivatives(wrap(f), xs, seed, order), mode)(*values)
    expected = pytensor.function(xs, derivatives(own, xs, seed, order), mode=Mode("py", None))
    for a, b in zip(found, expected(*values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
        assert a.dtype == b.dtype
    assert all(np.array_equal(a, b) for a, b in zip(before, values))


@pytest.mark.parametrize("name", CASES)
def test_verify_grad(name):
    f, _, values = CASES[name]
    verify = functools.partial(pytensor.gradient.verify_grad, rng=np.random.default_rng(1))
    verify(wrap(f), list(values), mode=Mode("py", None))


def test_forward_mode():
    x, rates, dot = pt.scalar("x"), pt.vector("rates"), pt.vector("dot")
    old = pytensor.__version__.startswith("2.")
    push = pytensor.gradient.Rop if old else pytensor.gradient.pushforward
    choice = {"use_op_rop_implementation" if old else "use_op_pushforward": True}
    made = [push(f(rates, x), [rates], [dot], **choice) for f in (wrap(epidemic), epidemic_of_pytensor)]
    made = [d[0] if isinstance(d, list) else d for d in made]
    found, expected = pytensor.function([rates, x, dot], made, mode=Mode("py", None))([0.9, 0.3], 0.1, [1.0, 2.0])
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def several(x, p, *, power, label="b"):
    """Containers in and out, numbers and texts that are known, an integer argument."""
    w, shift = p["w"], p["rest"][0]
    return {"a": x**power * w, label: (np.sum(x) + shift, x.size)}


@pytest.mark.parametrize("mode", MODES)
def test_containers_keywords_and_known_values(mode):
    x, w, k = pt.vector("x"), pt.scalar("w"), pt.iscalar("k")
    made = wrap(several)(x, {"w": w, "rest": [k]}, power=2, label="c")
    assert sorted(made) == ["a", "c"] and made["c"][0].type.ndim == 0
    slopes = pytensor.grad(pt.sum(made["a"]) + 3.0 * made["c"][0], [x, w])
    run = compiled([x, w, k], [made["a"], *made["c"], *slopes], mode)
    found = run(W, 0.5, np.int32(4))
    expected = [0.5 * W**2, W.sum() + 4, 4, W + 3.0, np.sum(W**2)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def halves(x, n):
    return x * 0.5, x[1:] * n, x > 0.0


@pytest.mark.parametrize("mode", MODES)
def test_float32_integers_and_booleans(mode):
    x, n = pt.tensor("x", dtype="float32", shape=(None,)), pt.tensor("n", dtype="int64", shape=())
    ys = wrap(halves)(x, n)
    assert [y.type.dtype for y in ys][::2] == ["float32", "bool"]
    slope = pytensor.grad(pt.sum(ys[0]), x)
    a, b, c, d = compiled([x, n], [*ys, slope], mode)(W.astype("f4"), np.int64(3))
    assert (a.dtype, c.dtype, d.dtype) == ("float32", "bool", "float32") and b.shape == (3,)
    np.testing.assert_array_equal(a, W.astype("f4") / 2)
    with pytest.raises(DisconnectedInputError):
        pytensor.grad(pt.sum(ys[1]), n)


def pairs(x, y):
    return np.concatenate([x, x[1:]]), np.outer(x, y)


def test_shapes_are_found_without_running():
    x, y = pt.vector("x"), pt.tensor("y", shape=(3,))
    a, b = wrap(pairs)(x, y)
    assert a.type.shape == (None,) and b.type.shape == (None, 3)
    shapes = pytensor.function([x, y], [a.shape, b.shape], on_unused_input="ignore", mode=Mode("cvm", "fast_run"))
    assert not any(type(n.op).__name__ == "NumPyOp" for n in shapes.maker.fgraph.apply_nodes)
    assert [list(s) for s in shapes(np.ones(5), np.ones(3))] == [[9], [5, 3]]


def test_sizes_that_the_data_decide():
    x = pt.vector("x")
    y = wrap(positive)(x)
    run = pytensor.function([x], [y, y.shape[0], pytensor.grad(pt.sum(y**2), x)], mode=Mode("cvm", "fast_run"))
    y, n, slope = run(W)
    np.testing.assert_array_equal(slope, np.where(W > 0, 2 * W, 0.0))
    assert n == y.size == np.sum(W > 0)


def positive(x):
    return x[x > 0.0]


def test_an_axis_of_size_one_must_be_known():
    x, y = pt.vector("x"), pt.vector("y")
    run = pytensor.function([x, y], wrap(np.add)(x, y), mode=Mode("py", None))
    np.testing.assert_array_equal(run([1.0, 2.0], [1.0, 2.0]), [2.0, 4.0])
    with pytest.raises(ValueError, match=r"add: the result is float64\[2\].*built for float64\[1\]"):
        run([1.0], [1.0, 2.0])
    one = pt.tensor("one", shape=(1,))
    assert wrap(np.add)(one, y).eval({one: [1.0], y: [1.0, 2.0]}).tolist() == [2.0, 3.0]


def chosen(x):
    return x[int(x[0])] * x[-1]


@pytest.mark.parametrize("mode", MODES)
def test_an_index_out_of_range_is_an_error(mode):
    x = pt.vector("x")
    run = compiled([x], [wrap(chosen)(x)], mode)
    assert run(np.array([1.0, 3.0]))[0] == 9.0
    with pytest.raises(Exception, match="out of bounds|out of range"):
        run(np.array([7.0, 3.0]))


def same(x):
    return x, x, x[1:]


@pytest.mark.parametrize("mode", ["c", "numba"])
def test_results_share_no_memory(mode):
    x = pt.vector("x")
    values = np.arange(3.0)
    made = compiled([x], wrap(same)(x), mode)(values)
    assert not any(np.may_share_memory(a, b) for a in (*made, values) for b in made if a is not b)
    assert [m.tolist() for m in made] == [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0, 2.0]]


def test_equal_operations_are_merged():
    x = pt.vector("x")
    run = pytensor.function([x], [wrap(steps)(x), wrap(steps)(x)], mode=Mode("py", "fast_run"))
    assert len([n for n in run.maker.fgraph.apply_nodes if "steps" in str(n.op)]) == 1
    assert wrap(several)(x, {"w": x, "rest": [1]}, power=1)["a"].owner.op != (
        wrap(several)(x, {"w": x, "rest": [True]}, power=1)["a"].owner.op
    )


def repeated(x, n):
    return [x * k for k in range(n)]


def test_refusals_name_the_function_and_what_to_write():
    x, n, z = pt.vector("x"), pt.iscalar("n"), pt.zvector("z")
    with pytest.raises(calque.transpiler.errors.NeedsKnownValue, match=r"wrap\(repeated\)\(x, 3\)"):
        wrap(repeated)(x, n)
    assert len(wrap(repeated)(x, 3)) == 3
    with pytest.raises(TypeError, match="wrap: f must be a function"):
        wrap(3)
    with pytest.raises(NullTypeGradError):
        pytensor.grad(pt.sum(wrap(np.abs)(z)), z)
    data = pt.constant(SEEN)
    with pytest.raises(NullTypeGradError, match="constant"):
        pytensor.grad(wrap(deviance)(x, X, data), data)


def test_pickles_by_name_and_a_lambda_by_cloudpickle():
    op = wrap(energy)
    assert pickle.loads(pickle.dumps(op)) == op
    x = pt.vector("x")
    slope = pytensor.grad(op(x, 2), x).owner.op
    assert pickle.loads(pickle.dumps(slope)) == slope and hash(slope) is not None
    scale = 3.0
    square = pickle.dumps(wrap(lambda v: scale * v**2))  # with this file, where its source stands
    assert pickle.loads(square)(x).eval({x: [2.0]}).tolist() == [12.0]
    with pytest.raises(pickle.PicklingError, match=r"lambda.*another process.*cores=1"):
        lock = threading.Lock()
        pickle.dumps(wrap(lambda v: (lock, v)[1]))


def test_a_message_where_pytensor_is_missing():
    code = (
        "import sys; sys.modules['pytensor'] = None\nimport calque\n"
        "try: calque.bridges.pytensor\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install" in done.stdout


@pytest.mark.filterwarnings("error:.* is generated anew")
@pytest.mark.parametrize("jit", [True, False])
def test_functions_that_capture_places_and_sizes_share_no_programs(jit):
    def made(place):
        return lambda *arrays: np.ones(place + 1) * np.sum(arrays[place] ** 3)

    xs = [pt.vector(f"x{k}") for k in range(6)]
    given = [np.full(6, 2.0) for _ in xs]
    ops = [wrap(made(place), jit=jit) for place in range(6)]
    for place, op in enumerate(ops):
        value = op(*xs)
        slope = pytensor.grad(pt.sum(value), xs[place])
        run = pytensor.function(xs, [value, slope], mode=MODES["python"]())
        found, found_slope = run(*given)
        assert np.allclose(found, np.full(place + 1, 48.0))
        assert np.allclose(found_slope, 12.0 * (place + 1))


def test_jit_is_a_choice():
    x = pt.vector("x")
    y = wrap(steps, jit=False)(x)
    assert pytensor.grad(pt.sum(y), x).eval({x: W}, mode=Mode("py", None)).shape == (4,)


def test_batches_of_pytensor():
    """``vectorize_graph`` runs the Op for each example."""
    x, xs = pt.vector("x"), pt.matrix("xs")
    y = pytensor.graph.replace.vectorize_graph(wrap(steps)(x), {x: xs})
    slope = pytensor.grad(pt.sum(y), xs)
    found = pytensor.function([xs], [y, slope], mode=Mode("cvm", "fast_run"))(X)
    one = pytensor.function([x], [steps_of_pytensor(x), pytensor.grad(pt.sum(steps_of_pytensor(x)), x)], mode=Mode("py", None))
    for k, example in enumerate(X):
        for a, b in zip(found, one(example)):
            np.testing.assert_allclose(a[k], b, rtol=1e-10)


def test_jax_differentiates_the_operation():
    """numpyro takes the model's value from PyTensor, and its gradient from JAX."""
    jax = pytest.importorskip("jax")
    from pytensor.link.jax.dispatch import jax_funcify

    x = pt.vector("x")
    op = wrap(steps)
    y = pt.sum(op(x) ** 2)
    pytensor.function([x], y, mode="JAX")  # teaches the backend
    f = jax_funcify(pytensor.graph.fg.FunctionGraph([x], [y], clone=True))
    total = lambda v: f(v)[0]
    expected = pytensor.function([x], pytensor.grad(y, x), mode=Mode("py", None))
    np.testing.assert_allclose(jax.jit(jax.grad(total))(W), expected(W), rtol=1e-10)
    batch = jax.vmap(jax.grad(total))(X)
    np.testing.assert_allclose(batch, [expected(v) for v in X], rtol=1e-10)


def test_pymc_samples_in_processes():
    """Processes that are spawned get the model by pickle."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm = pytest.importorskip("pymc")
        with pm.Model():
            x = pm.Normal("x", 0.0, 1.0, shape=2)
            pm.Potential("likelihood", -wrap(captures_pair)(x))
            quiet = {"progressbar": False, "compute_convergence_checks": False}
            found = pm.sample(60, tune=60, chains=2, cores=2, mp_ctx="spawn", random_seed=1, **quiet)
    mean = found.posterior["x"].values.mean((0, 1))
    np.testing.assert_allclose(mean, 100.0 * SEEN[1:] / 101.0, atol=0.1)


def captures_pair(x):
    return 50.0 * np.sum((x - SEEN[1:]) ** 2)
