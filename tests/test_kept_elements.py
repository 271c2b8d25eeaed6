"""The sweep back reads from an array what the array holds to the end, and saves it nowhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest
import random_filters
from kept_programs import (
    KEPT,
    OVERWRITTEN,
    autoregressive,
    filtered,
    gathered,
    of_another_precision,
    orthogonalized,
)
from programs_as_files import imported
from sampling import sampled

import calque

HEAD = "import numpy as np\n\n\n"
X = np.linspace(-0.7, 0.8, 7)
K = np.array([3, 1, 4, 1, 5, 2, 6])


@pytest.mark.parametrize("f", KEPT)
def test_an_element_that_stays_is_saved_nowhere_else(f):
    saved = set(re.findall(r"\w+_saved\w*", calque.source(calque.grad(f), X, K)))
    assert saved <= ({"c_saved"} if f is gathered else set())  # the data says where c is


ALL = (*KEPT, *OVERWRITTEN)
# a sample of what is compiled, and of second derivatives: they take the time
FORMS = [("grad", f) for f in ALL]
FORMS += [(way, f) for k, way in enumerate(["jit", "vmap", "hessian"]) for f in sampled(ALL, 1, k)]


@pytest.mark.parametrize("way, f", FORMS)
def test_the_derivatives_are_right(f, way):
    want = random_filters.gradient(f, X, K)
    gradient = calque.grad(f)
    if way == "hessian":
        step = 1e-6 * np.eye(X.size)
        rows = [(gradient(X + d, K) - gradient(X - d, K)) / 2e-6 for d in step]
        np.testing.assert_allclose(calque.hessian(f)(X, K), rows, rtol=1e-6, atol=1e-8)
        return
    if way == "vmap":
        found = calque.vmap(gradient, in_axes=(0, None))(np.stack([0.5 * X, X]), K)[1]
    else:
        found = (calque.jit(gradient) if way == "jit" else gradient)(X, K)
    np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("way", ["grad", "jit"])
def test_a_recurrence_has_the_derivatives_that_jax_gives_its_scan(way):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    def scan(x):
        def step(before, x_i):
            now = jax.numpy.tanh(0.5 * before + x_i)
            return now, now

        y = jax.lax.scan(step, x[0], x[1:])[1]
        return x[0] ** 2 + jax.numpy.sum(y * y)

    gradient = calque.grad(autoregressive)
    found = (calque.jit(gradient) if way == "jit" else gradient)(X, K)
    np.testing.assert_allclose(found, jax.grad(scan)(X), rtol=1e-13)


def test_an_array_that_is_put_back_is_not_copied_for_what_stays():
    source = calque.source(calque.grad(orthogonalized), X, K)
    assert "a[i, m] = a_saved[" in source
    assert "copy(" not in source


def test_a_rounded_element_is_another_value():
    found = calque.grad(of_another_precision)(X, K)
    squares = np.cumsum(X * X)[:-1]
    slopes = 4.0 * X[:-1] * np.cumsum(squares[::-1])[::-1]
    np.testing.assert_allclose(found[:-1], slopes, rtol=1e-13)


def test_a_square_of_an_element_is_one_line():
    text = calque.source(calque.grad(filtered), X, K)
    assert text.count("x_bar[i] += ") == 1
    assert "x_bar[i] += 2.0 * x[i]" in text


def test_explain_says_that_it_is_read_again():
    text = calque.explain(calque.grad(filtered), X, K)
    assert "a value is read again: its array holds it to the end" in text
    assert "overwritten" not in text


@pytest.mark.parametrize("way", ["grad", "jit"])
@pytest.mark.parametrize("seed", sampled(range(300), 4))
def test_random_filters(seed, way, tmp_path):
    f = imported(HEAD + random_filters.text(seed), tmp_path / "random_filters_program.py")
    x, k = random_filters.arguments(seed)
    gradient = calque.grad(f)
    found = (calque.jit(gradient) if way == "jit" else gradient)(x, k)
    want = random_filters.gradient(f, x, k)
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11)


def test_the_random_filters_use_all_there_is():
    texts = [random_filters.text(seed) for seed in range(300)]
    for word in ("while", "break", "z = v", "[k[i", "-i]", "c += 1", "v, y = y, v", "[i - 2:i]"):
        assert sum(word in text for text in texts) > 5, word
