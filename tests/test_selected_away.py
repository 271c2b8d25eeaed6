"""A value that no taken path uses contributes zero, through any tests, loops and helpers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import random_selections
from programs_as_files import imported
from sampling import sampled
from selected_programs import POINTS, PROGRAMS, two_early_returns

import calque

HEAD = "import numpy as np\n\n\n"
WAYS = {
    "grad": lambda f, args: calque.grad(f)(*args),
    "jacfwd": lambda f, args: calque.jacfwd(f)(*args),
    "jit": lambda f, args: calque.jit(calque.grad(f))(*args),
    "vmap": lambda f, args: calque.vmap(calque.grad(f), in_axes=_first(args))(
        np.stack([args[0], args[0]]), *args[1:]
    )[1],
}


def _first(args):
    return (0, *[None] * (len(args) - 1))


def wanted(f, args, edge):
    """Differences, where the function is smooth on both sides; what is said for the edge."""
    x, step = np.asarray(args[0]), 1e-6
    found = np.empty(x.shape)
    for place in np.ndindex(x.shape):
        d = np.zeros(x.shape)
        d[place] = step
        ahead, back = (f(v if v.ndim else v[()], *args[1:]) for v in (x + d, x - d))
        found[place] = (ahead - back) / (2 * step)
    rough = ~(np.abs(found) < 100.0) | (x == 0.0) & ~np.isclose(found, edge, atol=1e-5)
    return np.where(rough & (args[0] is not POINTS), edge, found)


# of what is compiled, a sample
FORMS = [(name, way) for name in PROGRAMS for way in WAYS if way != "jit"]
FORMS += [(name, "jit") for name in sampled(sorted(PROGRAMS), 1)]


@pytest.mark.parametrize("name, way", FORMS)
def test_it_contributes_zero(name, way):
    f, args, edge = PROGRAMS[name]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = wanted(f, args, edge)
        np.testing.assert_allclose(WAYS[way](f, args), want, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", sampled(sorted(PROGRAMS), 1))
def test_second_derivatives_are_numbers(name):
    f, args, _ = PROGRAMS[name]
    with np.errstate(all="ignore"):
        assert np.isfinite(calque.hessian(f)(*args)).all()


@pytest.mark.parametrize("way", ["grad", "jit"])
@pytest.mark.parametrize("seed", [*sampled(range(300), 2), 142, 200])  # two once were wrong
def test_random_programs(seed, way, tmp_path):
    f = imported(HEAD + random_selections.text(seed), tmp_path / "random_selections_program.py")
    args = random_selections.arguments(seed)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = random_selections.slopes(random_selections.text(seed), args)
        gradient = calque.grad(f, argnums=(0, 1))
        found = (calque.jit(gradient) if way == "jit" else gradient)(*args)
    for got, expected in zip(found, map(np.asarray, want), strict=True):
        known = np.isfinite(expected)
        np.testing.assert_allclose(np.asarray(got)[known], expected[known], rtol=1e-8, atol=1e-10)


def test_the_random_programs_use_all_there_is():
    texts = [random_selections.text(seed) for seed in range(300)]
    for word in ("elif", "break", "continue", "return s", "np.where", "fill_diagonal", "np.triu"):
        assert sum(word in text for text in texts) > 10, word
    with np.errstate(all="ignore"):
        known = [
            random_selections.slopes(text, random_selections.arguments(seed))[1]
            for seed, text in enumerate(texts[:40])
        ]
    assert np.mean(np.isfinite(known)) > 0.5


def test_a_flag_says_which_path_used_the_value():
    text = calque.source(calque.grad(two_early_returns), 0.0)
    assert "r2_bar += r_bar * (0.5 / r) if r_used else 0.0" in text
    assert text.count("r_used = ") == 3
    assert "elif r < 1e-09" in text


def test_where_nothing_is_steep_there_are_no_flags():
    def straight(x, k):
        n, s = 2.0 * x, x
        for i in range(k):
            if n > i:
                s = s + n * x
        return s

    text = calque.source(calque.grad(straight), 1.0, 3)
    assert "used" not in text
    assert "np.where" not in text


def test_indices_select_nothing_by_themselves():
    """As in JAX: a program shows no condition for them."""
    with np.errstate(all="ignore"):
        assert np.isnan(calque.grad(lambda x: np.sum(np.sqrt(x)[1:]))(np.array([0.0, 1.0]))[0])
