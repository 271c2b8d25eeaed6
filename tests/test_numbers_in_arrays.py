"""Numbers that NumPy holds in arrays of no axes: kernels are given the number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import calque
from calque.runtime.call import dispatch

CAPTURED = np.array(1.5)


def shifted(x, s):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] += s
        y[i] *= x[i] + s
    return y


PROGRAMS: dict[str, Callable] = {
    "reshape": lambda x: shifted(x, x[:1].reshape(())),
    "squeeze": lambda x: shifted(x, np.squeeze(x[:1])),
    "where": lambda x: shifted(x, np.where(x[0] > 0, 1.0, x[1])),
    "full": lambda x: shifted(x, np.full((), x[0])),
    "zeros": lambda x: shifted(x, np.zeros(())),
    "captured": lambda x: shifted(x, CAPTURED),
    "known": lambda x: shifted(x, np.ones(1).reshape(())),
    "tensordot": lambda x: shifted(x, np.tensordot(np.sort(x), x, 1)),
    "select": lambda x: shifted(x, np.select([x[0] > 1, x[1] > 1], [x[0], x[1]])),
    "branch": lambda x: shifted(x, np.sort(x)[0] if x[0] > x[1] else np.full((), x[1])),
}


@pytest.fixture
def compiled(monkeypatch) -> None:
    def show(text: str) -> None:
        assert "runs as NumPy source" not in text

    monkeypatch.setattr(dispatch, "show_text", show)


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_the_program(name: str, compiled) -> None:
    x = np.array([0.5, 1.5, 2.5])
    function = PROGRAMS[name]
    np.testing.assert_allclose(calque.jit(function)(x), function(x), rtol=1e-14)


@pytest.mark.parametrize("s", [np.array(2.0), np.float64(2.0), 2.0, np.array(2.0, np.float32)])
def test_as_an_argument(s, compiled) -> None:
    x = np.array([0.5, 1.5, 2.5])
    np.testing.assert_allclose(calque.jit(shifted)(x, s), shifted(x, s), rtol=1e-14)
    total = lambda tree: np.sum(shifted(tree["x"], tree["s"][0]))
    found = calque.jit(calque.grad(total))({"x": x, "s": (s,)})
    np.testing.assert_allclose(found["x"], np.full(3, 2.0))
    np.testing.assert_allclose(found["s"][0], np.sum(x + 4.0))


def test_as_a_cotangent(compiled) -> None:
    """A seed that was reshaped to no axes."""

    def last(values):
        table = np.zeros(8)
        for v in values:
            for c in range(7, 1, -1):
                table[c] = max(table[c], table[c - 2] + v)
        return np.sum(np.asarray(table[7]) * np.cos(np.arange(1.0)).reshape(()))

    values = np.array([0.3, 1.1, 0.7])
    slopes = calque.jit(calque.vmap(calque.grad(last)))(np.stack([values, values[::-1]]))
    np.testing.assert_allclose(slopes, [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])


def test_methods_of_integers_ask_for_their_value() -> None:
    def scaled(x):
        return np.sum(x) * len(x).bit_length()

    np.testing.assert_allclose(calque.grad(scaled)(np.ones(5)), np.full(5, 3.0))
