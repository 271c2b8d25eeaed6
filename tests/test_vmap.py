"""vmap: every batch rule and the battery against a loop and a stack, axes against JAX."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from core_eval import evaluate
from sampling import sampled
from tracing import trace_any

import calque
from battery import oracle
from battery.registry import Program, load
from calque.transpiler.errors import CalqueError
from calque.transpiler.ir.builder import Array, current
from calque.transpiler.ir.core import Function, Var
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives.base import Primitive, apply
from calque.transpiler.primitives.record import PRIMITIVES
from calque.transpiler.vectorize.batch import batch

pytest.importorskip("scipy")
SIZE = 3
# nothing to compare, or nothing to batch
UNDETERMINED = {"np.empty", "np.empty_like", "room"}
# the size of a result differs from one example to the next: see test_unstackable.py
REFUSED = {"np.nonzero", "np.argwhere", "np.flatnonzero", "np.unique", "np.bincount", "np.linalg.lstsq"}
PROGRAMS = [p for p in load() if p.refused is None]


def samples_of(primitive: Primitive) -> list[Any]:
    return primitive.samples(np.random.default_rng(7))


def many(value: Any, rng: np.random.Generator) -> np.ndarray:
    """SIZE versions of an array, such as it might have been drawn: its elements shuffled."""
    value = np.asarray(value)
    if value.dtype.kind == "f" and value.ndim < 2:
        return np.stack([value * (1.0 + 0.01 * k) for k in range(SIZE)]).astype(value.dtype)
    if value.ndim >= 2 and value.shape[-1] == value.shape[-2]:
        return np.stack([value * (1 + k if value.dtype.kind in "fc" else 1) for k in range(SIZE)])
    return np.stack([rng.permutation(value.ravel()).reshape(value.shape) for _ in range(SIZE)])


def by_rule(primitive: Primitive, args: list[Any], batched: tuple[bool, ...], params: Any) -> Any:
    """The batched program, built by the pass from one statement, run by the reference evaluator."""
    dynamic = [isinstance(a, (np.ndarray, np.generic)) for a in args]

    def program(*values: Any) -> Any:
        given, builder = iter(values), current()
        whole = [next(given) if d else a for a, d in zip(args, dynamic, strict=True)]
        size, companions, inner = SIZE, {}, []
        for value, b in zip(whole, batched, strict=True):
            if not b:
                inner.append(value)
                continue
            t = value.type
            var = Var(ArrayType(t.dtype, t.dims[1:]))
            companions[var] = value
            inner.append(Array(var))
            size = value.shape[0]
        with builder.block() as block:
            found = apply(primitive, *inner, **params)
            outs = found if isinstance(found, tuple) else (found,)
            block.results = [o.atom if isinstance(o, Array) else o for o in outs]
        function = Function("f", [], block, None)
        results = batch(function, builder, companions, size)
        builder.blocks[-1].statements += function.body.statements
        return tuple(v if b else np.broadcast_to(v, (size, *np.shape(v))) for v, b in results)

    values = [a for a, d in zip(args, dynamic, strict=True) if d]
    return evaluate(trace_any(program, *values), values)


CASES = [
    (p, k)
    for name, p in sorted(PRIMITIVES.items())
    if p.samples and name not in UNDETERMINED | REFUSED and p.kind not in ("creation", "size")
    # keys of kernels are pairs, which only loops hold; the slopes of gamma draws are elementwise, and slow
    if not name.startswith(("random_", "random.gamma_slope", "random.log_gamma_slope"))
    for k in range(len(samples_of(p)))
]


# whose samples hold positions, or have a length of its own for each example
REFUSING = ("getitem", "update", "update_add", "add_at", "np.arange of floats")


@pytest.mark.parametrize("primitive, k", CASES, ids=lambda v: str(v))
def test_batch_rule(primitive: Primitive, k: int) -> None:
    args, params = samples_of(primitive)[k]
    args = [
        np.float64(a) if type(a) is float and primitive.kind == "elementwise" else a for a in args
    ]
    rng = np.random.default_rng(3)
    arrays = [isinstance(a, (np.ndarray, np.generic)) for a in args]
    moving = [i for i, a in enumerate(arrays) if a]
    choices = [tuple(i == j for i in range(len(args))) for j in moving]
    choices += [tuple(arrays)] if len(moving) > 1 else []
    compared = 0
    for batched in choices:
        whole = [many(a, rng) if b else a for a, b in zip(args, batched, strict=True)]
        try:
            found = by_rule(primitive, whole, batched, params)
        except CalqueError as error:
            assert "vmap of" in str(error)
            continue
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = [
                primitive.function(*[a[i] if b else a for a, b in zip(whole, batched)], **params)
                for i in range(SIZE)
            ]
        rows = [r if isinstance(r, tuple) else (r,) for r in rows]
        for out, *expected in zip(found, *rows, strict=True):
            expected = np.stack([np.asarray(e) for e in expected])
            single = any(np.asarray(v).dtype in (np.float32, np.complex64) for v in (expected, *whole))
            assert np.shape(out) == expected.shape, batched
            assert np.asarray(out).dtype == expected.dtype, batched
            np.testing.assert_allclose(out, expected, 2e-6 if single else 1e-11, 1e-9)
        compared += 1
    assert compared or not choices or primitive.name in REFUSING


# programs


def versions(program: Program, size: int) -> list[tuple[Any, ...]]:
    """``size`` different sets of moving arguments near the program's own."""
    moving = program.moving()
    point = oracle.flat(moving)
    rng = np.random.default_rng(11)
    return [
        oracle.shaped(moving, point * (1.0 + 0.03 * k * rng.normal(size=point.size)))
        for k in range(size)
    ]


def stacked(trees: list[Any]) -> Any:
    """Corresponding leaves along a new first axis."""
    rows = [oracle.leaves(t) for t in trees]
    return oracle.rebuilt(
        trees[0], iter([np.stack([np.asarray(x) for x in c]) for c in zip(*rows)])
    )


def batched_arguments(program: Program, size: int) -> tuple[list[Any], list[Any], list[Any]]:
    """The arguments of the vmapped call, their axes, and those of every single call."""
    each = versions(program, size)
    args, axes = list(program.fresh()), [None] * len(program.args)
    whole = stacked(each)
    for position, value in zip(program.diff, whole, strict=True):
        args[position], axes[position] = value, 0
    return args, axes, [program.with_moving(moving) for moving in each]


def same(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    left, right = oracle.leaves(found), oracle.leaves(expected)
    assert len(left) == len(right)
    for a, b in zip(left, right):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), tolerance, tolerance)


# of one example alone: what has one element is broadcast where it must not be
SIZES = [(p, 3) for p in sampled(PROGRAMS, 2)] + [(p, 1) for p in sampled(PROGRAMS, 4, 1)]


@pytest.mark.parametrize("program, size", SIZES, ids=lambda v: getattr(v, "id", v))
def test_battery(program: Program, size: int) -> None:
    args, axes, singles = batched_arguments(program, size)
    expected = stacked([program.fn(*one) for one in singles])
    found = calque.vmap(program.fn, in_axes=tuple(axes))(*args)
    same(found, expected)


@pytest.mark.parametrize("program", sampled(PROGRAMS, 6, 1), ids=lambda p: p.id)
def test_battery_gradients(program: Program) -> None:
    fn = program.scalar()
    args, axes, singles = batched_arguments(program, 3)
    gradient = calque.grad(fn, argnums=program.diff)
    expected = stacked([gradient(*one) for one in singles])
    same(calque.vmap(gradient, in_axes=tuple(axes))(*args), expected, 1e-7)


@pytest.mark.parametrize("program", sampled(PROGRAMS, 6, 4), ids=lambda p: p.id)
def test_battery_gradient_of_the_sum(program: Program) -> None:
    fn = program.scalar()
    args, axes, singles = batched_arguments(program, 3)
    gradient = calque.grad(fn, argnums=program.diff)
    expected = stacked([gradient(*one) for one in singles])
    many = calque.vmap(fn, in_axes=tuple(axes))

    def total(*args):
        return np.sum(many(*args))

    same(calque.grad(total, argnums=program.diff)(*args), expected, 1e-7)


# axes, sizes, errors


def forward(x, w, b):
    return np.max(np.dot(x, w) + b, 0)


def dotted(p, x):
    return {"y": p["w"] @ x + p["b"], "n": np.sum(p["b"])}


def test_axes_against_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 3, 3)), rng.normal(size=(3, 3))

    def product(x, y):
        return x * y, np.sum(x)

    def twin(x, y):
        return x * y, jnp.sum(x)

    for in_axes, out_axes in [
        ((0, None), 0),
        ((None, 0), 0),
        ((2, 0), 0),
        ((-1, 1), -1),
        ([1, None], (0, 0)),
        ((0, 0), (1, -1)),
        (0, (1, 0)),
    ]:
        in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        out_axes = tuple(out_axes) if isinstance(out_axes, list) else out_axes
        expected = jax.jit(jax.vmap(twin, in_axes, out_axes))(x, y)
        same(calque.vmap(product, in_axes, out_axes)(x, y), [np.asarray(e) for e in expected])


def test_prefix_trees_keywords_and_nesting() -> None:
    rng = np.random.default_rng(1)
    w, b, x = rng.normal(size=(2, 3)), rng.normal(size=(5, 2)), rng.normal(size=(3, 5))
    many = calque.vmap(dotted, in_axes=({"w": None, "b": 0}, 1))
    found = many({"w": w, "b": b}, x)
    same(found["y"], (w @ x).T + b)
    same(calque.vmap(lambda x, y: x * y)(b, y=b), b * b)
    outer = calque.vmap(calque.vmap(lambda a, c: a * c, in_axes=(None, 0)), in_axes=(0, None))
    same(outer(b[:, 0], x[0]), np.outer(b[:, 0], x[0]))


def test_empty_batch() -> None:
    none = np.zeros((0, 3))
    assert calque.vmap(np.sin)(none).shape == (0, 3)
    assert calque.vmap(lambda x: np.sum(x) if x[0] > 0 else np.sqrt(x[1]))(none).shape == (0,)


def test_errors_name_the_argument() -> None:
    def f(x, weights):
        return x @ weights

    with pytest.raises(ValueError, match=r"argument 1"):
        calque.vmap(f, in_axes=(0, 3))(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match="in_axes"):
        calque.vmap(f, in_axes=(0,))(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError):
        calque.vmap(f)(np.ones((2, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match="out_axes"):
        calque.vmap(np.sin, out_axes=None)(np.ones(3))


def affine(x, params):
    return x * params["w"] + params["b"]


LENGTHS = [
    ((np.ones(3), {"w": np.ones(3), "b": np.ones(4)}), "argument 0 (x) along its axis 0 has 3, argument 1 (params['b']) along its axis 0 has 4"),
    ((np.ones(3), {"w": np.ones(1), "b": np.ones(3)}), "argument 0 (x) along its axis 0 has 3, argument 1 (params['w']) along its axis 0 has 1"),
]


@pytest.mark.parametrize("args, text", LENGTHS)
def test_wrong_lengths_name_the_arguments(args: Any, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        calque.vmap(affine)(*args)
    assert str(caught.value).split("\n")[1:] == [
        "    def affine(x, params):",
        "    ^^^^^^^^^^^^^^^^^^^^^^",
        f"vmap: mapped axes must have equal lengths, and {text}.",
        "Instead: pass as many examples of each, or map the one over no axis (None in in_axes)",
    ]


def test_wrong_lengths_of_other_kinds() -> None:
    two, three = np.ones(2), np.ones(3)
    cases = [
        (calque.vmap(np.add), (three, two), {}, "along its axis 0 has 3, argument 1"),
        (calque.vmap(lambda x, y: x + y), (three,), {"y": two}, "argument y along its axis 0 has 2"),
        (calque.vmap(lambda *xs: xs[0]), (three, two), {}, r"argument 1 (xs[1]) along its axis 0 has 2"),
        (calque.vmap(calque.grad(lambda x, y: x * y)), (three, two), {}, "argument 1 (y) along its axis 0 has 2"),
        (calque.vmap(lambda x: x, axis_size=4), (three,), {}, "axis_size has 4, argument 0 (x) along its axis 0 has 3"),
        (calque.vmap(lambda x, y: x, (1, 0)), (np.ones((3, 5)), three), {}, "(x) along its axis 1 has 5, argument 1 (y)"),
    ]
    for f, args, kwargs, text in cases:
        with pytest.raises(ValueError) as caught:
            f(*args, **kwargs)
        assert text in str(caught.value)


def test_wrong_rank_names_the_argument() -> None:
    with pytest.raises(ValueError) as caught:
        calque.vmap(affine, in_axes=(0, {"w": 0, "b": 1}))(np.ones((3, 2)), {"w": np.ones(3), "b": np.ones(3)})
    assert str(caught.value).split("\n")[3:] == [
        "vmap was asked to map argument 1 (params['b']) over axis 1, but it has only 1.",
        "Instead: give in_axes an axis that it has, or None for an argument that all examples share",
    ]
    with pytest.raises(ValueError, match=r"argument 0 \(x\) over axis 0, but it has no axes: it is a scalar"):
        calque.vmap(affine)(1.0, {"w": np.ones(3), "b": np.ones(3)})


def chosen_examples(x, y):
    return calque.vmap(lambda a, b: a * b)(x[x > 0.0], y[1:])


def test_lengths_known_only_when_it_runs() -> None:
    total = calque.value_and_grad(lambda x, y: np.sum(chosen_examples(x, y)))
    same(total(np.array([1.0, -1.0, 2.0]), np.array([0.0, 3.0, 4.0])), [11.0, np.array([3.0, 0.0, 4.0])])
    for other in (np.ones(2), np.ones(5)):  # NumPy would broadcast the first
        with pytest.raises(ValueError, match=r"argument 0 \(a\) along its axis 0 has 2, argument 1 \(b\)"):
            total(np.array([1.0, -1.0, 2.0]), other)


def entropy_term(p):
    if p > 0.0:
        return -p * np.log(p)
    return 0.0


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def test_lanes_not_taken_are_silent() -> None:
    p, a = np.array([0.5, 0.0, 0.25]), np.array([1.0, 9.0, 2.0, 1e6])
    with np.errstate(all="raise"):
        same(calque.vmap(entropy_term)(p), np.array([entropy_term(v) for v in p]))
        many = calque.vmap(entropy_term)
        same(calque.grad(lambda p: np.sum(many(p)))(p), np.array([-np.log(0.5) - 1, 0.0, -np.log(0.25) - 1]))
        same(calque.vmap(newton)(a), np.sqrt(a))
        same(calque.vmap(calque.grad(newton))(a[1:]), 0.5 / np.sqrt(a[1:]))
        roots = calque.vmap(newton)
        same(calque.grad(lambda a: np.sum(roots(a)))(a[1:]), 0.5 / np.sqrt(a[1:]))


def wandering(x):
    """A branch within a loop, and a loop that ends for each example at its own time."""
    steps = 0.0
    while x > 1.0:
        if x > 4.0:
            x = np.sqrt(x)
        else:
            x = np.log(x)
        steps = steps + x
    return steps + (1.0 / x if x > 0.1 else np.exp(x))


def test_branches_that_differ_along_two_axes() -> None:
    x = np.array([[0.5, 30.0, 2.0], [5.0, 0.01, 100.0]])
    expected = np.array([[wandering(v) for v in row] for row in x])
    slopes = np.array([[calque.grad(wandering)(v) for v in row] for row in x])
    twice = calque.vmap(calque.vmap(wandering))
    with np.errstate(all="raise"):
        same(twice(x), expected)
        same(calque.vmap(calque.vmap(calque.grad(wandering)))(x), slopes)
        same(calque.vmap(calque.grad(lambda row: np.sum(calque.vmap(wandering)(row))))(x), slopes)
        same(calque.grad(lambda x: np.sum(twice(x)))(x), slopes)
    same(twice(np.zeros((0, 3))), np.zeros((0, 3)))


def test_per_example_gradients() -> None:
    rng = np.random.default_rng(2)
    w, x, y = rng.normal(size=3), rng.normal(size=(5, 3)), rng.normal(size=5)

    def loss(w, x, y):
        return (np.tanh(x @ w) - y) ** 2

    found = calque.vmap(calque.grad(loss), in_axes=(None, 0, 0))(w, x, y)
    t = np.tanh(x @ w)
    same(found, (2 * (t - y) * (1 - t * t))[:, None] * x)
    same(calque.vmap(forward, (0, None, None))(np.ones((2, 3)), np.ones((3, 4)), 1.0), np.array([4.0, 4.0]))


@pytest.mark.parametrize("f", [
    lambda x: np.ravel(x) * 2.0, lambda x: x.reshape(-1, 2), lambda x: x.reshape(2, -1, 3), lambda x: x.reshape(x.shape[1], -1),
    lambda x: x.flatten(), lambda x: np.linalg.norm(x), lambda x: np.median(x), lambda x: np.percentile(x, 30.0),
    lambda x: np.nanmedian(x), lambda x: np.prod(x), lambda x: np.sort(x, axis=None), lambda x: np.outer(x, x),
    lambda x: np.quantile(x, [0.2, 0.7]), lambda x: np.median(x, keepdims=True), lambda x: np.roll(x, 1),
])
def test_joined_axes_of_any_number_of_examples(f: Any) -> None:
    """NumPy cannot tell what -1 stands for in a shape of no elements."""
    for count in (0, 1, 3):
        x = np.random.default_rng(0).normal(size=(count, 4, 3))
        shape = np.shape(f(np.ones((4, 3))))
        expected = np.array([f(v) for v in x]).reshape(count, *shape)
        np.testing.assert_allclose(calque.vmap(f)(x), expected, 1e-14)
        slopes = calque.vmap(calque.grad(lambda v: np.sum(f(v) ** 2)))(x)
        alone = [calque.grad(lambda v: np.sum(f(v) ** 2))(v) for v in x]
        np.testing.assert_allclose(slopes, np.array(alone).reshape(x.shape), 1e-12, 1e-12)


def trained_in_parts(w, X):
    for _ in range(2):
        for i in range(0, len(X), 3):
            part = X[i : i + 3]
            error = part @ w
            w = w - 0.1 * part.T @ error
    return w


def test_names_of_an_iteration_need_no_place_before_the_loops() -> None:
    """The size of ``error`` is known only within an iteration, and no other iteration reads it."""
    rng = np.random.default_rng(0)
    w, X = rng.normal(size=(3, 2)), rng.normal(size=(8, 2))
    same(calque.vmap(trained_in_parts, (0, None))(w, X), np.array([trained_in_parts(v, X) for v in w]))


def never_read(x, A):
    """No example reads there, but batched code could still evaluate the index that all share."""
    k, t = len(x) - 1, 0.0
    if x[0] > 0.5:
        k = 1
    while k > 0:
        for j in range(len(x), len(x) + 2):
            if k >= len(x) or j > 0:
                continue
            t = t + A[2 - j, k // 2]
        k = k // 2
    return t


def test_an_index_of_all_examples_where_none_comes() -> None:
    x, A = np.array([[0.2] * 9, [0.7] * 9]), np.ones((2, 5, 4))
    np.testing.assert_array_equal(calque.vmap(never_read)(x, A), [0.0, 0.0])
    np.testing.assert_array_equal(calque.jit(calque.vmap(never_read))(x, A), [0.0, 0.0])


def test_a_loop_ends_before_its_test_reads_outside() -> None:
    """That the body has read ``x[i]`` says nothing of the ``i`` that the next test is of."""

    def climbed(x):
        i, top = 0, 0.5
        while i < x.shape[0] and (top < 0.9 or x[i] < top):
            if x[i] > 0.9:
                top = x[i] * 1.5
            i += 1
        return top * i

    batch = np.random.default_rng(5).uniform(0.0, 1.2, size=(9, 12))
    expected = [climbed(x) for x in batch]
    np.testing.assert_allclose(calque.vmap(climbed)(batch), expected)
    np.testing.assert_allclose(calque.jit(calque.vmap(climbed))(batch), expected)
