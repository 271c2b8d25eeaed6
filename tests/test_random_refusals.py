"""Draws from a hidden state are refused, with the draw from a key that the user's words make."""

from __future__ import annotations

import random as of_python

import numpy as np
import pytest

import calque
from calque import random
from calque.transpiler.errors import ImpureFunction

rng = np.random.default_rng(0)
KEYED = {
    "np.random.normal(0, s, (n,))": "s * calque.random.normal(key, (n,))",
    "np.random.normal(0, s, n)": "s * calque.random.normal(key, (n,))",
    "np.random.normal(m, s + 1.0, size=(n, 2))": "m + (s + 1.0) * calque.random.normal(key, (n, 2))",
    "np.random.normal()": "calque.random.normal(key)",
    "np.random.normal(scale=x[0], size=shape)": "x[0] * calque.random.normal(key, shape)",
    "np.random.randn(n, 3)": "calque.random.normal(key, (n, 3))",
    "np.random.rand(n)": "calque.random.uniform(key, (n,))",
    "np.random.rand()": "calque.random.uniform(key)",
    "np.random.random((n, 2))": "calque.random.uniform(key, (n, 2))",
    "np.random.uniform(-1.0, s, 5)": "calque.random.uniform(key, (5,), minval=-1.0, maxval=s)",
    "np.random.uniform()": "calque.random.uniform(key)",
    "np.random.standard_normal(n)": "calque.random.normal(key, (n,))",
    "np.random.randint(n)": "calque.random.randint(key, (), 0, n)",
    "np.random.randint(1, n, (4,))": "calque.random.randint(key, (4,), 1, n)",
    "rng.integers(0, n, size=3)": "calque.random.randint(key, (3,), 0, n)",
    "rng.normal(m, size=(3,))": "m + calque.random.normal(key, (3,))",
    "rng.permutation(x)": "calque.random.permutation(key, x)",
    "rng.shuffle(x)": "x[:] = calque.random.permutation(key, x)",
    "rng.choice(x, 2, replace=False)": "calque.random.choice(key, x, (2,), replace=False)",
    "rng.gamma(s, 2.0, (n,))": "2.0 * calque.random.gamma(key, s, (n,))",
    "rng.beta(s, 2.0)": "calque.random.beta(key, s, 2.0)",
    "rng.exponential(s, n)": "s * calque.random.exponential(key, (n,))",
    "rng.poisson(s, (n,))": "calque.random.poisson(key, s, (n,))",
    "rng.binomial(10, 0.5)": "calque.random.binomial(key, 10, 0.5)",
    "rng.pareto(3.0, 2)": "calque.random.pareto(key, 3.0, (2,)) - 1",
    "of_python.gauss(m, s)": "m + s * calque.random.normal(key)",
    "of_python.random()": "calque.random.uniform(key)",
    "of_python.uniform(m, s)": "calque.random.uniform(key, minval=m, maxval=s)",
    "of_python.randint(1, n)": "calque.random.randint(key, (), 1, n + 1)",
}


def refusal(text, tmp_path):
    """The error of a program that draws so."""
    file = tmp_path / "program.py"
    file.write_text(f"def program(x, m, s, n, shape):\n    return np.sum(x) + np.sum({text})\n")
    names = {"np": np, "rng": rng, "of_python": of_python}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(ImpureFunction) as found:
        calque.grad(names["program"])(np.ones(4), 0.5, 2.0, 4, (3,))
    return str(found.value)


@pytest.mark.parametrize("text", KEYED)
def test_the_refusal_shows_the_line_and_the_draw_with_a_key(text, tmp_path):
    found = refusal(text, tmp_path)
    assert f"return np.sum(x) + np.sum({text})" in found
    assert "program.py, line 2" in found
    assert f"Instead: take a key argument and write `{KEYED[text]}`" in found


@pytest.mark.parametrize("text", [t for t in KEYED if "shuffle" not in t])
def test_what_is_shown_runs(text):
    given = {"x": np.ones(4), "m": 0.5, "s": 2.0, "n": 4, "shape": (3,), "np": np, "rng": rng}
    there = {**given, "of_python": of_python, "calque": calque, "key": random.key(0)}
    assert np.shape(eval(KEYED[text], there)) == np.shape(eval(text, there))


@pytest.mark.parametrize(
    "text",
    [
        "np.random.seed(0)",
        "np.random.default_rng().normal()",
        "rng.hypergeometric(3, 2, 1)",
        "np.random.normal(*shape)",
    ],
)
def test_others_are_refused_without_words_of_their_own(text, tmp_path):
    found = refusal(text, tmp_path)
    assert "draws from a hidden state" in found and "calque.random" in found
