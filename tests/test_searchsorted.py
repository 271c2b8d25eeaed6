"""Places in sorted arrays, found in kernels: as NumPy finds them, for every order of NaN and infinity."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque

pytest.importorskip("numba")

RNG = np.random.default_rng(8)


def left(a, v):
    return np.searchsorted(a, v)


def right(a, v):
    return np.searchsorted(a, v, side="right")


def counted(a, v):
    """One by one, in a loop of the user's."""
    total = np.zeros(a.shape[0] + 1)
    for i in range(v.shape[0]):
        total[np.searchsorted(a, v[i])] += 1.0
    return total


def arrays(a: str, v: str, spread: str) -> list[tuple[np.ndarray, np.ndarray]]:
    found = []
    for n in (0, 1, 2, 3, 8, 100):
        places = np.linspace(-20, 60, n) if spread == "even" else np.sort(20 * RNG.normal(size=n))
        values = np.concatenate([20 * RNG.normal(size=40), places, places.round(), [-30, 100]])
        with np.errstate(invalid="ignore"):
            places, values = np.sort(places.astype(a)), values.astype(v)
        if v[0] == "f":
            values[:4] = np.nan, np.inf, -np.inf, -0.0
        found.append((places, values))
        if a[0] == "f" and n > 3:
            odd = places.copy()
            odd[0], odd[-3:] = -np.inf, (np.inf, np.nan, np.nan)
            found.append((odd, values))
    return found


@pytest.mark.parametrize("spread", ["even", "random"])
@pytest.mark.parametrize("a, v", [("f8", "f8"), ("f8", "f4"), ("f4", "f8"), ("i8", "i4"), ("i4", "f8"), ("u1", "u1")])
def test_as_numpy(a: str, v: str, spread: str) -> None:
    kernels = [(f, calque.jit(f)) for f in (left, right, counted)]
    for args in arrays(a, v, spread):
        for plain, jitted in kernels:
            want, found = plain(*args), jitted(*args)
            assert found.dtype == want.dtype
            np.testing.assert_array_equal(found, want)


def test_arrays_in_no_order_are_not_left() -> None:
    """Any place may be found, but none outside."""
    for n in (1, 2, 7, 50):
        a, v = RNG.normal(size=n), RNG.normal(size=300)
        found = calque.jit(left)(a, v)
        assert found.min() >= 0 and found.max() <= n


def test_computed_places_and_values() -> None:
    def shifted(a, v):
        return np.searchsorted(a * 2.0, v + 1.0) + np.searchsorted(np.cumsum(a * a), v[::-1], side="right")

    a, v = np.sort(RNG.normal(size=30)), RNG.normal(size=(4, 50))
    np.testing.assert_array_equal(calque.jit(shifted)(a, v), shifted(a, v))


def test_found_once_for_value_and_gradient() -> None:
    def loss(x, xp, fp):
        return np.sum(np.interp(x, xp, fp) ** 2)

    x, xp = RNG.uniform(-1.0, 6.0, 40), np.linspace(0.0, 5.0, 9)
    fp, jitted = np.sin(xp), calque.jit(calque.grad(loss, argnums=(0, 2)))
    for found, k in zip(jitted(x, xp, fp), (0, 2), strict=True):
        args = [x, xp, fp]
        for i in range(found.size):
            step = np.zeros(found.size)
            step[i] = 1e-6
            ends = [loss(*[a + s * step if j == k else a for j, a in enumerate(args)]) for s in (1, -1)]
            assert abs(found[i] - (ends[0] - ends[1]) / 2e-6) < 1e-6
    assert jitted.source(x, xp, fp).count("searchsorted_right(") == 1


def test_a_saved_module_stands_alone(tmp_path: Path) -> None:
    file = tmp_path / "saved.py"
    args: Any = np.linspace(0.0, 1.0, 5), RNG.random(9)
    calque.save(calque.jit(right), file, *args)
    assert "calque" not in file.read_text().replace("# calque", "").split('"""')[-1]
    code = (
        "import numpy as np, saved\n"
        "a, v = np.linspace(0.0, 1.0, 5), np.random.default_rng(1).random(9)\n"
        "assert (saved.right_jit(a, v) == np.searchsorted(a, v, side='right')).all()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
