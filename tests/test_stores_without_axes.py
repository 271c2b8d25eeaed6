"""Arguments without axes: an array of one is stored into as in plain Python, a number is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque


def filled(s: Any) -> Any:
    s[...] = 2.0
    return s * 1


def added_in_place(s: Any) -> Any:
    s += 1
    return s * 2


def added_by_out(s: Any) -> Any:
    np.add(s, 1, out=s)
    return s * 3


def read_by_another_name(s: Any) -> Any:
    t = s
    s += 1.0
    return t * s


def through_views(s: Any) -> Any:
    s[...] += 1.0
    s.reshape(1)[0] *= 2.0
    return s * s


def a_number_of_it(s: Any) -> Any:
    t = s * 1
    t += 1
    return t + s


def in_a_callee(s: Any) -> Any:
    def doubled(z: Any) -> Any:
        z *= 2
        return z * s

    return doubled(s) + s


def on_a_path(s: Any) -> Any:
    for k in range(3):
        if s > k:
            s += k
    return s * 1.5


PROGRAMS = [
    filled,
    added_in_place,
    added_by_out,
    read_by_another_name,
    through_views,
    a_number_of_it,
    in_a_callee,
    on_a_path,
]


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_caller_finds_what_plain_python_leaves(function, dtype):
    compiled = calque.jit(function)
    for start in (1.5, 0.5):
        plain, own = np.array(start, dtype), np.array(start, dtype)
        expected, found = function(plain), compiled(own)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert own == plain
        assert found is not own


@pytest.mark.parametrize("function", PROGRAMS)
def test_slopes_leave_the_argument_alone(function):
    wanted = (function(np.array(1.5 + 1e-6)) - function(np.array(1.5 - 1e-6))) / 2e-6
    for gradient in (calque.grad(function), calque.jit(calque.grad(function))):
        own = np.array(1.5)
        np.testing.assert_allclose(gradient(own), wanted, atol=1e-8)
        assert own == 1.5
    tangent = calque.jvp(function, (np.array(1.5),), (np.array(1.0),))[1]
    np.testing.assert_allclose(tangent, wanted, atol=1e-8)


@pytest.mark.parametrize("number", [1.5, np.float64(1.5), np.float32(1.5)])
def test_numbers_are_bound_anew(number):
    assert calque.jit(added_in_place)(number) == added_in_place(number) == 5.0
    compiled = calque.jit(read_by_another_name)
    assert compiled(number) == 3.75
    assert compiled(np.array(1.5)) == 6.25  # another program
    assert calque.grad(read_by_another_name)(float(number)) == 4.0


def of_a_tree(p: Any) -> Any:
    p["w"][...] = p["w"] * 2.0
    p["l"][0] += 1.0
    return p["w"] + p["l"][0]


def test_leaves_of_containers():
    compiled = calque.jit(of_a_tree)
    for _ in range(2):
        p = {"w": np.array(1.5), "l": [np.array(2.5)]}
        kept = p["l"][0]
        assert compiled(p) == 6.5
        assert p["w"] == 3.0 and kept == 3.5 and p["l"][0] is kept


def test_a_number_is_stored_as_the_user_wrote_it():
    def top_is_one(u: Any) -> Any:
        u = u.copy()
        top = u[..., 0]
        top[...] = 1.0
        return np.sum(u * u)

    assert "u[..., 0] = 1.0\n" in calque.grad(top_is_one).source(np.ones(3))
    assert "s[...] = 2.0\n" in calque.jit(filled).source(np.array(1.5))
