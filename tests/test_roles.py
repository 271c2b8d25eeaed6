"""Words for unnamed values: their part in the user's statement, in both phases."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque


def newton_step(e: Any, k: Any) -> Any:
    z = e - (e - k * np.sin(e)) / (1.0 - k * np.cos(e))
    return np.sum(z * z)


def activation(x: Any, w: Any) -> Any:
    h = np.tanh(x @ w + 1.0)
    return np.sum(h * h)


def neighbours(u: Any, f: Any) -> Any:
    for i in range(1, u.size - 1):
        u[i] = 0.5 * (u[i - 1] + u[i + 1] - f[i])
    return np.sum(u)


def deviation(x: Any, y: Any) -> Any:
    return np.sum((x - y) ** 2 * x)


V = np.linspace(0.1, 0.9, 5)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], set[str], set[str]]] = {
    # the names that must be there, and what no name may end in
    "newton_step": (newton_step, (V, 0.3), {"z_denominator", "z_denominator_bar"}, {"difference"}),
    "activation": (activation, (V, np.outer(V, V)), {"h_pre_bar"}, {"product"}),
    "neighbours": (neighbours, (V, V), {"u_bar_i", "u_sum_bar"}, {"scaled"}),
    "deviation": (deviation, (V, 0.3 * V), {"x_minus_y", "x_minus_y_bar"}, {"product"}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_adjoint_is_called_for_the_part_whose_it_is(case: str) -> None:
    fn, args, expected, never = CASES[case]
    text = calque.source(calque.grad(fn, argnums=(0, 1)), *args)
    stored = set(re.findall(r"^ *(\w+) [-+*/]?= ", text, re.M))
    assert expected <= stored, text
    assert not [n for n in stored if n.endswith(tuple(never))], text


@pytest.mark.parametrize("case", CASES)
def test_the_names_change_no_number(case: str) -> None:
    fn, args, *_ = CASES[case]
    found = calque.grad(fn)(*[np.array(a) for a in args])
    for k in range(args[0].size):
        step = np.where(np.arange(args[0].size) == k, 1e-6, 0.0)
        ahead, behind = (fn(args[0] + s, *args[1:]) for s in (step, -step))
        assert found[k] == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-7)
