"""Numbers of NumPy's and arrays without axes as leaves of arguments, under ``jit``; deep programs."""

import dataclasses

import numpy as np
import pytest
from sampling import sampled

import calque

LEAVES = {
    "float64": np.float64(1.5),
    "float64 array": np.array(1.5),
    "float32": np.float32(1.5),
    "int64": np.int64(2),
    "int64 array": np.array(2),
    "bool": np.bool_(True),
    "complex": np.complex128(1 + 2j),
    "float": 1.5,
    "int": 2,
}
W = np.array([1.0, -2.0, 3.0])


@dataclasses.dataclass
class Layer:
    w: object
    b: object


CONTAINERS = {
    "dict": (lambda w, b: {"w": w, "b": b}, lambda p: (p["w"], p["b"])),
    "list": (lambda w, b: [w, b], lambda p: (p[0], p[1])),
    "tuple": (lambda w, b: (w, b), lambda p: p),
    "dataclass": (Layer, lambda p: (p.w, p.b)),
    "nested": (lambda w, b: {"a": (w, {"b": b})}, lambda p: (p["a"][0], p["a"][1]["b"])),
}


def used(w, b):
    return np.sum(w * b)


def unused(w, b):
    return np.sum(w * 2.0)


def many_times(w, b):
    return np.sum(w * b + b) * b - np.sum(np.where(w > 0, b, w)) + b * b


def in_a_loop(w, b):
    total = 0.0 * b
    for i in range(w.shape[0]):
        total = total + w[i] * b
    return total


def given_back(w, b):
    return {"twice": w * 2.0, "same": b}


PAIRS = [(k, "float64") for k in CONTAINERS] + [("dict", label) for label in LEAVES]
PROGRAMS = (used, unused, many_times, in_a_loop, given_back)


def _same(left, right):
    if isinstance(left, dict):
        return all(_same(left[k], right[k]) for k in left)
    return np.allclose(left, right, rtol=1e-6) and np.shape(left) == np.shape(right)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind, label", PAIRS)
def test_a_leaf_without_axes(label, kind, program):
    make, parts = CONTAINERS[kind]
    given = make(W, LEAVES[label])

    def of_container(p):
        return program(*parts(p))

    assert _same(of_container(given), calque.jit(of_container)(given))


@pytest.mark.parametrize("label", ["float64", "float64 array", "float32", "float"])
@pytest.mark.parametrize("program", [used, unused, many_times, in_a_loop], ids=lambda f: f.__name__)
def test_its_gradient(label, program):
    given = {"w": W, "b": LEAVES[label]}

    def of_container(p):
        return program(p["w"], p["b"])

    found = calque.jit(calque.grad(of_container))(given)
    step = 1e-6
    slope = (program(W, 1.5 + step) - program(W, 1.5 - step)) / (2 * step)
    assert np.allclose(found["b"], slope, rtol=1e-6, atol=1e-8)
    assert np.shape(found["b"]) == ()


def test_training_goes_on_with_what_it_gave():
    def loss(p, x, y):
        return np.mean((x @ p["w"] + p["b"] - y) ** 2)

    @calque.jit
    def update(p, x, y):
        g = calque.grad(loss)(p, x, y)
        return {k: p[k] - 0.1 * g[k] for k in p}

    x, y = np.arange(12.0).reshape(4, 3) / 12, np.ones(4)
    p = {"w": np.zeros(3), "b": 0.0}
    by_hand = {"w": np.zeros(3), "b": 0.0}
    for _ in range(4):
        p = update(p, x, y)
        r = 2 * (x @ by_hand["w"] + by_hand["b"] - y) / 4
        by_hand = {"w": by_hand["w"] - 0.1 * x.T @ r, "b": by_hand["b"] - 0.1 * r.sum()}
    assert np.allclose(p["w"], by_hand["w"]) and np.allclose(p["b"], by_hand["b"])


def test_leaves_and_variables_of_like_spelling_are_apart():
    def loss(p):
        p_b = np.sum(p["a_b"]) * 100.0
        total = 0.0
        for i in range(3):
            total += p["a"]["b"][i] + 10.0 * p["a_b"][i] + p["b"][i] * p_b
        return total

    p = {"a": {"b": np.ones(3)}, "a_b": np.full(3, 2.0), "b": np.full(3, 5.0)}
    assert calque.jit(loss)(p) == loss(p)


def test_new_arrays_without_axes_beside_others():
    def stacked(g):
        zero = np.zeros_like(g)
        return np.sum(np.array((g, zero + g))) + np.sum(np.array((g, zero)))

    assert calque.jit(calque.value_and_grad(stacked))(1.5) == (4.5, 3.0)


@pytest.mark.parametrize("kept", [0, 1])
def test_one_of_two_results_in_a_loop(kept):
    def smallest(x):
        s = 0.0
        for i in range(x.shape[0]):
            s = s + np.sum(np.linalg.eigh(x[i])[kept][0])
        return s

    x = np.stack([np.diag([1.0, 2.0, 3.0]), np.diag([3.0, 2.0, 5.0])])
    x = x + 0.1 * np.ones((3, 3))
    assert np.allclose(calque.jit(calque.grad(smallest))(x), calque.grad(smallest)(x))


@pytest.mark.parametrize("layers", sampled([100, 300], 2))
def test_many_layers_in_a_list(layers):
    def deep(ps, x):
        for p in ps:
            x = np.tanh(x @ p)
        return np.sum(x)

    ps, x = [np.eye(3) * 0.9] * layers, np.ones((2, 3))
    assert np.allclose(calque.jit(calque.grad(deep))(ps, x)[0], calque.grad(deep)(ps, x)[0])
