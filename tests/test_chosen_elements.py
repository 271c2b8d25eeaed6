"""Elements of known lists, tuples and dicts at run-time places: plain Python is the oracle."""

from __future__ import annotations

import bisect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import calque
from calque.transpiler.errors import AliasUndecided, BranchMismatch, NeedsKnownValue

HEIGHTS = [0.0, 1.1, 2.0, 3.2]
SLOPES = [-6.5, 0, 1.0, 2]  # integers and floats
PRESSURES = [101325, 22632.06, 5474.9, 868.0]
PAIRS = [(1.0, 2.0), (3, 4.5), (5.0, 6.0)]
ROWS = [[1.0, 2.0, 3.0], [3.0, 4.0, 6.0], [5.0, 6.0, 9.0]]
ARRAYS = (np.array([1.0, 2.0]), np.array([3.0, 5.0]), np.array([4.0, 7.0]))
NESTED = ({"a": 1.0, "b": (2.0, 0.5)}, {"a": 3.0, "b": (4.0, 0.25)})
MAYBE = [None, 1.5, 2.5]
SAME = [2.0, 2.0, 2.0]
WIDTHS = [np.float32(0.5), np.float32(0.25)]
BY_ZONE = {1: 1.5, 2: 2.5, 3: 7.0}
BY_HALF = {0.5: 2.0, 1.5: 3, 2.5: 4.0}
BY_WHEN = {"begin": 1, "end": 0, 0: 3, 1: 4}


LETTERS = "ABBC"
NAMES = ["low", "middle", "high"]
BY_NAME = {"low": 1.5, "middle": 2.5, "high": 7.0}
FUNCTIONS = (np.sin, np.cosh, lambda v: v * v)
BY_RULE = {0: np.tanh, 1: "cube", 2: None}
OF_SEVERAL_LENGTHS = [(1.0,), (2.0, 3.0), (1.0, 2.0, 3.0)]


class Layer(NamedTuple):
    base: float
    slope: float


LAYERS = [Layer(288.15, -6.5), Layer(216.65, 0.0), Layer(216.65, 1.0)]


def of_two_classes(x):
    i = int(x)
    return PRESSURES[i] + SLOPES[i] * (x - HEIGHTS[i])


def found_by_a_test(x):
    i = 0
    for k in range(1, len(HEIGHTS)):
        if x > HEIGHTS[k]:
            i = k
    return PRESSURES[i] + SLOPES[i] * x


def found_by_a_while(x):
    i = 0
    while i < 3 and x > HEIGHTS[i + 1]:
        i += 1
    return PRESSURES[i] + SLOPES[i] * x


def found_by_bisection(x):
    i = bisect.bisect(HEIGHTS, x) - 1
    return x * PRESSURES[i] + bisect.bisect_left(HEIGHTS, x, 1, 3)


def found_by_a_key(x):
    return x * PRESSURES[bisect.bisect_right(LAYERS, -x, key=lambda layer: -layer.base / 250) - 1]


def found_by_numpy(x):
    return x * PRESSURES[np.searchsorted(np.array(HEIGHTS), x) - 1]


def unpacked(x):
    a, b = PAIRS[int(x)]
    return a * x + b


def named(x):
    layer = LAYERS[int(x)]
    return layer.base + layer.slope * x


def row(x):
    total = 0.0
    for a in ROWS[int(x)]:
        total += a * x
    return total + ROWS[int(x)][1]


def local_rows(x):
    rows = [[x, 1.0], [2.0, x * x], [x, x]]
    first, second = rows[int(x)]
    return first * 3 + second


def arrays(x):
    return np.sum(ARRAYS[int(x)] * x)


def nested(x):
    part = NESTED[int(x)]
    return part["a"] * x + part["b"][1]


def perhaps_none(x):
    value = MAYBE[int(x)]
    return x if value is None else x * value


def all_the_same(x):
    return SAME[int(x)] * x


def from_the_end(x):
    return PRESSURES[-int(x)] * x


def from_a_dict(x):
    return BY_ZONE[int(x) + 1] * x


def from_halves(x):
    return BY_HALF[int(x) + 0.5] * x


def among_texts(x):
    return BY_WHEN[int(x)] * x


def with_a_default(x):
    return BY_ZONE.get(int(x), 0.5) * x


def by_a_float(x):
    return BY_ZONE.get(np.floor(x), 0.5) * x


def key_tried(x):
    try:
        return BY_ZONE[int(x)] * x
    except KeyError:
        return x * x


def index_tried(x):
    try:
        return LAYERS[int(x) + 1].slope * x
    except IndexError:
        return x * x


def by_a_truth(x):
    return ROWS[x > 1.0][1] * x + {True: 2.0, False: 0.5}[x > 1.0] * x


def in_a_loop(x):
    total = 0.0
    for k in range(3):
        a, b = PAIRS[int(x + k) % 3]
        total += a * x + b
    return total


def letter_unread(x):
    letter = LETTERS[int(x)]
    return x * x, letter


def of_a_letter(x):
    value, _ = letter_unread(x)
    return value


def letter_compared(x):
    letter = LETTERS[int(x)]
    if letter == "A":
        return x * 2
    return x * x if letter in ("B", "D") else x


def letter_in_order(x):
    return x * 2 if LETTERS[int(x)] < "B" else x * x


def by_a_name(x):
    return BY_NAME[NAMES[int(x)]] * x


def names_in_a_loop(x):
    total = 0.0
    for v in np.array([0.2, 1.1, 2.7]) * x / 1.8:
        total += BY_NAME[NAMES[int(v)]] * v
    return total


def of_functions(x):
    return FUNCTIONS[int(x)](x)


def by_a_rule(x):
    rule = BY_RULE[int(x)]
    if rule is None:
        return x
    return x * x * x if rule == "cube" else rule(x)


def lengths(x):
    total = 0.0
    for a in OF_SEVERAL_LENGTHS[int(x)]:
        total += a * x
    return total


PROGRAMS = [
    *(of_a_letter, letter_compared, letter_in_order, by_a_name, names_in_a_loop, of_functions),
    *(by_a_rule, lengths, by_a_truth),
    *(of_two_classes, found_by_a_test, found_by_a_while, found_by_bisection, found_by_a_key),
    *(found_by_numpy, unpacked, named, row, local_rows, arrays, nested, perhaps_none),
    *(all_the_same, from_the_end, from_a_dict, from_halves, among_texts, with_a_default),
    *(by_a_float, key_tried, index_tried, in_a_loop),
]
X = 1.3


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("x", [0.3, X, 1.7])
def test_against_python(fn: Callable[[float], Any], x: float) -> None:
    check(fn, x + 2.0 if fn is found_by_numpy and x < 1.0 else x)


def check(fn: Callable[[float], Any], x: float) -> None:
    expected, h = fn(x), 1e-6
    slope = (fn(x + h) - fn(x - h)) / (2 * h)
    with warnings.catch_warnings():
        warnings.simplefilter("error", calque.JitFallback)
        assert calque.jit(fn)(x) == pytest.approx(expected, rel=1e-14)
        assert calque.jit(calque.grad(fn))(x) == pytest.approx(slope, rel=1e-6)
    assert calque.grad(fn)(x) == pytest.approx(slope, rel=1e-6)
    value, tangent = calque.jvp(fn, (x,), (2.0,))
    assert (value, tangent) == (pytest.approx(expected), pytest.approx(2 * slope, rel=1e-6))
    many = np.array([x, x + 0.1, 0.2 if fn is not found_by_numpy else x])
    np.testing.assert_allclose(calque.vmap(fn)(many), [fn(v) for v in many.tolist()], rtol=1e-14)
    np.testing.assert_allclose(
        calque.vmap(calque.grad(fn))(many), [calque.grad(fn)(v) for v in many.tolist()], rtol=1e-14
    )


def counted(x):
    counts = {0: 0.0, 1: 0.0, 2: 0.0}
    for v in np.array([0.2, 1.1, 2.7, 0.4]) * x / 1.8:
        counts[int(v)] += v * v
    return counts[0] + 2 * counts[1] + 3 * counts[2]


def by_truths(x):
    sums = {True: 0.0, False: 1.0}
    for v in (x, x * x, 0.5):
        sums[v > 1.0] += v
    return sums[True] * sums[False]


def replaced(x):
    rows = {0: [1.0, x], 1: [2.0, 3.0], "all": [4.0]}
    alias = rows
    rows[int(x)] = [x * x, x]
    return alias[0][0] * 3 + alias[1][0] * x


def stored_anew(x):
    rows = {0: 1.0}
    rows[int(x)] = x
    return rows[0]


@pytest.mark.parametrize("fn", [counted, by_truths, replaced])
@pytest.mark.parametrize("x", [0.3, 1.3])
def test_stores_under_run_time_keys(fn: Callable[[float], Any], x: float) -> None:
    check(fn, x)


def test_a_run_time_key_that_is_new() -> None:
    assert calque.jit(stored_anew)(0.5) == 0.5
    with pytest.raises(NotImplementedError, match="a run-time key that the dict does not have"):
        calque.jit(stored_anew)(1.5)


def seven(x):
    return BY_ZONE[int(x)] * x


def eighth(x):
    return SLOPES[int(x)] * x


def third_pair(x):
    return PAIRS[int(x)][0] * x


def third_same(x):
    return SAME[int(x)] * x


@pytest.mark.parametrize("wrap", [lambda f: f, calque.jit, calque.grad, calque.vmap])
@pytest.mark.parametrize(
    "fn, x, error",
    [
        (seven, 7.2, KeyError),
        (seven, -1.0, KeyError),
        (eighth, 8.0, IndexError),
        (eighth, -5.0, IndexError),
        (third_pair, 3.0, IndexError),
        (third_same, 3.0, IndexError),
        (letter_compared, 4.0, IndexError),
        (letter_compared, -5.0, IndexError),
        (of_functions, 3.0, IndexError),
        (by_a_rule, 3.0, KeyError),
        (third_same, -4.0, IndexError),
    ],
)
def test_outside(wrap: Callable[..., Any], fn: Any, x: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrap(fn)(np.array([x, x]) if wrap is calque.vmap else x)


def as_plain_classes(x):
    return [1, 2.5][int(x)] // 2, [7, np.float32(2.0)][int(x)] * np.float32(0.1), WIDTHS[int(x)]


@pytest.mark.parametrize("x", [0.5, 1.5])
def test_classes_of_numbers(x: float) -> None:
    found, expected = calque.jit(as_plain_classes)(x), as_plain_classes(x)
    assert found == expected
    assert [np.result_type(v) for v in found[1:]] == [np.result_type(v) for v in expected[1:]]


def nowhere(x):
    return x * HEIGHTS[bisect.bisect_left(HEIGHTS, x)]


def test_a_bisection_for_nan() -> None:
    assert np.isnan(calque.jit(nowhere)(np.nan)) and np.isnan(nowhere(np.nan))


@pytest.fixture
def tables() -> Iterator[None]:
    kept = SLOPES[1], BY_ZONE[2], PAIRS[1]
    yield
    SLOPES[1], BY_ZONE[2], PAIRS[1] = kept


@pytest.mark.usefixtures("tables")
def test_changed_tables() -> None:
    compiled = [calque.jit(f) for f in (of_two_classes, from_a_dict, unpacked)]
    before = [f(X) for f in compiled]
    SLOPES[1], BY_ZONE[2], PAIRS[1] = 9.0, 8, (7.0, 1)
    after = [f(X) for f in compiled]
    assert after == [f(X) for f in (of_two_classes, from_a_dict, unpacked)]
    assert not any(a == b for a, b in zip(before, after, strict=True))


def stored_row(x):
    rows = [[1.0, x], [2.0, 3.0]]
    chosen = rows[int(x)]
    chosen[0] = x  # this changes one of the rows
    return rows[0][0] + rows[1][0]


def stored_original(x):
    rows = [[1.0, x], [2.0, 3.0]]
    chosen = rows[int(x)]
    rows[0][0] = 7.0
    return chosen[0] * x


def identity(x):
    rows = [[1.0], [2.0]]
    return x if rows[int(x)] is rows[0] else x * x


def of_several_lengths(x):
    return sum([[1.0], [2.0, 3.0]][int(x)]) * x


def gives_a_letter(x):
    return letter_unread(x)


def joins_a_letter(x):
    return len(LETTERS[int(x)] + "A") * x, "zone " + LETTERS[int(x)]


@pytest.mark.parametrize("fn", [gives_a_letter, joins_a_letter])
def test_a_text_that_leaves(fn: Callable[[float], Any]) -> None:
    with pytest.raises(BranchMismatch, match=r"(?s)LETTERS\[int\(x\)\].*return its index"):
        calque.jit(fn)(0.5)


@pytest.mark.parametrize(
    "fn, error",
    [
        (stored_row, AliasUndecided),
        (stored_original, AliasUndecided),
        (identity, AliasUndecided),
        (of_several_lengths, NeedsKnownValue),
    ],
)
def test_refused(fn: Callable[[float], Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"test_chosen_elements.py, line \d+, in {fn.__name__}"):
        calque.grad(fn)(0.5)


def by_floats(x):
    return HEIGHTS[x]


def by_an_array(x):
    return HEIGHTS[np.array([int(x), 0])]


@pytest.mark.parametrize("fn", [by_floats, by_an_array])
def test_no_index(fn: Callable[[float], Any]) -> None:
    with pytest.raises(TypeError, match="list indices must be integers or slices, not"):
        calque.jit(fn)(1.0)


def unhashable(x):
    return BY_ZONE[x]


def test_an_array_is_no_key() -> None:
    for value in (np.array([1.0]), np.array(1.0)):
        with pytest.raises(TypeError, match="unhashable type: 'numpy.ndarray'"):
            calque.jit(unhashable)(value)
