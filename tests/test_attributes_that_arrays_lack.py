"""Setting an attribute that arrays and numbers lack raises AttributeError, as in Python."""

from __future__ import annotations

import numpy as np
import pytest

import calque

X = np.array([0.3, 0.4])


def labelled(x):
    y = np.cos(x)
    try:
        y.name = "projection"
    except AttributeError:
        y = 2.0 * y
    return np.sum(y)


def of_a_known_number(x):
    y = np.cos(np.float64(0.3))
    try:
        y.name = "projection"
    except AttributeError:
        y = 2.0 * y
    return np.sum(x * y)


SLOPES = [(labelled, -2.0 * np.sin(X)), (of_a_known_number, np.full(2, 2.0 * np.cos(0.3)))]


@pytest.mark.parametrize(("function", "slope"), SLOPES)
def test_the_handler_runs(function, slope) -> None:
    found, gradient = calque.value_and_grad(function)(X)
    assert found == pytest.approx(function(X), rel=1e-14)
    assert gradient == pytest.approx(slope, rel=1e-14)


def test_without_a_handler_it_is_said() -> None:
    def marked(x):
        x.name = "angle"
        return x

    with pytest.raises(AttributeError, match="no attribute 'name'"):
        calque.grad(marked)(X)
