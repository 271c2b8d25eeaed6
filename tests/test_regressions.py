"""Programs that once gave a wrong answer, or none, each with an oracle of its own."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from types import ModuleType

import numpy as np
import pytest

import calque
from battery import oracle
from calque.transpiler import errors

X = np.array([0.5, 0.6, 0.7])


def agrees(fn, *args):
    """Value, gradient and Hessian-vector product against plain Python and differences."""
    grad = calque.grad(fn)
    assert np.isclose(calque.value_and_grad(fn)(*oracle.copied(args))[0], fn(*oracle.copied(args)))
    way = np.linspace(-1.0, 1.0, X.size)
    step = 1e-6

    def moved(sign):
        return (args[0] + sign * step * way, *oracle.copied(args[1:]))

    slope = (fn(*moved(1)) - fn(*moved(-1))) / (2 * step)
    assert np.isclose(np.sum(grad(*oracle.copied(args)) * way), slope, rtol=1e-6, atol=1e-6)
    bend = (grad(*moved(1)) - grad(*moved(-1))) / (2 * step)
    tangents = (way, *(np.zeros_like(a) for a in args[1:]))
    assert np.allclose(calque.jvp(grad, args, tangents)[1], bend, rtol=1e-5, atol=1e-5)


# what a list holds is the array itself


def appends_what_it_stores_into(x):
    y = np.zeros(3)
    out = []
    for i in range(x.shape[0]):
        y[i] = x[i]
        out.append(y)
    return np.sum(np.array(out) ** 2)


def stores_into_an_appended_row(x):
    a = np.outer(x, x)
    out = [row for row in a]
    out[0][1] = 7.0 * x[0]
    return np.sum(a**2)


def stores_after_the_append(x):
    out = []
    for i in range(x.shape[0]):
        y = x * i
        out.append(y)
        y[0] = 3.0
    return np.sum(np.array(out) ** 2)


def stores_before_the_append(x):
    out = []
    for i in range(x.shape[0]):
        y = x * i
        y[0] = 3.0
        out.append(y)
    return np.sum(np.array(out) ** 2)


@pytest.mark.parametrize(
    "fn", [appends_what_it_stores_into, stores_into_an_appended_row, stores_after_the_append]
)
def test_appended_arrays_are_no_copies(fn):
    with pytest.raises(errors.AliasUndecided):
        calque.grad(fn)(X)


def test_appended_arrays_that_are_new():
    agrees(stores_before_the_append, X)


# an alias that nobody reads any more decides nothing


def view_left_behind(x):
    b = np.sin(x)
    k = 0
    while k < 3:
        k += 1
        for _i in range(x.shape[0]):
            w = b[1:]
            w[0] = b[0] * x[1]
            if b[1] < -5.0:
                continue
        b[[1, 1]] += x[:2]
    return np.sum(b * b)


def flat_view_of_a_copy(x):
    c = np.outer(x, x).copy()
    for _i in range(x.shape[0]):
        if x[0] > 0.0:
            w = c.reshape(-1)
            w[1] = 3.0 * w[2]
        w = c.reshape(-1)
        w[::3] *= 0.8
    return np.sum(c * c)


def test_view_left_behind():
    agrees(view_left_behind, X)


def test_flat_view_of_a_copy():
    agrees(flat_view_of_a_copy, X)


# a return from a loop in which a list grows


def returns_while_growing(x):
    out = []
    for i in range(x.shape[0]):
        if x[i] < 0.13:
            return x[i] * 2.0
        out.append(x[i] ** 2)
    return np.sum(np.array(out))


def test_returns_while_growing():
    agrees(returns_while_growing, X)
    agrees(returns_while_growing, np.array([0.5, 0.1, 0.7]))


# True, and what only equals it


def is_true(x, a):
    if (a > 1) is True:
        return x * 2.0
    return x * 3.0


def matches_true(x, a):
    match a > 1:
        case True:
            return x * 2.0
        case False:
            return x * 3.0
    return x * 5.0


@pytest.mark.parametrize("fn", [is_true, matches_true])
@pytest.mark.parametrize("a", [2.0, 0.5, np.float64(2.0), np.float64(0.5)])
def test_singletons(fn, a):
    assert calque.grad(fn)(1.0, a) == fn(1.0, a)


# numbers


def power_of_arrays(x, y):
    return np.sum(x**y)


def test_mixed_second_derivative_of_power_at_zero():
    x, y = np.array([0.5, 1.0, 2.0]), np.array([0.0, 2.0, 0.0])
    mixed = calque.jvp(calque.grad(power_of_arrays), (x, y), (np.zeros(3), np.ones(3)))[1]
    assert np.allclose(mixed, x ** (y - 1.0) * (1.0 + y * np.log(x)))


def logdet(x):
    return np.linalg.slogdet(np.outer(x, x) + np.eye(3))[1]


def test_slogdet_of_one_matrix():
    agrees(logdet, X)


# nothing goes stale


class Scaled:
    factor = 2.0

    def scale(self):
        return 2.0

    @property
    def size(self):
        return 2.0


settings = ModuleType("settings")
captured = Scaled()


def reads_module(x):
    return np.sum(x) * settings.factor


def calls_from_module(x):
    return np.sum(settings.function(x))


def reads_class(x):
    return np.sum(x) * Scaled().factor


def calls_method(x):
    return np.sum(x) * captured.scale()


def reads_property(x):
    return np.sum(x) * captured.size


def weighted(x, weights):
    return np.sum(x * weights)


def triple(self):
    return 3.0


def test_module_attributes_are_read_again():
    settings.factor, settings.function = 2.0, np.sin
    slopes, calls = calque.grad(reads_module), calque.grad(calls_from_module)
    assert slopes(X)[0] == 2.0 and np.allclose(calls(X), np.cos(X))
    settings.factor, settings.function = 3.0, np.exp
    assert slopes(X)[0] == 3.0 and np.allclose(calls(X), np.exp(X))


@pytest.mark.parametrize(
    "fn, name, value",
    [
        (reads_class, "factor", 3.0),
        (calls_method, "scale", triple),
        (reads_property, "size", property(triple)),
    ],
)
def test_classes_are_read_again(fn, name, value, monkeypatch):
    grad = calque.grad(fn)
    assert grad(X)[0] == 2.0
    monkeypatch.setattr(Scaled, name, value)
    assert grad(X)[0] == 3.0


def test_arguments_of_a_partial_are_read_again():
    weights = np.ones(3)
    function = functools.partial(weighted, weights=weights)
    grad = calque.grad(function)
    assert np.array_equal(grad(X), weights)
    weights[:] = 5.0
    assert np.array_equal(grad(X), weights)
    function.keywords["weights"] = 2.0
    assert np.array_equal(grad(X), np.full(3, 2.0))


def test_a_function_whose_code_is_replaced():
    def first(x):
        return np.sum(x)

    def second(x):
        return np.sum(x) * 3.0

    grad = calque.grad(first)
    assert grad(X)[0] == 1.0
    first.__code__ = second.__code__
    assert grad(X)[0] == 3.0


# iterators and exceptions


def takes_pairs(x):
    total = 0.0
    values = iter([x[0], x[1], x[2]])
    for value in values:
        total += value * next(values, 10.0)
    return total


def walks_twice(x):
    total = 0.0
    values = iter([x[0], x[1], x[2]])
    for value in values:
        for other in values:
            total += value * other
    return total


def skips_the_first(x):
    values = iter([x[0], x[1], x[2]])
    total = next(values) ** 2
    for value in values:
        total += value
    return total


@pytest.mark.parametrize("fn", [takes_pairs, walks_twice])
def test_iterator_used_within_its_loop(fn):
    agrees(fn, X)


def test_iterator_used_before_its_loop():
    agrees(skips_the_first, X)


def unknown_mode(x, mode):
    if mode == "sum":
        return np.sum(x)
    raise KeyError(mode)


def test_function_that_always_raises():
    with pytest.raises(KeyError, match="other"):
        calque.grad(unknown_mode)(X, "other")


# a loop whose iterations differ in rank is unrolled, once its length is known


def splits_in_halves(x, iterations):
    y = x
    for k in range(iterations):
        even, odd = y.reshape(2, 2 ** (iterations - 1 - k), 2**k)
        y = np.stack([even + 2.0 * odd, even * odd], axis=1)
    return np.sum(y.reshape(-1) * np.arange(8.0))


def test_a_run_time_loop_whose_iterations_differ_in_rank() -> None:
    x = np.linspace(0.2, 1.1, 8)
    step, way = 1e-6, np.cos(np.arange(8.0))
    slope = splits_in_halves(x + step * way, 3) - splits_in_halves(x - step * way, 3)
    value, gradient = calque.value_and_grad(splits_in_halves)(x, 3)
    assert value == splits_in_halves(x, 3)
    assert np.isclose(gradient @ way, slope / (2 * step), rtol=1e-7)


# what an attempt at a loop took for granted must be checked though the attempt is dropped


def pairs_in_a_loop(x):
    for _ in range(2):
        gaps = x[:, 1:] - x[:, 1:].T  # one column, or as many as there are rows
        x = x + 0.1 * np.hstack((gaps[:, :1], np.sum(gaps, axis=1).reshape(-1, 1)))
    return np.sum(np.sin(x))


def test_sizes_that_a_loop_takes_to_be_equal_are_checked():
    for shape in [(5, 2), (1, 2)]:
        x = np.linspace(-1.0, 1.0, 2 * shape[0]).reshape(shape)
        way, step = np.cos(np.arange(x.size)).reshape(shape), 1e-6
        assert np.isclose(calque.jit(pairs_in_a_loop)(x), pairs_in_a_loop(x), rtol=1e-13)
        slope = (pairs_in_a_loop(x + step * way) - pairs_in_a_loop(x - step * way)) / (2 * step)
        assert np.isclose(np.sum(calque.grad(pairs_in_a_loop)(x) * way), slope, rtol=1e-7)


# a sequence times an integer is repeated, whoever knows the integer


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (lambda x: np.array([1.0] * len(x)) * x[0], ()),
        (lambda x: np.array((1.0, 2.0) * len(x)) * x[1], ()),
        (lambda x, n: np.array(n * [x[0], 2.0]), (3,)),
        (lambda x, n: x[0] if "ab" * n == "ababab" else x[1], (3,)),
    ],
)
def test_a_sequence_is_repeated(fn, args):
    np.testing.assert_array_equal(calque.jit(fn)(X, *args), fn(X, *args), strict=True)
    batch = np.stack([X, 2.0 * X])
    found = calque.vmap(lambda x: fn(x, *args))(batch)
    np.testing.assert_array_equal(found, np.stack([fn(x, *args) for x in batch]), strict=True)


def test_a_repetition_that_depends_on_data_is_refused():
    def fn(x):
        count = int(np.sum(x > 0.55))
        return np.sum(np.array((1.0,) * count)) * x[0]

    with pytest.raises(errors.NeedsKnownValue, match="How often a sequence is repeated"):
        calque.grad(fn)(X)


# a cotangent that lacks the axes it spreads over


@pytest.mark.parametrize("reduce", [np.sum, np.mean])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2)])
def test_a_reduction_weighted_by_a_vector(reduce, axis):
    cube = np.linspace(-1.0, 1.0, 24).reshape(2, 3, 4)
    weights = np.array([0.5, -1.0, 2.0, 1.5])[: reduce(cube, axis=axis).shape[-1]]
    spread = np.broadcast_to(weights, reduce(cube, axis=axis).shape)
    wanted = np.expand_dims(spread, axis) * np.ones(cube.shape)
    wanted /= 1.0 if reduce is np.sum else cube.size / spread.size
    found = calque.grad(lambda x: np.sum(reduce(x, axis=axis) * weights))(cube)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    many = np.stack([cube, 2.0 * cube])
    per_example = calque.vmap(lambda x: np.sum(reduce(x, axis=axis) * weights))
    found = calque.grad(lambda x: np.sum(per_example(x)))(many)
    np.testing.assert_allclose(found, np.stack([wanted, wanted]), rtol=1e-13)


# a dict that makes its values


def grouped(x):
    groups = defaultdict(list)
    totals = defaultdict(lambda: 2.0 * x[0])
    for i, v in enumerate(x):
        groups["even" if i % 2 == 0 else "odd"].append(v * v)
        totals[i % 2] += v
    return sum(groups["even"]) * len(groups["odd"]) + totals[0] * totals[1] + totals["new"]


def test_what_a_defaultdict_makes_is_kept():
    agrees(grouped, X)


def iterated(x):
    total = sum(itertools.starmap(lambda a, b: a * b, zip(x, x[1:])))
    for a, b in itertools.zip_longest([x[0], x[1]], [2.0], fillvalue=3.0):
        total += a * b
    for a, b in zip(x, itertools.islice(x, 1, None)):
        total += a / b
    return total


def test_iterators_over_run_time_values():
    agrees(iterated, X)


# what an endless loop binds before its only way out


def bound_in_an_endless_loop(x):
    count = 0
    while True:
        y = x * count
        count += 1
        if np.sum(y) > 3.0 or count > 20:
            break
        x = x + 0.1 * y
    return np.sum(y * x) * count


def bound_after_the_way_out(x):
    while True:
        if np.sum(x) > 3.0:
            break
        y = 2.0 * x
        x = x + y
    return np.sum(y)


def test_names_of_an_endless_loop():
    agrees(bound_in_an_endless_loop, X)
    agrees(bound_after_the_way_out, 0.1 * X)
    with pytest.raises(UnboundLocalError, match="local variable 'y'"):
        calque.grad(bound_after_the_way_out)(np.abs(X) + 3.0)
