"""Loops that go over few elements, often: their size is written into a program of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import calque
from calque import cli
from calque.transpiler.loops import size_specialization

pytest.importorskip("numba")

RNG = np.random.default_rng(11)
OFTEN = size_specialization.OFTEN


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def turned(rotations, start):
    """One rotation after another, and what each gives."""
    places = np.zeros((rotations.shape[0], start.shape[0]))
    place = start.copy()
    for t in range(rotations.shape[0]):
        place = np.tanh(rotations[t] @ place) + 0.1 * start
        places[t] = place
    return np.sum(places * places[::-1])


def potential(x, m):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(i):
            distance = 0.0
            for k in range(x.shape[1]):
                distance += (x[i, k] - x[j, k]) ** 2
            total -= m[i] * m[j] / np.sqrt(distance + 0.1)
    return total


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(size_specialization, "OFTEN", 30)  # OFTEN iterations are slow uncompiled


def test_one_program_for_a_small_size_and_one_for_the_others() -> None:
    jitted = calque.jit(softmax)
    for shape, programs in [
        *(((4, 3), 1), ((20, 8), 1), ((20, 3), 2), ((4, 3), 2), ((40, 3), 2)),
        *(((40, 2), 2), ((40, 6), 2), ((0, 3), 2), ((40, 0), 2)),
    ]:
        x = normal(*shape)
        if shape[1]:
            np.testing.assert_allclose(jitted(x), softmax(x), rtol=1e-13)
        assert jitted.cache_info().programs == programs, shape
    again = "x: float64[:, 3], contiguous, and before: float64[:, :], contiguous"
    assert jitted.cache_info().reasons == ("first call", again)


def test_a_first_call_makes_one_program() -> None:
    jitted = calque.jit(softmax)
    jitted(normal(20, 3))
    assert jitted.cache_info().reasons == ("first call",)
    source = jitted.source(normal(20, 3))
    assert "for j in range(3):" in source and "np.empty((x.shape[0], 3))" in source


@pytest.mark.parametrize("size", [2, 3, 6, 7])
def test_products_of_small_matrices_in_a_loop(size: int) -> None:
    args = normal(10, size, size) * 0.5, normal(size)
    np.testing.assert_allclose(calque.jit(turned)(*args), turned(*args), rtol=1e-12)
    jitted = calque.jit(calque.grad(turned, argnums=(0, 1)))
    found = jitted(*args)
    assert (f"range({size})" in jitted.source(*args)) == (size <= 6)
    ways = normal(10, size, size), normal(size)
    ends = [turned(*(a + h * w for a, w in zip(args, ways, strict=True))) for h in (1e-6, -1e-6)]
    slope = sum(np.sum(f * w) for f, w in zip(found, ways, strict=True))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_lanes() -> None:
    rotations, starts = normal(5, 4, 3, 3) * 0.5, normal(5, 3)
    jitted = calque.jit(calque.vmap(turned))
    expected = [turned(r, s) for r, s in zip(rotations, starts, strict=True)]
    np.testing.assert_allclose(jitted(rotations, starts), expected, rtol=1e-12)
    assert "range(3)" in jitted.source(rotations, starts)


def test_a_captured_array() -> None:
    mixing = normal(3, 3)

    def mixed(x):
        return np.tanh(x @ mixing) * mixing[0]

    jitted, x = calque.jit(mixed), normal(20, 3)
    for columns in (3, 5, 2, 3):
        mixing = normal(3, columns)
        np.testing.assert_allclose(jitted(x), mixed(x), rtol=1e-13)


def test_how_often_is_counted_by_the_loops_around() -> None:
    """Below the diagonal are half as many; what a ``while`` repeats is not known."""
    jitted = calque.jit(potential)
    for n, programs in [(3, 1), (4, 2)]:  # 3 x 2 x 3 and 4 x 3 x 3 iterations at most
        jitted(normal(n, 3), np.ones(n))
        assert jitted.cache_info().programs == programs


def test_a_saved_module_is_verified_and_refuses_another_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [os.fspath(tmp_path), *sys.path])
    text = 'import numpy as np\n\ndef lengths(x):\n    return np.sqrt(np.sum(x * x, axis=1))\n'
    (tmp_path / "few_model.py").write_text(text, encoding="utf-8")
    import few_model  # type: ignore[import-not-found]

    calque.save(calque.jit(few_model.lengths), "few_saved.py", normal(20, 3))
    assert cli.main(["verify", "few_saved.py"]) == 0
    import few_saved  # type: ignore[import-not-found]

    x = normal(5, 3)
    np.testing.assert_allclose(few_saved.lengths_jit(x), few_model.lengths(x), rtol=1e-14)
    with pytest.raises(ValueError, match=r"lengths_jit needs x.shape\[1\] == 3"):
        few_saved.lengths_jit(normal(5, 4))


def test_enough_iterations_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_specialization, "OFTEN", OFTEN)
    jitted = calque.jit(softmax)
    jitted(normal(3, 4))
    assert "range(4)" not in jitted.source(normal(3, 4))
