"""The user's classes as nodes of pytrees: arguments, results and gradients of the same class."""

from __future__ import annotations

import dataclasses
import importlib.util
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import calque
from calque.transpiler.errors import UnsupportedFunction

jax.config.update("jax_enable_x64", True)


class Interval:
    """Its class takes its attributes."""

    def __init__(self, low: Any, high: Any):
        self.low, self.high = low, high

    def width(self) -> Any:
        return self.high - self.low


@calque.register_pytree_node_class
@jax.tree_util.register_pytree_node_class
class Polynomial:
    """Its class takes something else than what it holds; a part of it is structure."""

    __slots__ = ("coefficients", "name")

    def __init__(self, *coefficients: Any, name: str = "p"):
        self.coefficients = list(coefficients)
        self.name = name

    def __call__(self, x: Any) -> Any:
        total = 0.0
        for c in self.coefficients:
            total = total * x + c
        return total

    def tree_flatten(self) -> Any:
        return tuple(self.coefficients), self.name

    @classmethod
    def tree_unflatten(cls, name: str, children: Any) -> Any:
        return cls(*children, name=name)


class Box:
    """Its class changes what it is given."""

    def __init__(self, size: float):
        self.value = np.zeros(size)

    @staticmethod
    def holding(value: Any) -> Any:
        new = object.__new__(Box)
        new.value = value
        return new


def flatten_box(box: Box) -> Any:
    return (box.value,), None


def unflatten_box(aux: None, children: Any) -> Box:
    return Box.holding(*children)


@dataclasses.dataclass(frozen=True)
class Layer:
    w: Any
    b: Any
    act: Callable[..., Any] = dataclasses.field(default=np.tanh, metadata={"static": True})
    label: str = dataclasses.field(default="layer", metadata={"static": True})

    def __call__(self, x: Any) -> Any:
        return self.act(self.w @ x + self.b)


@dataclasses.dataclass
class Particle:
    position: Any
    velocity: Any
    charge: int = 1


for register in (calque, jax.tree_util):
    register.register_pytree_node(
        Interval, lambda x: ((x.low, x.high), None), lambda aux, c: Interval(*c)
    )
    register.register_pytree_node(Box, flatten_box, unflatten_box)
    register.register_dataclass(Particle, ["position", "velocity"], ["charge"])
jax.tree_util.register_dataclass(Layer, ["w", "b"], ["act", "label"])

X = np.array([0.5, -1.0, 2.0])
W = np.arange(6.0).reshape(2, 3) / 5.0
INTERVAL = Interval(X, X * X + 3.0)
PARTICLE = Particle(X, X[::-1].copy(), 2)
LAYER = Layer(W, np.array([0.1, 0.2]))


def jnp_tanh(x):
    return jnp.tanh(x)


JAX_LAYER = dataclasses.replace(LAYER, act=jnp_tanh)


def same(found: Any, expected: Any) -> None:
    """The same classes, and the same numbers."""
    if type(expected).__module__ == __name__:
        assert type(found) is type(expected)
    a, b = jax.tree.leaves(found), jax.tree.leaves(expected)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


# scalar functions of an instance
LOSSES: dict[str, tuple[Any, Any, Any, Any]] = {
    "attributes": (
        lambda i: np.sum(i.width() ** 2 * i.low),
        lambda i: jnp.sum((i.high - i.low) ** 2 * i.low),
        INTERVAL,
        INTERVAL,
    ),
    "a list of leaves, slots": (
        lambda p: p(2.0) * p(0.5),
        lambda p: p(2.0) * p(0.5),
        Polynomial(1.0, -2.0, 3.0),
        Polynomial(1.0, -2.0, 3.0),
    ),
    "a class that cannot take them": (
        lambda b: np.sum(b.value**3),
        lambda b: jnp.sum(b.value**3),
        Box.holding(X),
        Box.holding(X),
    ),
    "a dataclass with structure": (
        lambda m: np.sum(m(X) ** 2),
        lambda m: jnp.sum(m(X) ** 2),
        LAYER,
        JAX_LAYER,
    ),
    "a registered dataclass": (
        lambda p: np.sum(p.position * p.velocity**2) * p.charge,
        lambda p: jnp.sum(p.position * p.velocity**2) * p.charge,
        PARTICLE,
        PARTICLE,
    ),
    "in containers": (
        lambda t: np.sum(t["a"][0].low * t["b"].position),
        lambda t: jnp.sum(t["a"][0].low * t["b"].position),
        {"a": [INTERVAL, None], "b": PARTICLE},
        {"a": [INTERVAL, None], "b": PARTICLE},
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_have_the_class_of_the_argument(name: str) -> None:
    f, twin, arg, jax_arg = LOSSES[name]
    found = calque.grad(f)(arg)
    assert type(found) is type(arg)
    same(found, jax.jit(jax.grad(twin))(jax_arg))
    tangent = calque.tree_map(lambda x: np.ones_like(x) if np.ndim(x) else 1.0, arg)
    jax_tangent = jax.tree.map(lambda x: jnp.ones_like(x), jax_arg)
    same(calque.jvp(f, (arg,), (tangent,)), jax.jvp(twin, (jax_arg,), (jax_tangent,)))
    value, pull = calque.vjp(f, arg)
    same(pull(1.0)[0], jax.vjp(twin, jax_arg)[1](1.0)[0])


def test_structure_is_kept() -> None:
    made = calque.grad(LOSSES["a dataclass with structure"][0])(LAYER)
    assert made.act is np.tanh and made.label == "layer"
    made = calque.grad(LOSSES["a registered dataclass"][0])(PARTICLE)
    assert made.charge == 2
    assert calque.grad(lambda p: p(2.0))(Polynomial(1.0, 2.0, name="q")).name == "q"


# functions with instances as results
def shifted(i):
    return Interval(i.low + 1.0, i.high * 2.0)


def bounds(x):
    return Interval(np.min(x), np.max(x) ** 2)


def step(p, h):
    return Particle(p.position + h * p.velocity, p.velocity - h * np.sin(p.position), 2)


def fitted(x):
    return Polynomial(x[0], x[1] * x[2], name="fitted")


def boxed(x):
    return {"box": Box.holding(x * x)}


def test_results_are_made_again() -> None:
    for f, arg in ((shifted, INTERVAL), (bounds, X), (fitted, X), (boxed, X)):
        same(calque.jvp(f, (arg,), (arg,))[0], f(arg))
        assert type(calque.jvp(f, (arg,), (arg,))[1]) is type(f(arg))
    same(calque.jacrev(bounds)(X), Interval(*[np.eye(3)[k] * c for k, c in ((1, 1.0), (2, 4.0))]))
    made = calque.jacfwd(lambda p: step(p, 0.1))(PARTICLE)
    same(made, jax.jit(jax.jacfwd(lambda p: Particle(p.position + 0.1 * p.velocity,
                          p.velocity - 0.1 * jnp.sin(p.position), 2)))(PARTICLE))  # fmt: skip
    assert type(made) is Particle and type(made.position) is Particle
    assert calque.jvp(fitted, (X,), (X,))[1].name == "fitted"


def test_batches_of_instances() -> None:
    batch = Interval(np.stack([X, X + 1.0]), np.stack([X * X + 3.0, X * X + 5.0]))
    rows = [Interval(batch.low[k], batch.high[k]) for k in range(2)]
    found = calque.vmap(shifted)(batch)
    assert type(found) is Interval
    np.testing.assert_array_equal(found.low, [shifted(r).low for r in rows])
    slopes = calque.vmap(calque.grad(lambda i: np.sum(i.low * i.high)))(batch)
    np.testing.assert_array_equal(slopes.low, batch.high)
    mixed = calque.vmap(lambda i: np.sum(i.low * i.high), in_axes=(Interval(0, None),))
    np.testing.assert_allclose(
        mixed(Interval(batch.low, X)), [np.sum(r.low * X) for r in rows], rtol=1e-14
    )


def test_instances_in_control_flow() -> None:
    def f(p, n):
        for _ in range(n):
            p = step(p, 0.1)
        if p.position[0] > 0.0:
            p = Particle(p.position * 2.0, p.velocity, 2)
        return np.sum(p.position)

    def twin(p, n):
        for _ in range(n):
            p = Particle(p.position + 0.1 * p.velocity, p.velocity - 0.1 * jnp.sin(p.position), 2)
        return jnp.sum(p.position * (2.0 if p.position[0] > 0 else 1.0))

    same(calque.grad(f)(PARTICLE, 5), jax.grad(lambda p: twin(p, 5))(PARTICLE))


def test_source_names_the_class() -> None:
    text = calque.source(calque.grad(lambda i: np.sum(i.low * i.high)), INTERVAL)
    assert "return type(i)(low=i.high.copy(), high=i.low.copy())" in text
    assert "return Interval(low=" in calque.source(bounds, X)
    assert "Polynomial.tree_unflatten('fitted', (" in calque.source(fitted, X)
    assert "unflatten_box(None, (" in calque.source(boxed, X)


def test_a_saved_module_imports_the_class(tmp_path: Path) -> None:
    path = tmp_path / "saved.py"
    calque.save(calque.jvp(bounds), path, X, X)
    assert f"from {__name__} import Interval\n" in path.read_text()
    spec = importlib.util.spec_from_file_location("saved", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    value, tangent = module.bounds_jvp(X, X)
    same((value, tangent), calque.jvp(bounds, (X,), (X,)))
    assert type(tangent) is Interval
    slope = calque.grad(LOSSES["a dataclass with structure"][0])
    calque.save(slope, path, LAYER)
    spec.loader.exec_module(module)
    same(module.function_grad(LAYER, X=X), slope(LAYER))
    assert "calque show" not in path.read_text(), "no command line gives an instance"


def test_another_structure_is_another_program() -> None:
    slope = calque.grad(lambda p: np.sum(p.position) * p.charge)
    assert slope(Particle(X, X, 2)).position[0] == 2.0
    assert slope(Particle(X, X, 5)).position[0] == 5.0


def test_registration() -> None:
    with pytest.raises(ValueError, match="registered as a pytree node already"):
        calque.register_pytree_node(Box, flatten_box, unflatten_box)
    with pytest.raises(TypeError, match="cls must be a class"):
        calque.register_pytree_node(INTERVAL, flatten_box, unflatten_box)
    with pytest.raises(TypeError, match="cls must be a dataclass"):
        calque.register_dataclass(Box)

    @dataclasses.dataclass
    class Late:
        x: Any
        n: int

    assert calque.grad(lambda s: s.x * s.n)(Late(2.0, 3.0)).n == 2.0  # both are data
    with pytest.raises(ValueError, match="must name each field of Late once: x, n"):
        calque.register_dataclass(Late, ["x"], [])
    calque.register_dataclass(Late, ["x"], ["n"])
    assert calque.grad(lambda s: s.x * s.n)(Late(2.0, 3)).n == 3
    assert pickle.loads(pickle.dumps(PARTICLE)) is not PARTICLE


def test_what_cannot_be_made_again() -> None:
    class Hidden:
        def __init__(self, x: Any):
            self.x = x * 2.0

    calque.register_pytree_node(Hidden, lambda h: ((h.x,), None), lambda aux, c: Hidden(c[0] / 2.0))
    with pytest.raises(UnsupportedFunction, match="leaf that is none of its attributes"):
        calque.grad(lambda h: h.x * h.x)(Hidden(2.0))

    class Local:
        def __init__(self, x: Any):
            self.x = [x]

    calque.register_pytree_node(Local, lambda h: ((h.x[0],), None), lambda aux, c: Local(*c))
    with pytest.raises(UnsupportedFunction, match="Generated code cannot make a Local"):
        calque.grad(lambda h: h.x[0] * h.x[0])(Local(2.0))

    class Unknown:
        pass

    with pytest.raises(UnsupportedFunction, match="register its class"):
        calque.jvp(lambda x: (x, Unknown()), (2.0,), (1.0,))


ORDERED = OrderedDict([("w", np.array([0.5, -1.2, 2.0])), ("a", 2.0)])


def scaled_squares(p):
    return np.sum(p["w"] ** 2) * p["a"]


def jax_scaled_squares(p):
    return jnp.sum(p["w"] ** 2) * p["a"]


def test_dicts_keep_their_kind() -> None:
    for given in (ORDERED, defaultdict(float, ORDERED), defaultdict(lambda: 1.0, ORDERED)):
        for name in ("grad", "hessian"):
            found = getattr(calque, name)(scaled_squares)(given)
            expected = getattr(jax, name)(jax_scaled_squares)(given)
            assert jax.tree.structure(found) == jax.tree.structure(expected)
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)


def test_an_ordered_dict_is_mapped_in_its_own_order() -> None:
    batch = OrderedDict(w=np.ones(3), a=np.array([1.0, 2.0, 3.0]))
    found = calque.vmap(scaled_squares, in_axes=({"w": None, "a": 0},))(batch)
    np.testing.assert_allclose(found, 3.0 * batch["a"])


def test_an_ordered_dict_meets_its_own_cotangents() -> None:
    @calque.custom_vjp
    def ruled(p):
        return scaled_squares(p)

    def back(p, c):
        return (OrderedDict(w=2 * p["w"] * p["a"] * c, a=np.sum(p["w"] ** 2) * c),)

    ruled.defvjp(lambda p: (ruled(p), p), back)
    found, expected = calque.grad(ruled)(ORDERED), jax.grad(jax_scaled_squares)(ORDERED)
    np.testing.assert_allclose(found["w"], expected["w"], rtol=1e-12)
    np.testing.assert_allclose(found["a"], expected["a"], rtol=1e-12)


def test_an_ordered_dict_is_carried_and_joined() -> None:
    def moved(p):
        for _ in range(p["w"].size):
            p = OrderedDict(w=p["w"] * 1.1, a=p["a"] + 1.0)
        if p["a"] > 3.0:
            p = OrderedDict(w=-p["w"], a=p["a"])
        return p

    found, expected = calque.jit(moved)(ORDERED), moved(ORDERED)
    assert type(found) is OrderedDict and list(found) == ["w", "a"]
    np.testing.assert_allclose(found["w"], expected["w"], rtol=1e-13)
