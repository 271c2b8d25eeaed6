"""Parts of a program that repeat are functions: written, compiled and read once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.outlining.sharing_policy import SharingPolicy

pytest.importorskip("numba")

RNG = np.random.default_rng(5)
N = 24  # products of N x N matrices are BLAS's


def weights(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(RNG.normal(size=(N, N)) / N**0.5, 0.1 * RNG.normal(size=N)) for _ in range(count)]


X = RNG.normal(size=(N, N))
PARAMS = weights(5)


def layer(x, w, b):
    mean = np.mean(x, axis=-1, keepdims=True)
    spread = np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-3)
    h = np.dot((x - mean) / spread, w) + b
    top = np.max(h, axis=-1, keepdims=True)
    e = np.exp(h - top)
    return x + h * e / np.sum(e, axis=-1, keepdims=True)


def stack(params, x):
    for w, b in params:
        x = layer(x, w, b)
    return np.sum(x * x)


def gained(x, w, gain):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    spread = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-3)
    h = np.dot(centred / spread * gain, w)
    top = np.max(h, axis=-1, keepdims=True)
    e = np.exp(h - top)
    return x + h * e / np.sum(e, axis=-1, keepdims=True)


def gained_stack(params, x):
    """Layers whose way back to the weights needs all that the way back to x needs."""
    for w, gain in params:
        x = gained(x, w, gain)
    return np.sum(x * x)


def steps(params, x):
    """A recurrent network: all steps have the same weights."""
    w, b = params[0]
    h = np.zeros((N, N))
    for _ in range(5):
        gate = 1.0 / (1.0 + np.exp(-(np.dot(x, w) + b)))
        h = np.tanh(np.dot(h, w) * gate + x) * gate + (1.0 - gate) * h
    return np.sum(h * h)


def pairs(params, x):
    """A function that returns two arrays, and has a default."""

    def couple(u, v, w, rate=0.1):
        a = np.tanh(np.dot(u, w) - v) * rate
        b = np.sin(np.dot(v, w.T) + u) * rate
        return u + a * b - np.cos(a), v - b * np.exp(-a) + np.abs(b)

    u, v = x, x[::-1]
    for w, _ in params:
        u, v = couple(u, v, w)
    return np.sum(u * v)


class Model:
    def __init__(self, params):
        self.params, self.seen = params, []

    def apply(self, x, k):
        w, b = self.params[k]
        h = np.maximum(np.dot(x, w) + b, 0.0)
        scale = np.sqrt(np.sum(h * h, axis=0) + 1.0)
        self.seen.append(np.sum(scale))
        return x - np.tanh(h / scale) * np.cos(x)

    def loss(self, x):
        for k in range(len(self.params)):
            x = self.apply(x, k)
        return np.sum(x * x) + sum(self.seen)


def methods(params, x):
    return Model(params).loss(x)


def stores(params, x):
    """A function with arrays of its own, into which it stores."""

    def smoothed(x, w):
        y = np.empty_like(x)
        h = np.tanh(np.dot(x, w))
        y[0] = h[0]
        y[1:] = 0.5 * (h[1:] + h[:-1]) * x[1:]
        y[-1] *= 2.0
        return y + np.sin(x) * h

    for w, _ in params:
        x = smoothed(x, w)
    return np.sum(x * x)


def branches(params, x):
    """A function with a test on values, and a loop over a size."""

    def limited(x, w):
        h = np.dot(x, w)
        size = np.sum(h * h)
        if size > 500.0:
            h = h * (500.0 / size)
        else:
            h = h + np.sin(h)
        total = 0.0
        for i in range(1, x.shape[0]):
            total += h[i, 0] * h[i - 1, 1]
        return np.tanh(h) * np.cos(total) + x

    for w, _ in params:
        x = limited(x, w)
    return np.sum(x * x)


def halves(params, x, depth=3):
    """Recursion of known depth."""
    if depth == 0:
        w, b = params[0]
        h = np.tanh(np.dot(x, w) + b)
        return np.exp(-h * h) + np.sin(h) * np.cos(h) * x - h / (1.0 + h * h)
    return halves(params, halves(params, x, depth - 1) + 0.1, depth - 1)


def total_of_halves(params, x):
    return np.sum(halves(params, x) ** 2)


def views(params, x):
    """Results that are views, of a value made there and of an argument."""

    def turned(x, w):
        h = np.tanh(np.dot(x, w)) + np.sin(x) * np.cos(x) - np.exp(-x * x)
        return h.T, x[::-1], h[0]

    total = 0.0
    for w, _ in params:
        x, back, first = turned(x, w)
        total += np.sum(back[1] * first)
    return np.sum(x * x) + total


def widths(params, x):
    """Layers of other widths, and other numbers in each."""
    cut = [N, N - 4, N - 9, N - 2]
    for k in range(3):
        w = params[k][0][: cut[k], : cut[k + 1]]
        h = np.dot(x[:, : cut[k]], w)
        e = np.exp(h - np.max(h, axis=-1, keepdims=True))
        x = np.sin(h) * e / np.sum(e, axis=-1, keepdims=True) * (0.5 + 0.25 * k) + 0.1 * k
    return np.sum(x * x)


def numbers(params, x):
    """Iterations with a time that is known."""
    w, b = params[0]
    for k in range(4):
        time = 0.1 * k
        x = x + 0.05 * (np.tanh(np.dot(x, w) + b) * np.cos(x + time) - np.exp(-time) * x)
    return np.sum(x * x)


PROGRAMS = {
    f.__name__: f
    for f in (
        *(stack, gained_stack, steps, pairs, methods, stores, branches, total_of_halves, views, widths),
        numbers,
    )
}


@pytest.fixture(params=["as it pays", "everything"])
def shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Share what pays, or all that repeats; kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")
    if request.param == "everything":
        always = SharingPolicy(3, 3, 2)
        monkeypatch.setattr("calque.transpiler.kernel_passes.to_compile", lambda builder: always)
        monkeypatch.setattr("calque.transpiler.texts.TO_READ", always)


def slopes(f: Callable[..., Any], params: Any, x: Any, direction: Any) -> float:
    step = 1e-6
    return (f(params, x + step * direction) - f(params, x - step * direction)) / (2.0 * step)


@pytest.mark.parametrize("way", [calque.jit, calque.checkpoint])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str, way: Any, shared: None) -> None:
    f = PROGRAMS[name]
    value, gradient = way(calque.value_and_grad(f, argnums=1))(PARAMS, X)
    np.testing.assert_allclose(value, f(PARAMS, X), rtol=1e-12)
    direction = RNG.normal(size=(N, N))
    np.testing.assert_allclose(
        np.sum(gradient * direction), slopes(f, PARAMS, X, direction), rtol=2e-6, atol=1e-6
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_by_weights(name: str, shared: None) -> None:
    f = PROGRAMS[name]
    found = calque.jit(calque.grad(f))(PARAMS, X)
    wanted = calque.grad(f)(PARAMS, X)
    for pair, other in zip(found, wanted, strict=True):
        for a, b in zip(pair, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["stack", "pairs", "stores"])
def test_other_transformations(name: str, shared: None) -> None:
    f = PROGRAMS[name]
    direction = RNG.normal(size=(N, N))
    _, slope = calque.jit(lambda x: calque.jvp(lambda x: f(PARAMS, x), (x,), (direction,)))(X)
    np.testing.assert_allclose(slope, slopes(f, PARAMS, X, direction), rtol=2e-6)
    batch = np.stack([X, 0.5 * X, -X])
    found = calque.jit(calque.vmap(f, in_axes=(None, 0)))(PARAMS, batch)
    np.testing.assert_allclose(found, [f(PARAMS, x) for x in batch], rtol=1e-12)
    kept = calque.jit(calque.grad(calque.checkpoint(f), argnums=1))(PARAMS, X)
    np.testing.assert_allclose(kept, calque.grad(f, argnums=1)(PARAMS, X), rtol=1e-9, atol=1e-9)


def test_compiled() -> None:
    found = calque.jit(calque.grad(stack))(PARAMS, X)
    np.testing.assert_allclose(found[0][0], calque.grad(stack)(PARAMS, X)[0][0], rtol=1e-10)


@pytest.mark.parametrize(
    "way, count, back", [(calque.jit, 5, 4), (calque.jit, 10, 10), (calque.checkpoint, 5, 5)]
)
def test_the_text_has_one_function_forth_and_one_back(way: Any, count: int, back: int) -> None:
    """Back through the first layer, few kernels are better than needless work."""
    text = calque.source(way(calque.grad(gained_stack)), weights(count), X)
    for name, calls in (("gained", count), ("gained_reverse", back)):
        assert len(re.findall(rf"^def {name}\(", text, re.M)) == 1
        assert len(re.findall(rf"= {name}\(", text)) == calls


def test_kernels_do_not_grow_with_layers() -> None:
    counts = []
    for count in (9, 12):
        text = calque.source(calque.jit(calque.grad(stack)), weights(count), X)
        counts.append(text.count("@kernel"))
    assert counts[0] == counts[1]


def test_small_products_stay_in_one_kernel() -> None:
    small = [(w[:3, :3].copy(), b[:3].copy()) for w, b in PARAMS]
    text = calque.source(calque.jit(calque.grad(stack)), small, X[:3, :3].copy())
    assert "def layer" not in text


def test_arguments_are_left_alone() -> None:
    before = X.copy()
    calque.jit(calque.grad(stores, argnums=1))(PARAMS, X)
    np.testing.assert_array_equal(X, before)


def test_saved_modules_have_the_functions(tmp_path: Any) -> None:
    path = tmp_path / "saved.py"
    calque.save(calque.jit(calque.grad(stack)), path, PARAMS, X)
    names: dict[str, Any] = {"__name__": "saved"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found = names["stack_grad_jit"](PARAMS, X)
    np.testing.assert_allclose(found[0][0], calque.grad(stack)(PARAMS, X)[0][0], rtol=1e-10)


def test_explain_places_the_lines_of_functions() -> None:
    report = str(calque.explain(calque.jit(calque.grad(stack)), PARAMS, X))
    assert "np.dot is a call of NumPy's" in report
    assert "layer is a call" not in report


def test_an_error_in_a_function_has_the_users_line() -> None:
    def checked(x, w):
        h = np.linalg.solve(w, np.tanh(x)) + np.sin(x) * np.cos(x) - np.exp(-x * x)
        return h / (1.0 + np.sqrt(h * h + 1.0)) + np.cos(h) * np.sin(h)

    def chained(x):
        for w in (W[0], W[1], W[0], W[1]):
            x = checked(x, w)
        return np.sum(x * x)

    W = np.stack([np.eye(N), np.zeros((N, N))])
    for way in (calque.jit, calque.checkpoint):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            way(calque.grad(chained))(X)
        assert "np.linalg.solve(w, np.tanh(x))" in "".join(caught.value.__notes__)


def test_collectives_stay_in_the_program() -> None:
    """A communicator is no argument of a function."""

    def part(x, w):
        h = np.dot(x, w) + np.sin(x) * np.cos(x) - np.exp(-x * x)
        h = h / calque.psum(np.sum(h * h) + 1.0, "rows")
        return np.tanh(h) * np.cos(h) + np.sqrt(h * h + 1.0) + x

    def loss(ws, x):
        for w in ws:
            x = part(x, w)
        return np.sum(x * x)

    slope = calque.grad(loss, argnums=1)
    devices = calque.pmap(slope, in_axes=(None, 0), axis_name="rows")
    lanes = calque.vmap(slope, in_axes=(None, 0), axis_name="rows")
    batch, ws = np.stack([X, 0.5 * X]), [w for w, _ in PARAMS]
    found = devices(ws, batch)
    np.testing.assert_allclose(found, lanes(ws, batch), rtol=1e-9, atol=1e-9)
    shared, _, program = calque.source(devices, ws, batch).partition("def loss_grad_device")
    assert "comm.psum(" in program and "comm" not in shared
    assert "def part_steps(" in shared  # it is not the whole of `part`


def rooted(x, w, gain):
    root = np.sqrt(x)
    centred = root - np.mean(root, axis=-1, keepdims=True)
    spread = np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-3)
    h = np.dot(centred / spread * gain, w)
    top = np.max(h, axis=-1, keepdims=True)
    e = np.exp(h - top)
    return np.abs(root + h * e / np.sum(e, axis=-1, keepdims=True))


def rooted_stack(params, x):
    for w, gain in params:
        x = rooted(x, w, gain)
    return np.sum(x * x)


@pytest.mark.filterwarnings("error")
def test_needless_work_divides_by_nothing_new(shared: None) -> None:
    """The slope of a root of 0, which is not asked for, is not computed in vain."""
    x = np.abs(X)
    x[0, 0] = 0.0
    found = calque.grad(calque.checkpoint(rooted_stack))(PARAMS, x)
    assert all(np.isfinite(a).all() for pair in found for a in pair)
