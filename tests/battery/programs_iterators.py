"""itertools beside run-time values, orders that known keys decide, ranges and heaviside."""

from __future__ import annotations

import itertools

import numpy as np

from battery.registry import program, vector


@program(vector(4))
def counted_rows(x):
    total = 0.0
    for k, value in zip(itertools.count(1), x):
        total += k * value**2
    for k, (a, b) in zip(itertools.count(5, -2), zip(x, x[1:])):
        total += k * a * b
    return total


@program(vector(4))
def counted_items(x):
    total = 0.0
    for k, value in zip(itertools.count(2.0, 0.5), [x[0], x[3]]):
        total += k * np.sin(value)
    return total


@program(vector(4))
def repeated(x):
    total = 0.0
    for value, factor in zip(x, itertools.repeat(x[0])):
        total += value * factor
    for value in itertools.repeat(x[1], 3):
        total *= value
    return total + sum(map(pow, [x[2], x[3]], itertools.repeat(2)))


@program(vector(4))
def cycled(x):
    total = x[2]
    for value, sign in zip([x[0], x[1], x[3]], itertools.cycle([1.0, -2.0])):
        total += sign * value**2
    for value in itertools.islice(itertools.cycle(x), 1, 6, 2):
        total *= value
    return total


@program(vector(3))
def next_of_count(x):
    numbers = itertools.count(3)
    places = {name: next(numbers) for name in "ab"}
    return x[0] ** places["a"] + x[1] ** next(numbers) + x[2] * places["b"]


@program(vector(3))
def sorted_by_the_keys_before_the_values(x):
    named = {"b": x[0], "a": x[1], "c": x[2] ** 2}
    total = 0.0
    for rank, (name, value) in enumerate(sorted(named.items())):
        total += (rank + 1) * value * ord(name)
    for rank, (_, value) in enumerate(sorted([(2, x[0]), (1, x[1])], reverse=True)):
        total += rank * value**2
    return total


@program(vector(5))
def range_as_an_index(x):
    y = np.outer(x, x)
    y[range(5), range(4, -1, -1)] *= 1.5
    return np.sum(y[range(1, 4)] ** 2) + np.sum(x[range(0)]) + np.sum(range(4)) * x[0]


@program(vector(4))
def heaviside_where_it_is_its_second(x):
    return np.sum(np.heaviside(x - x, x**2) * x) + np.sum(np.heaviside(x, 0.5 * x) * x)


@program(vector(4), second=False)
def sums_over_no_axis(x):
    pairs = np.outer(x, x)
    return np.sum(np.sum(pairs, axis=()) ** 2 + np.max(pairs, axis=()) * np.mean(pairs, axis=()))


@program(vector(7))
def half_a_spectrum_by_weights(x):
    spectrum = np.fft.rfft(x)
    return np.sum(spectrum.real * np.cos(1.0 + np.arange(spectrum.size)) + spectrum.imag**2)


@program(vector(4))
def chained_from_lists(x):
    total = 0.0
    for k, value in enumerate(itertools.chain.from_iterable([[x[0]], x[1:], (x[2] * x[3],)])):
        total += (k + 1) * value**2
    return total
