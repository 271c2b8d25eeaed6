"""Without CuPy, nothing asks for it, and what needs it says how to get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys

import numpy as np

sys.modules["cupy"] = None  # an import of it fails
import calque
from calque.transpiler.errors import NoSuchDevice


def half(x):
    return np.sum(0.5 * x * x)


class Foreign:
    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f8", "data": (4096, False), "version": 3}


assert calque.jit(calque.grad(half))(np.ones(3)).shape == (3,)
calque.device_put(1.0), calque.devices(), calque.block_until_ready(np.ones(2))
for asks in (
    lambda: calque.devices("cuda"),
    lambda: calque.jit(half, device="gpu"),
    lambda: calque.grad(half)(Foreign()),
):
    try:
        asks()
    except NoSuchDevice as error:
        print(str(error).replace("\\n", " "))
"""


def test_without_cupy_nothing_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "2")
    script = tmp_path / "without.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    extras = 'Instead: the extras cuda12 and cuda13 bring CuPy: pip install "calque[cuda12]"'
    why = f"GPUs are reached through CuPy: import of cupy halted; None in sys.modules. {extras}"
    have = "there are 2 of the platform 'cpu'."
    assert done.stdout.splitlines() == [
        f"There is no device of the platform 'cuda'; {have} {why}",
        f"There is no device of the platform 'gpu'; {have} {why}",
        why,
    ]
