"""``vmap(..., chunk_size=k)``: as without, at most k examples at a time."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from sampling import sampled
from test_vmap import PROGRAMS, batched_arguments, same

import calque
from battery import oracle
from battery.registry import Program
from calque.transpiler.errors import CalqueError

pytest.importorskip("scipy")


def straight(x, w):
    h = np.tanh(x @ w)
    return h * x[0], np.sum(w), 1.0 * x.shape[0], {"x": x[::2]}


def branching(x, w):
    if x[0] > 0.0:
        return np.log(x[0]) * np.sum(w)
    return np.sin(x[1]) * w[0]


def newton(x, w):
    root = x[0] ** 2 + 1.0
    while abs(root * root - x[1] ** 2 - 1.0) > 1e-10:
        root = 0.5 * (root + (x[1] ** 2 + 1.0) / root)
    return root * w[1]


def storing(x, w):
    for i in range(1, x.size):
        x[i] = np.sin(x[i] * x[i - 1]) + w[i]
    return np.sum(x * x)


def growing(x, w):
    out = []
    for i in range(1, x.size - 1):
        out.append(np.dot(x[i - 1 : i + 2], w[:3]))
    return np.array(out)


def own_range(x, w):
    s = x[1]
    for i in range(int(abs(4.0 * x[0]))):
        s = s * np.cos(x[1] + i) + w[0]
    return s


FUNCTIONS = [straight, branching, newton, storing, growing, own_range]


def scalar(tree: Any) -> Any:
    total = 0.0
    for leaf in calque.transpiler.ir.pytrees.flatten(tree)[0]:
        total = total + np.sum(np.sin(leaf) * np.cos(1.0 * leaf))
    return total


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("chunk", [1, 3, 10])
def test_as_without(f: Any, chunk: int) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=5)
    plain = calque.vmap(f, in_axes=(0, None))
    many = calque.vmap(f, in_axes=(0, None), chunk_size=chunk)
    gradients = [calque.grad(lambda x, w, g=g: scalar(g(x, w)), argnums=(0, 1)) for g in (plain, many)]
    for size in (0, 1, 2, 3, 6, 7, 8):
        x = rng.normal(size=(size, 5))
        dots = rng.normal(size=x.shape), rng.normal(size=5)
        same(many(x, w), plain(x, w), 1e-13)
        same(gradients[1](x, w), gradients[0](x, w), 1e-11)
        same(calque.jvp(many, (x, w), dots), calque.jvp(plain, (x, w), dots), 1e-12)


@pytest.mark.parametrize("f", FUNCTIONS[1:], ids=lambda f: f.__name__)
def test_against_a_loop(f: Any) -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(5, 4)), rng.normal(size=4)
    same(calque.vmap(f, (0, None), chunk_size=2)(x, w), np.stack([f(row.copy(), w) for row in x]))
    if f not in (growing, own_range):
        gradient = calque.grad(f)
        rows = np.stack([gradient(row, w) for row in x])
        same(calque.vmap(gradient, (0, None), chunk_size=2)(x, w), rows)
        many = calque.vmap(f, (0, None), chunk_size=2)
        same(calque.grad(lambda x: np.sum(many(x, w)))(x), rows)


@pytest.mark.parametrize("program", sampled(PROGRAMS, 12, 3), ids=lambda p: p.id)
def test_battery(program: Program) -> None:
    args, axes, singles = batched_arguments(program, 3)
    try:
        found = calque.vmap(program.fn, in_axes=tuple(axes), chunk_size=2)(*args)
    except CalqueError as error:
        assert "chunk_size needs to know the shape of each result" in str(error)
        return
    expected = calque.vmap(program.fn, in_axes=tuple(axes))(*args)
    assert len(oracle.leaves(found)) == len(oracle.leaves(expected))
    same(found, expected)


@pytest.mark.parametrize("program", sampled(PROGRAMS, 12, 6), ids=lambda p: p.id)
def test_battery_gradient_of_the_sum(program: Program) -> None:
    fn = program.scalar()
    args, axes, _ = batched_arguments(program, 3)
    plain, many = (calque.vmap(fn, in_axes=tuple(axes), chunk_size=k) for k in (None, 2))
    gradients = [calque.grad(lambda *a, g=g: np.sum(g(*a)), argnums=program.diff) for g in (plain, many)]
    same(gradients[1](*args), gradients[0](*args), 1e-8)


def test_axes_trees_and_keywords() -> None:
    rng = np.random.default_rng(2)
    tree = {"a": rng.normal(size=(3, 5)), "b": (rng.normal(size=(5, 2)), 2.0)}
    y = rng.normal(size=5)

    def f(tree, scale, *, y):
        return {"u": tree["a"] * y, "v": [tree["b"][0] * scale, tree["b"][1] + y]}

    axes = {"in_axes": ({"a": 1, "b": (0, None)}, None), "out_axes": {"u": -1, "v": [1, 0]}}
    expected = calque.vmap(f, **axes)(tree, 3.0, y=y)
    same(calque.vmap(f, **axes, chunk_size=2)(tree, 3.0, y=y), expected)
    total = calque.vmap(lambda x, y: (x, np.sum(y)), (0, None), (0, None), chunk_size=2)
    same(total(y, tree["a"]), [y, np.sum(tree["a"])])
    with pytest.raises(ValueError, match="differs from one example"):
        calque.vmap(np.sin, out_axes=None, chunk_size=2)(y)


def test_nested() -> None:
    x, w = np.random.default_rng(3).normal(size=(3, 5, 4)), np.ones(4)
    expected = np.array([[newton(row, w) for row in rows] for rows in x])
    for outer, inner in ((2, None), (None, 2), (2, 2)):
        many = calque.vmap(
            calque.vmap(newton, (0, None), chunk_size=inner), (0, None), chunk_size=outer
        )
        same(many(x, w), expected)
        plain = calque.vmap(calque.vmap(newton, (0, None)), (0, None))
        same(
            calque.grad(lambda x: np.sum(many(x, w)))(x),
            calque.grad(lambda x: np.sum(plain(x, w)))(x),
        )


def test_effects_happen_once_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x):
        assert x < 10.0
        print("seen", x)
        return x * 2.0

    many = calque.vmap(f, chunk_size=2)
    same(many(np.arange(5.0)), 2.0 * np.arange(5.0))
    assert capsys.readouterr().out.count("seen") == 5
    with pytest.raises(AssertionError):
        many(np.array([1.0, 2.0, 11.0]))
    capsys.readouterr()
    calque.grad(lambda x: np.sum(many(x)))(np.arange(5.0))
    assert capsys.readouterr().out.count("seen") == 5


def big(x):
    square = x[:, None] * x[None, :]
    return np.sum(np.exp(square) * np.sin(square))


def peak(f: Any, *args: Any) -> int:
    f(*args)
    tracemalloc.start()
    f(*args)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_memory_is_bounded() -> None:
    x = np.random.default_rng(4).normal(size=(64, 64))
    one = 64 * 64 * 8  # an intermediate array of one example
    plain, many = calque.vmap(big), calque.vmap(big, chunk_size=4)
    same(many(x), plain(x))
    assert peak(plain, x) > 64 * one
    assert peak(many, x) < 6 * 4 * one
    gradient = calque.grad(lambda x: np.sum(many(x)))
    assert peak(gradient, x) < 14 * 4 * one


def test_the_source() -> None:
    text = calque.vmap(lambda x, w: np.tanh(x @ w), (0, None), chunk_size=3).source(np.ones((7, 2)), np.ones(2))
    body = text.split('"""')[-1].split("import numpy as np")[-1].strip().splitlines()
    assert body[1:] == [
        "    results = np.empty(x.shape[0])",
        "    for start in range(0, x.shape[0], 3):",
        "        x_chunk = x[start:start + 3]",
        "        results[start:start + 3] = np.tanh(x_chunk @ w)",
        "    return results",
    ]


def lasting(x):
    out = []
    while x > 1.0:
        x = 0.5 * x
        out.append(x)
    return np.array(out)


def test_refused() -> None:
    with pytest.raises(ValueError, match="chunk_size cannot be given together with axis_name"):
        calque.vmap(np.sin, axis_name="i", chunk_size=2)
    with pytest.raises(ValueError, match="chunk_size must be at least 1, and is 0"):
        calque.vmap(np.sin, chunk_size=0)
    with pytest.raises(TypeError):
        calque.vmap(np.sin, chunk_size=2.5)
    with pytest.raises(ValueError, match="chunk_size needs to know the shape of each result"):
        calque.vmap(lasting, chunk_size=2)(np.array([3.0, 3.5, 2.1]))


def test_nothing_mapped() -> None:
    same(calque.vmap(np.sin, in_axes=None, axis_size=3, chunk_size=2)(1.0), np.full(3, np.sin(1.0)))


def test_inside_a_transformed_function() -> None:
    def total(x):
        return np.sum(calque.vmap(lambda v: np.sin(v) * v, chunk_size=2)(x))

    x = np.linspace(0.0, 1.0, 5)
    same(calque.grad(total)(x), np.cos(x) * x + np.sin(x))
