"""Kernels draw random numbers where they use them: the numbers, and what is stored."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import calque
from calque import random

jax.config.update("jax_enable_x64", True)
KEY = random.key(7)


def scaled(key, s):
    return s * random.normal(key, (30, 7))


def in_all_ways(key, s):
    a = random.uniform(key, (5, 3), minval=s, maxval=9.0) + random.exponential(key, (3,))
    b = random.uniform(key, (40,), np.float32) * random.normal(key, (40,), np.float32)
    c = random.bits(key, (8,), np.uint32) % 5 + random.bits(key, (8,)) % 7
    return np.sum(a, axis=0), np.sum(b), c, random.exponential(key, (4,), np.float32) + s


def test_normal_numbers_of_kernels_are_the_bits_of_jax_but_for_one_of_a_hundred():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        wanted = np.asarray(jax.random.normal(jax.random.key(7), (50021,)))
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
    found = calque.jit(lambda key: 1.0 * random.normal(key, (50021,)))(KEY)
    assert np.mean(found == wanted) > 0.99
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_bits_and_uniform_numbers_of_kernels_are_exact():
    for draw in (random.bits, random.uniform):
        for dtype in (np.uint32, np.uint64) if draw is random.bits else (np.float32, np.float64):
            compiled = calque.jit(lambda key: draw(key, (3, 1001), dtype) + dtype(0))
            np.testing.assert_array_equal(compiled(KEY), draw(KEY, (3, 1001), dtype))


def test_other_numbers_of_kernels():
    for s in (1.0, 2.5):
        found, wanted = calque.jit(in_all_ways)(KEY, s), in_all_ways(KEY, s)
        for mine, plain in zip(found, wanted):
            assert np.asarray(mine).dtype == np.asarray(plain).dtype
            np.testing.assert_allclose(
                mine, plain, rtol=2e-6 if mine.dtype == np.float32 else 1e-14
            )


def test_numbers_used_once_are_not_stored():
    text = calque.source(calque.jit(scaled), KEY, 2.0)
    assert "random_normal(" in text and text.count("np.empty") == 1


def test_keys_of_a_batch_draw_in_one_kernel():
    keys = random.split(KEY, 5)
    batched = calque.vmap(scaled, (0, None))
    np.testing.assert_allclose(calque.jit(batched)(keys, 2.0), batched(keys, 2.0), rtol=1e-14)
    assert "random_normal(k" in calque.source(calque.jit(batched), keys, 2.0)


@pytest.mark.parametrize("uncompiled", ["0", "1"])
def test_saved_kernels_stand_alone(tmp_path, uncompiled):
    file = tmp_path / "scaled_jit.py"
    calque.save(calque.jit(scaled), file, KEY, 2.0)
    np.save(tmp_path / "wanted.npy", scaled(KEY, 2.0))
    code = (
        "import numpy as np, scaled_jit\n"
        "found = scaled_jit.scaled_jit(np.array([0, 7], np.uint32), 2.0)\n"
        "np.testing.assert_allclose(found, np.load('wanted.npy'), rtol=1e-14)\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": uncompiled}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "import calque" not in file.read_text()
