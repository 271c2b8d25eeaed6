"""Parts of a size that is divided by a number: equal where the call has no rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import symbol


def pendulums(u):
    n = u.shape[0] // 2
    q, p = u[:n], u[n:]
    return np.concatenate([p, -np.sin(q) - 0.1 * p])


def steps(u):
    for _ in range(20):
        u = u + 0.01 * pendulums(u)
    return np.sum(u * u)


def products(u):
    n = len(u) // 2
    return np.sum(u[:n] * u[-n:]) + np.sum(np.hstack((u[:n], u[n:])) * u)


def thirds(u):
    n = u.shape[0] // 3
    a, b, c = u[:n], u[n : 2 * n], u[2 * n :]
    return np.sum(a * b * c) + np.sum(np.concatenate([a, b, c]) * u)


def stored(u):
    n = u.shape[0] // 2
    w = np.zeros(2 * n)
    w[:n] = u[n:]
    w[n:] = np.sin(u[:n])
    return np.sum(w * u)


def quarters(u):
    n = u.shape[0] // 2
    h = n // 2
    a = u[:h] * u[h:n]
    return np.sum(np.concatenate([a, a]) * (u[:n] + u[n:]))


def even_only(u):
    n = u.shape[0] // 2
    if u.shape[0] % 2 == 0:
        return np.sum(np.sin(u[:n]) * u[n:])
    return np.sum(u)


def columns(u):
    m = u.reshape(1, -1)
    n = m.shape[1] // 2
    return np.sum(m[:, :n] * m[:, n:])


PROGRAMS = [steps, products, thirds, stored, quarters, even_only, columns]
SIZES = (6, 5, 2, 3, 1, 9, 8)


def outcome(f: Callable[..., Any], u: np.ndarray) -> Any:
    try:
        return float(f(u))
    except ValueError:
        return ValueError


@pytest.mark.parametrize("f", PROGRAMS)
def test_each_size_does_what_numpy_does(f: Callable[..., Any]) -> None:
    def first(u):
        return calque.value_and_grad(f)(u)[0]

    gradient = calque.value_and_grad(f)
    forms = (calque.jit(f), calque.jit(first), lambda u: gradient(u)[0])
    rng = np.random.default_rng(0)
    for size in SIZES:
        u = rng.normal(size=size)
        want = outcome(f, u)
        for form in forms:
            found = outcome(form, u)
            assert found is want or np.isclose(found, want, rtol=1e-13)
        if want is not ValueError:
            differences = [(f(u + e) - f(u - e)) / 2e-6 for e in 1e-6 * np.eye(size)]
            np.testing.assert_allclose(gradient(u)[1], differences, rtol=1e-6, atol=1e-7)


def test_halves_are_of_one_size_in_the_text() -> None:
    text = calque.source(calque.jit(calque.grad(steps)), np.ones(6))
    assert "ValueError" not in text and "_size" not in text
    assert text.count("@kernel") == 1


def test_a_saved_module_asks_for_an_even_size(tmp_path) -> None:
    file = tmp_path / "saved_steps.py"
    calque.save(calque.jit(steps), file, np.ones(6))
    assert "needs u.shape[0] == 2 * (u.shape[0] // 2)" in file.read_text()


def test_sizes_have_one_form_whatever_they_are_parts_of() -> None:
    dims = Dims({"s"})
    s, half, third = symbol("s"), symbol("half"), symbol("third")
    dims.floors |= {"half": (s, 2), "third": (s, 3)}
    assert dims.unify(half, s - half) and dims.unify(s, third * 3)
    for dim in (s, half, third, s - half - third, 2 * half + 3 * third, 5 * third - 4 * half):
        for zero in (s - 2 * half, s - 3 * third, 2 * half - 3 * third):
            for k in (-2, 1, 3):
                found = dims.resolve(dim + k * zero)
                assert dims.of_arguments(found, {"s": 12}) == dims.of_arguments(dim, {"s": 12})
    assert dims.same(s - half, half) and dims.same(half + half, s)
    assert dims.same(s - third, 2 * third)
    assert dims.resolve(3 * third - 2 * half) == 0
