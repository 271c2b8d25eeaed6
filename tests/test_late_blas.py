"""Kernels compile without importing SciPy's linear algebra; those with BLAS calls import it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import calque

START = """
import sys
import numpy as np
import calque

def f(x):
    return np.sum(np.tanh(x) * x)

found = calque.jit(calque.grad(f))(np.linspace(0.0, 1.0, 7))
np.testing.assert_allclose(found, calque.grad(f)(np.linspace(0.0, 1.0, 7)))
assert "numba.np.arraymath" in sys.modules
"""


def run(folder: Path, program: str) -> None:
    """A fresh process in which a kernel is compiled, then the program runs."""
    path = str(Path(calque.__file__).parents[1])
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "CALQUE_CACHE": "0"}
    (folder / "program.py").write_text(START + program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(folder / "program.py")],
        capture_output=True, text=True, env=env, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_kernel_is_compiled_without_scipys_linear_algebra(tmp_path):
    run(tmp_path, 'assert "scipy.linalg" not in sys.modules')


def test_numbas_own_functions_find_blas_afterwards(tmp_path):
    run(
        tmp_path,
        """
import numba
from numba.np import arraymath, linalg

@numba.njit
def both(a, b):
    return np.convolve(a[0], b[0]), a @ b

rng = np.random.default_rng(0)
a, b = rng.random((3, 4)), rng.random((4, 5))
left, product = both(a, b)
np.testing.assert_allclose(left, np.convolve(a[0], b[0]))
np.testing.assert_allclose(product, a @ b)
assert bool(arraymath._HAVE_BLAS) and "scipy.linalg.cython_blas" in sys.modules
assert arraymath.ensure_blas is linalg.ensure_blas
""",
    )


def test_numba_without_scipy_says_so_as_before(tmp_path):
    run(
        tmp_path,
        """
import numba
from numba.np import arraymath

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scipy":
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
assert not arraymath._HAVE_BLAS
np.testing.assert_allclose(
    numba.njit(lambda a, b: np.convolve(a, b))(np.arange(3.0), np.arange(4.0)),
    np.convolve(np.arange(3.0), np.arange(4.0)),
)
""",
    )


def test_who_used_numba_before_keeps_its_answer():
    from numba.np import arraymath

    from calque.runtime.kernels.late_blas import blas_later

    before = arraymath._HAVE_BLAS
    with blas_later():
        pass
    assert arraymath._HAVE_BLAS is before
