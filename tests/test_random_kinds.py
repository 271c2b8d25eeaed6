"""Random programs whose names are of several kinds, or unset: what Python does, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs_as_files import imported
from random_kinds import Program

import calque
from calque.transpiler.errors import CalqueError

X = np.array([0.3, 0.9, 1.7])
CALLS = [(t, s, n) for t in (0.1, 0.45, 0.9) for s in (0.1, 0.4, 0.7) for n in (0, 2)]
SEEDS = 72


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    """The value of a call, or that a name was unset; a refusal is raised."""
    try:
        return fn(*args)
    except CalqueError:
        raise
    except UnboundLocalError:
        return UnboundLocalError


def slope(fn: Callable[..., Any], *rest: Any) -> np.ndarray:
    return np.array([(fn(X + e, *rest) - fn(X - e, *rest)) / 2e-6 for e in 1e-6 * np.eye(3)])


def agrees(fn: Callable[..., Any]) -> bool:
    """True if all calls agree with Python; False where one that Python takes is refused."""
    made, compiled = calque.value_and_grad(fn), calque.jit(fn)
    for rest in CALLS:
        want = outcome(fn, X, *rest)
        try:
            found, value = outcome(made, X, *rest), outcome(compiled, X, *rest)
        except CalqueError:
            if want is UnboundLocalError:
                continue  # every path reads the name
            return False
        if want is UnboundLocalError:
            assert found is want and value is want
            continue
        np.testing.assert_allclose((found[0], value), want, rtol=1e-12)
        np.testing.assert_allclose(found[1], slope(fn, *rest), rtol=1e-5, atol=1e-6)
    return True


@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore::calque.JitFallback", "ignore:.*is generated anew")
def test_random_programs(part: int, tmp_path: Path) -> None:
    seeds = range(part, SEEDS, 4)
    files = ((Program(seed).text(), tmp_path / f"kinds_{seed}.py") for seed in seeds)
    programs = (imported(text, path, "program") for text, path in files)
    assert sum(map(agrees, programs)) > len(seeds) // 2
