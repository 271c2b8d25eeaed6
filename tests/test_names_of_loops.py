"""Names that only a loop sets: their value where it runs, UnboundLocalError where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import BranchMismatch, CalqueError, UndefinedOnPath

X = np.array([0.3, 0.9, 1.7])


def an_array(x, t, n):
    for i in range(n):
        r = x * (t + i)
    return np.sum(r) * t


def an_array_on_one_path(x, t, n):
    total = 0.0
    for _ in range(n):
        r = x
    if t > 0.3:
        total = total + np.sum(r) * 3.0
    return total


def a_number(x, t, n):
    for _ in range(n):
        a = 2.0
    return np.sum(x) * a


def a_number_under_tests(x, t, n):
    for _ in range(n):
        if t > 0.1:
            if t > 0.3:
                a = 2.0
    return np.sum(x) * a


def a_text_under_a_test(x, t, n):
    i = 0
    while i < n:
        if t > 0.3:
            a = "up"
        i += 1
    y = 1.0
    if a == "up":
        y = t * 2.0
    return np.sum(x) * y


def none_in_an_arm(x, t, n):
    if t > 0.2:
        for _ in range(n):
            if t > 0.3:
                a = x
                a = None
    if t > 0.1:
        if isinstance(a, str):
            x = x * 2.0
    return np.sum(x)


def read_in_a_loop_that_may_not_run(x, t, n):
    total = 0.0
    if np.sum(x) > 2.0 * t:
        for _ in range(n):
            for _ in range(n):
                total = total + a * t
    else:
        a = 3.0 * t
    return total + np.sum(x)


def called_if_it_can_be(x, t, n):
    total = 0.0
    if np.sum(x) > 2.0:
        if t > 0.2:
            for _ in range(n):
                r = x[:2]
    return total + (r(t) if callable(r) else t * 0.25)


def of_an_inner_loop(x, t, n):
    total = 0.0
    for i in range(n):
        for j in range(i):
            y = x[j] * t
        if i > 0:
            total = total + y
    return total + np.sum(x)


def of_a_loop_that_is_left(x, t, n):
    for i in range(n):
        y = x * i
        if np.sum(y) > t:
            break
    return np.sum(y)


def total_of(v, x):
    if isinstance(v, float):
        return 0.5
    return np.sum(v)


def of_three_kinds(x, t, n):
    if np.sum(x) > 2.0 * n:
        if t > 0.2:
            if t > 0.4:
                a = x[:2]
    else:
        a = 1.5
        if t > 0.3:
            a = x
    return total_of(a, x) * 3.0 + np.sum(x)


def of_another_size(x, t, n):
    total, b = 0.0, x * 2.0
    if t < 0.3:
        if t < 0.2:
            b = x[:2]
        else:
            b = 1.5
    for _ in range(n):
        total = total + total_of(b, x) * 3.0
        if t > 0.1:
            b = 1.5
    return total + np.sum(x)


PROGRAMS = [
    *(an_array, an_array_on_one_path, a_number, a_number_under_tests, a_text_under_a_test),
    *(none_in_an_arm, read_in_a_loop_that_may_not_run, called_if_it_can_be, of_an_inner_loop),
    *(of_a_loop_that_is_left, of_three_kinds, of_another_size),
]


class Holder:
    pass


def a_key(x, n):
    found = {}
    for _ in range(n):
        found["k"] = x * 2.0
    return np.sum(found["k"])


def an_attribute(x, n):
    held = Holder()
    for _ in range(n):
        held.a = x * 2.0
    return np.sum(held.a)


def a_key_by_name(x, n):
    found, k = {}, "k"
    for _ in range(n):
        found[k] = x * 2.0
    return np.sum(found[k])


def a_tuple(x, n):
    for i in range(n):
        p = (x * 2.0, i + 1.0)
    return np.sum(p[0]) * p[1]


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return fn(*args)
    except UnboundLocalError:
        return UnboundLocalError
    except CalqueError as refused:
        assert "cannot access local variable" in refused.message  # no path gives it a value
        return UnboundLocalError


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [2, 0, 1, 3])
def test_a_name_has_the_value_that_python_gives_it(f: Callable[..., Any], n: int) -> None:
    gradient = calque.value_and_grad(f)
    for t in (0.15, 0.25, 0.5):
        want = outcome(f, X, t, n)
        for form in (calque.jit(f), gradient, calque.jit(gradient)):
            found = outcome(form, X, t, n)
            if want is UnboundLocalError:
                assert found is want
                continue
            value, slope = found if isinstance(found, tuple) else (found, None)
            np.testing.assert_allclose(value, want, rtol=1e-13)
            if slope is not None:
                steps = 1e-6 * np.eye(3)
                expected = [(f(X + e, t, n) - f(X - e, t, n)) / 2e-6 for e in steps]
                np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_one_program_serves_any_number_of_iterations(f: Callable[..., Any]) -> None:
    compiled = calque.jit(f)
    for n in (2, 0, 3):
        want, found = outcome(f, X, 0.5, n), outcome(compiled, X, 0.5, n)
        assert found is want or np.isclose(found, want)


def test_a_loop_over_sizes_needs_no_test() -> None:
    def last(x):
        for v in x:
            r = v * 2.0
        return r

    assert "raise" not in calque.source(calque.jit(last), X)
    assert calque.jit(last)(X) == 3.4
    assert outcome(calque.jit(last), X[:0]) is UnboundLocalError


@pytest.mark.parametrize("transform", [calque.jit, calque.grad])
@pytest.mark.parametrize(
    ("f", "error"),
    [
        (a_key, KeyError),
        (a_key_by_name, KeyError),
        (an_attribute, AttributeError),
        (a_tuple, UnboundLocalError),
    ],
)
def test_keys_attributes_and_tuples(
    f: Callable[..., Any], error: type[Exception], transform: Any
) -> None:
    made = transform(f)
    want = f(X, 2) if transform is calque.jit else np.full(3, f(np.array([1.0, 0.0, 0.0]), 2))
    np.testing.assert_allclose(made(X, 2), want)
    with pytest.raises(error, match=r"'[kap]'"):
        made(X, 0)


def test_a_list_of_a_loop_that_may_not_run_is_refused() -> None:
    def pair(x, n):
        for _ in range(n):
            p = [x * 2.0, x]
        return np.sum(p[0] * p[1])

    with pytest.raises(UndefinedOnPath, match="no value on every path"):
        calque.jit(pair)(X, 2)


def test_whether_a_loop_has_set_a_key_is_refused() -> None:
    def asked(x, n):
        found = {}
        for _ in range(n):
            found["k"] = x
        return np.sum(x) if "k" in found else x[0]

    with pytest.raises(BranchMismatch, match="give the key 'k' a value"):
        calque.jit(asked)(X, 2)
