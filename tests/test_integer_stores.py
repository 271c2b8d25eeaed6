"""An integer stored into narrower integers, or summed with them, is NumPy's, or NumPy's error.

NumPy refuses a Python integer that a dtype cannot hold, wherever it meets one, and its own numbers
where it stores one of them into integers with a sign; to unsigned ones it casts them, and arrays
always. The oracle is the function itself: plain, and called for one example after the other.
"""

from __future__ import annotations

import numpy as np
import pytest
from sampling import sampled

import calque

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
KINDS = "bBhHiIqQ"
UNSIGNED, FEW = "BHIQ", "bBQ"
SMALL = [5, -1, 127, 128, 255, 256, -128, -129, 32768, 65535, 2**31 - 1]
NUMBERS = [*SMALL, 2**32, -(2**40)]


def cell(y, k):
    for i in range(y.shape[0]):
        y[i] = k
    return y


def counted(y, k):
    for i in range(y.shape[0]):
        y[i] = k + i
    return y


def cell_of_int(y, k):
    for i in range(y.shape[0]):
        y[i] = int(k) * 1
    return y


def middle(y, k):
    y[1:] = k
    return y


def none(y, k):
    y[3:] = k
    return y


def row(y, k):
    z = np.zeros((2, y.shape[0]), y.dtype)
    z[1] = k
    for i in range(y.shape[0]):
        z[0, i] = y[i]
    return z


def masked(y, k):
    y[y == 1] = k
    return y


def chosen(y, k):
    y[np.array([0, 2])] = k
    return y


def filled(y, k):
    y.fill(k)
    return y


def without_axes(y, k):
    z = np.zeros((), np.int64)
    z[...] = k
    for i in range(y.shape[0]):
        y[i] = z
    return y


def element(y, k):
    z = np.full(4, k)
    for i in range(y.shape[0]):
        y[i] = z[i + 1]
    return y


def total(y, k):
    z = np.full(4, k)
    y[1] = np.sum(z) - 3 * z[0]
    return y


def summed(y, k):
    for i in range(y.shape[0]):
        y[i] = y[i] + k
    return y


def summed_in_place(y, k):
    for i in range(y.shape[0]):
        y[i] += k
    return y


def taken_away(y, k):
    for i in range(y.shape[0]):
        y[i] -= k
    return y


def times_in_place(y, k):
    y *= k
    return y


def whole(y, k):
    return y + k


def larger(y, k):
    return np.maximum(y, k)


def compared(y, k):
    return (y < k) & (k == y)


def quotient(y, k):
    return (y + 7) // k


def bits(y, k):
    for i in range(y.shape[0]):
        y[i] = (y[i] | k) ^ 1
    return y


def shifted(y, k):
    return y << k if 0 <= k < 8 else y & k


def full(y, k):
    return np.full(3, k, y.dtype) + y


def listed(y, k):
    return np.array([k, 1, 2], y.dtype) + y


def listed_in_a_loop(y, k):
    for i in range(y.shape[0]):
        z = np.array([k + i, 1], y.dtype)
        y[i] = z[0]
    return y


def literals(y, k):
    for i in range(y.shape[0]):
        if k == 5:
            y[i] = 300
        elif k == 127:
            y[i] += -1
        elif k == 128:
            y[i] -= 1
        elif k == 255:
            y[i] = y[i] + 40000
        elif k == 256:
            y[i] = 3e9
        elif k == -1:
            y[i] = np.inf
        elif k == -128:
            y[i] = y[i] * -1
        else:
            y[i] += 127
    return y


def not_taken(y, k):
    for i in range(y.shape[0]):
        if -100 < k < 100:
            y[i] = abs(k)
    return y


def of_a_remainder(y, k):
    for i in range(y.shape[0]):
        y[i] = k % 100
    return y


def added_at(y, k):
    np.add.at(y, np.array([0, 0, 2]), k)
    return y


def clipped(y, k):
    return np.clip(y, 1, k)


def where(y, k):
    return np.where(y > 1, k, y)


FUNCTIONS = [
    *(cell, counted, cell_of_int, middle, none, row, masked, chosen, filled, without_axes),
    *(element, total, summed, summed_in_place, taken_away, times_in_place, whole, larger),
    *(compared, quotient, bits, shifted, full, listed, listed_in_a_loop, literals, not_taken),
    *(of_a_remainder, added_at, clipped, where),
]


def result(function, *args):
    try:
        found = function(*args)
    except (ValueError, OverflowError) as error:
        return type(error)
    return found.dtype, found.tolist()


def start(kind):
    """Three integers of a dtype."""
    return np.array([0, 1, 2], kind)


def differences(function, kind, number):
    wanted = result(function, start(kind), number)
    compiled = calque.jit(function)
    plain = {}
    exec(compiled.source(start(kind), number, stage="numpy"), {"np": np}, plain)
    for form in (compiled, *plain.values()):
        found = result(form, start(kind), number)
        if found != wanted:
            yield function.__name__, kind, number, found, wanted


CASES = [(f, k) for f in FUNCTIONS for k in KINDS if k in FEW or f in (cell, summed, whole)]
# an integer of 64 bits in place: refused, by NumPy or by calque
REFUSED = summed_in_place, taken_away, times_in_place, bits, shifted


def numbers(function, kind, all_of):
    """NumPy adds what has a sign to uint64 in float64, where ``np.add.at`` does."""
    return [k for k in all_of if function is not added_at or kind != "Q" or k >= 0]


@pytest.mark.parametrize(("function", "kind"), sampled(CASES, 4))
def test_pythons_integers(function, kind):
    known = NUMBERS if function in (cell, whole, literals, clipped) else SMALL
    assert not [d for k in numbers(function, kind, known) for d in differences(function, kind, k)]


@pytest.mark.parametrize(("function", "kind"), sampled(CASES, 4, 2))
def test_numpys_integers(function, kind):
    if function not in REFUSED or kind not in UNSIGNED:
        given = map(np.int64, numbers(function, kind, NUMBERS))
        assert not [d for k in given for d in differences(function, kind, k)]


def of_int(function):
    def single(y, x):
        return function(y, int(x))

    return single


def one_by_one(function, y, numbers):
    return np.stack([function(y.copy(), k) for k in numbers])


def lanes_differ(function, kind, numbers):
    wanted = result(one_by_one, function, start(kind), numbers)
    for form in (calque.vmap(function, (None, 0)), calque.jit(calque.vmap(function, (None, 0)))):
        found = result(form, start(kind), numbers)
        if found != wanted:
            yield function.__name__, kind, numbers, found, wanted


@pytest.mark.parametrize(
    ("function", "kind"), sampled([(f, k) for f in FUNCTIONS for k in FEW], 5)
)
def test_of_all_examples(function, kind):
    given = [np.array([5, k, 1]) for k in numbers(function, kind, NUMBERS)]
    forms = [of_int(function), function] if function not in REFUSED else [of_int(function)]
    if function in (bits, shifted) and kind == "Q":
        return  # refused: of uint64 and int64 there is no common type
    assert not [d for form in forms for k in given for d in lanes_differ(form, kind, k)]


def narrow_array(y, x):
    y[:] = x
    y[1:] = x[1:] * 2
    return y


def test_arrays_are_cast():
    x = np.array([300, -1, 128])
    for kind in KINDS:
        wanted = narrow_array(start(kind), x)
        np.testing.assert_array_equal(calque.jit(narrow_array)(start(kind), x), wanted)


@pytest.mark.parametrize("kind", "bBiIq")
def test_64_bits_without_a_sign(kind):
    for number in (5, 2**63 - 1, 2**63, 2**64 - 1):
        for function in (cell, element, middle):
            assert not list(differences(function, kind, np.uint64(number)))
        assert not list(lanes_differ(cell, kind, np.array([1, number], np.uint64)))


NOT_ALL = [[1.5, np.nan], [np.inf, 2.0], [1.0, -1e300], [2.0, 300.0], [-1.0, 2.0], [2.0**63, 1.0]]


@pytest.mark.parametrize("kind", "bBqQ")
@pytest.mark.parametrize("function", [cell, middle, cell_of_int])
def test_floats_of_all_examples(function, kind):
    for given in NOT_ALL:
        if kind in UNSIGNED and function is not cell_of_int:
            continue  # NumPy's own floats are cast
        if kind == "Q" and max(given) == 2.0**63:
            continue  # an integer of 64 bits with a sign cannot be that large
        assert not list(lanes_differ(function, kind, np.array(given)))


def chosen_by(y, x):
    if x < 100.0:
        y[0] = int(x)
    return y


def chosen_sum(y, x):
    z = y
    if x < 100.0:
        z = y + int(x)
    return z


@pytest.mark.parametrize("function", [chosen_by, chosen_sum])
def test_an_example_that_does_not_come_there_raises_nothing(function):
    for given in ([5.0, 300.0], [5.0, np.nan], [500.0, np.inf], [5.0, -300.0]):
        assert not list(lanes_differ(function, "b", np.array(given)))


# what is proven


def kernels(function, *args):
    return calque.jit(function).source(*args, stage="kernels")


def below_a_hundred(y):
    for i in range(100):
        y[i] = i
    return y


def below_the_size(y):
    for i in range(y.shape[0]):
        y[i] = i * 2 + 1
    return y


def within_a_test(y, k):
    for i in range(y.shape[0]):
        if 0 <= k and k < 128:
            y[i] = k
    return y


def of_a_quotient(y):
    for i in range(y.shape[0]):
        y[i] = (i % 50) // 2
    return y


def ends(y):
    for i in range(y.shape[0]):
        y[i] = y[i] * 2 + 127
    return y


def test_what_fits_is_not_looked_at():
    assert "bounded" not in kernels(below_a_hundred, np.zeros(100, "b"))
    assert "bounded" not in kernels(within_a_test, start("b"), 5)
    assert "bounded" not in kernels(of_a_quotient, start("b"))
    assert "bounded" not in kernels(ends, start("b"))
    assert "bounded" not in kernels(cell, start("i"), 5)  # a larger one is part of the program
    assert "bounded" in kernels(cell, start("I"), 5)
    for function in (below_a_hundred, of_a_quotient, ends, cell):
        args = (np.zeros(100, "i"), 5)[: 1 + (function is cell)]
        assert "prange" in kernels(function, *args)


def test_a_counter_fits_for_the_sizes_at_hand():
    compiled = calque.jit(below_the_size)
    for size in (10, 64, 65, 10, 300):
        y = np.zeros(size, "b")
        assert result(compiled, y) == result(below_the_size, y.copy())
    assert "bounded" not in kernels(below_the_size, np.zeros(64, "b"))
    assert "bounded" in kernels(below_the_size, np.zeros(65, "b"))
    assert "bounded" not in kernels(below_the_size, np.zeros(65, "i"))


def test_a_number_for_a_whole_array_is_looked_at_before_the_kernel():
    source = kernels(whole, start("b"), 5)
    assert "k_cast = np.int8(k)" in source and "bounded" not in source and "prange" in source
