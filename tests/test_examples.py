"""Every example runs without a warning, agrees with what it expects, and shows its source."""

from __future__ import annotations

import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SHOWN = {
    "abs_value": "def absolute_grad(x):",
    "tanh_derivatives": "def tanh_grad(x):",
    "logistic_regression": "def loss_grad(w, b, *, inputs, targets):",
    "gauss_seidel": "def gauss_seidel_grad(u, f):",
    "newton_sqrt": "def newton_sqrt_grad(a):",
    "newton_batch": "def kepler_vmap(mean, eccentricity):",
    "batched_forward": "def forward_vmap(x, w, b):",
    "convolve": "def convolve_vmap(x, w):",
    "jacobian": "def f_jacfwd(x):",
    "hessian": "def rosenbrock_hessian(x):",
    "per_example_gradients": "def loss_grad_vmap(w, x, y):",
    "implicit_layer": "def loss_grad(W, U, b, x, target):",
    "selu": "def selu_kernel(x_flat, out):",
    "matrix_powers": "def powers_kernel(x_flat, out):",
    "stencils": "def seidel_grad_kernel(u, u_new):",
    "mlp_step": "def step_jit(params, x, targets):",
    "scipy_minimize": "def rosenbrock_",
}


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: another one takes a second to import NumPy and Numba."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "expected" in shown.out
    assert SHOWN[name] in shown.out


@pytest.mark.parametrize("name", ["tanh_derivatives", "mlp_step"])
def test_as_a_script(name: str, tmp_path: Path) -> None:
    """One of NumPy source, one of kernels, on their own."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert SHOWN[name] in done.stdout
