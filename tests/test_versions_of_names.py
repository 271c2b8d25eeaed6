"""Names of several values are told apart by meaning: where each stands, what it is made with."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import calque


def text_of(fn, *args) -> str:
    source = calque.source(fn, *args)
    return source[source.index("def ") :]


def layers(weights, x):
    for w in weights:
        x = np.tanh(x @ w)
    return np.sum(x * x)


def test_a_statement_that_runs_several_times_is_counted() -> None:
    weights = [np.eye(3), 2.0 * np.eye(3)]
    text = text_of(calque.grad(layers), weights, np.ones((2, 3)))
    assert "first_x = np.tanh(" in text and "second_x = np.tanh(first_x @ " in text
    assert "second_x_pre_bar = " in text and "= x_pre_bar" not in text


def on_copy(x):
    y = x.copy()
    y *= x
    return np.sum(y * y)


def test_a_copy_goes_on_under_its_own_name() -> None:
    assert "y = x * x\n" in text_of(on_copy, np.ones(3))


def systems(main, upper):
    a = upper[0] / main[0] + main[0] ** 2
    b = upper[1] / main[0] + main[0] ** 3
    return a * b


def test_a_part_that_is_read_again_has_one_name() -> None:
    text = text_of(calque.grad(systems), np.ones(3), np.arange(3.0))
    assert text.count("= main[0]\n") == 1, text


def parts(x):
    return np.sum(np.exp(x[:-1]) * x[1:] ** 2) + x[-2] ** 3


def test_parts_are_called_for_their_places() -> None:
    text = text_of(calque.grad(parts), np.ones(4))
    assert "x_but_first = x[1:]\n" in text and "_part" not in text.replace("parts_grad", "")


def recurrence(x):
    s = 1.0
    for i in range(x.shape[0]):
        s = s * s * x[i] + s
    return s


def test_restored_values_are_those_before_a_statement() -> None:
    text = text_of(calque.grad(recurrence), np.ones(4))
    assert re.search(r"\bs(_before)? = .*s_saved\[i\]", text) and "_now" not in text


def arms(x, y):
    if x > 5.0:
        return np.log(x) * y
    return x * np.sqrt(y)


def test_lanes_and_tests_are_called_for_what_holds() -> None:
    text = text_of(calque.vmap(arms), np.array([1.0, 9.0]), np.array([2.0, 3.0]))
    assert "x_above_5 = x > 5.0\n" in text and "lanes_not_x_above_5 = " in text


def reversed_test(x):
    s = x
    while 100.0 > s:
        s = s * 2.0
    return s if 0.5 > x else s * x


def test_a_test_with_its_number_first_says_what_holds() -> None:
    text = text_of(calque.vmap(reversed_test), np.array([1.0, 0.1]))
    assert "x_above" not in text


def test_the_least_of_two_numbers_is_called_so() -> None:
    def least(a: float, b: float, c: float) -> float:
        return min(a, b, c) ** 2 * a

    assert "smaller" in text_of(calque.grad(least), 1.0, 2.0, 3.0)


def nested(x):
    for _ in range(x.shape[0]):
        for _ in range(2):
            x = x * x
    return np.sum(x)


def test_counters_that_nobody_reads_have_no_name() -> None:
    assert text_of(nested, np.ones(3)).count("for _ in range(") == 2


def rate(x):
    total = 0.0
    for i in range(x.shape[0]):
        factor = 2.0 * (np.sin(x[i]) if x[i] > 0.5 else x[i] ** 3)
        total += factor * total + factor
    return total


def test_a_choice_in_an_expression_is_called_for_its_part() -> None:
    text = text_of(calque.grad(rate), np.linspace(0.1, 1.0, 4))
    assert "values_saved" not in text and "choice" not in text, text


def test_a_stored_sum_stands_under_the_statement_of_the_sum() -> None:
    path = Path(__file__).parent / "golden" / "kernels" / "cross_entropy.py"
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    stored = next(k for k, line in enumerate(lines) if line.startswith("sum_exp_shifted[i, 0] ="))
    assert lines[stored - 1].startswith("# log_norm = np.log(np.sum(np.exp(shifted)")
