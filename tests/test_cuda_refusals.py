"""Calls that NumPy takes and CuPy refuses: the stand-in refuses them, too, and no launcher has one.

Found by running launchers on CuPy itself, with nothing behind it that computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, refusals, standin
from cuda_emulator.running import check_with_nvrtc, cuda_text, on_cuda
from primitives_on_cuda import programs

import calque
from calque.transpiler.primitives.record import PRIMITIVES

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
REFUSED = [
    ("all", (np.bool_(True),), TypeError),
    ("cumsum", (np.float64(1.0),), TypeError),
    ("sum", (1.0,), TypeError),
    ("where", (True, 1.0, 2.0), TypeError),
    ("array", ([standin.asarray(1.0), 2.0],), TypeError),
    ("array", ([[standin.asarray(1.0)], [np.float64(2.0)]],), TypeError),
    ("stack", ([standin.asarray(1.0), 2.0],), TypeError),
    ("column_stack", ([standin.asarray(1.0)],), ValueError),
    ("column_stack", ([standin.zeros((2, 2, 2))],), ValueError),
    ("inner", (standin.zeros(0), standin.zeros((2, 0))), ZeroDivisionError),
    ("linalg.solve", (standin.zeros((3, 3)), standin.zeros((2, 3, 2))), ValueError),
]


@pytest.mark.parametrize(("name", "args", "error"), REFUSED)
def test_the_stand_in_refuses(name: str, args: tuple[Any, ...], error: type) -> None:
    with pytest.raises(error):
        refusals.refuse(name, args, standin.ndarray)


def test_what_it_takes() -> None:
    one = standin.asarray(1.0)
    for name, args in (
        ("array", ([one, one],)),
        ("array", ([1.0, np.float64(2.0)],)),
        ("sum", (np.float64(1.0),)),
        ("where", (np.bool_(True), one, 2.0)),
        ("linalg.solve", (standin.zeros((2, 3, 3)), standin.zeros(3))),
    ):
        refusals.refuse(name, args, standin.ndarray)


def test_a_number_on_the_device_is_no_integer() -> None:
    with pytest.raises(TypeError, match="integer"):
        range(standin.asarray(3))  # type: ignore[arg-type]
    assert int(standin.asarray(3)) == 3


# primitives that are said otherwise with CuPy for that
SAID_OTHERWISE = ["np.all", "np.any", "np.array", "np.column_stack", "np.inner", "np.linalg.solve"]


@pytest.mark.parametrize("name", [*SAID_OTHERWISE, "solve_triangular"])
def test_samples_without_kernels(name: str) -> None:
    made = [p for p in programs(PRIMITIVES[name]) if "__global__" not in p.text]
    assert made
    for program in made:
        for got, want in zip(program.results(), program.expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, err_msg=program.label)


def knapsack(value, weight, capacity):
    table = np.zeros(capacity + 1)
    for i in range(value.shape[0]):
        for w in range(capacity, weight[i] - 1, -1):
            table[w] = max(table[w], table[w - weight[i]] + value[i])
    return table[capacity] * np.sum(table)


def agrees(fn: Any, *args: Any) -> str:
    """The text of value and gradient, which agree with the CPU's."""
    both = calque.value_and_grad(fn)
    got, want = on_cuda(both, *args), both(*args)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-12, atol=1e-14)
    return cuda_text(both, *args)


def test_iterations_that_an_array_decides_are_counted_by_the_host() -> None:
    text = agrees(knapsack, np.array([0.4, 0.9, 0.7]), np.array([2, 1, 3]), 5)
    assert "for w in range(capacity, int(weight_shifted), -1):" in text


def pairs(x, labels):
    total = 0.0
    for row, label in zip(x, labels):
        total += np.log(np.sum(np.exp(row))) - row[label]
    return total


def test_the_least_of_two_sizes_is_the_hosts() -> None:
    x = np.linspace(0.1, 1.0, 12).reshape(3, 4)
    for labels in (np.array([1, 3, 0]), np.array([2, 0]), np.array([2, 0, 1, 1])):
        text = agrees(pairs, x, labels)
        assert "minimum_x = np.minimum(x.shape[0], labels.shape[0])" in text


def first_of_pairs(x, y):
    found = []
    for a, b in zip(x[:, 1], y):
        found.append(a * b)
    return np.sum(np.array(found) ** 2)


def test_the_least_of_converted_sizes_is_the_hosts_too() -> None:
    text = agrees(first_of_pairs, np.linspace(0.1, 1.0, 12).reshape(3, 4), np.ones(2))
    assert "np.minimum(int(x.shape[0]), " in text
    assert "cp.minimum" not in text


def mixed(x):
    first = np.array([x[0], 2.0, np.sum(x)])
    return np.sum(np.dot(first, first) * np.array([[x[1], 1], [0.5, x[2]]]))


def test_lists_of_numbers_from_both_sides() -> None:
    agrees(mixed, np.array([0.3, 0.4, 0.5]))


def test_a_truth_and_a_float_are_two_variables() -> None:
    """``&=`` of a double is none of C's: that of a name which was a float before."""
    derivatives = list(programs(PRIMITIVES["np.linalg.svd of all columns"]))
    assert [p.label for p in derivatives if "&=" in p.text]
    for program in derivatives:
        check_with_nvrtc(program.text)
