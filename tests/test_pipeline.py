"""The passes in order: what a statement is labelled with, and what the passes may take for granted."""

from __future__ import annotations

import numpy as np
import pytest

import calque
from calque.transpiler.ir import core


def recurrence(x):
    y = x.copy()
    for i in range(1, x.size):
        if y[i] > 0.1:
            y[i] = np.sin(y[i]) * y[i - 1]
    return np.sum(y * y)


def phases(fn, *args) -> list[str]:
    """Of every statement of a program, in order."""
    function = calque.jit(fn).program(*args).traced.function
    return [s.phase for s in core.walk(function.body)]


# the phase of a statement


def test_all_statements_of_a_gradient_have_a_phase() -> None:
    found = phases(calque.grad(recurrence), np.ones(5))
    assert set(found) == {"forward", "reverse"}
    assert found.index("reverse") > 3


@pytest.mark.parametrize(
    "fn", [recurrence, lambda x: calque.jvp(calque.grad(recurrence), (x,), (x,))[1]]
)
def test_where_no_sweep_came_last_there_is_none(fn) -> None:
    assert set(phases(fn, np.ones(5))) == {""}


def test_the_last_gradient_is_the_one_whose_phases_are_told() -> None:
    def both(x):
        return calque.grad(recurrence)(x), calque.grad(lambda v: np.sum(np.tanh(v) ** 3))(x)

    text = calque.source(both, np.ones(5))
    assert text.count("# forward") == text.count("# reverse") == 1
    assert text.index("x_bar[i] +=") < text.index("# forward")


def test_clones_keep_the_phase() -> None:
    function = calque.grad(recurrence).program(np.ones(5)).traced.function
    copied = core.clone(function.body, {})
    for old, new in zip(core.walk(function.body), core.walk(copied), strict=True):
        assert old is not new and old.phase == new.phase != ""
