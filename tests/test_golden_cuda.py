"""Generated CUDA modules, pinned: what `calque show --stage cuda` prints, and what it computes.

Each text is compiled by NVRTC for three architectures, and runs in the emulator as it stands; its
numbers are those of NumPy, of differences, or of a formula. To write the files anew:
`CALQUE_GOLDEN=write pytest tests/test_golden_cuda.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda_programs as programs
import numpy as np
import pytest
from cuda_emulator import building, nvrtc, standin
from cuda_emulator.running import installed, to_device, to_host

import calque
from calque import cli

ROOT = Path(calque.__file__).resolve().parent
GOLDEN = Path(__file__).resolve().parent / "golden_cuda"
RNG = np.random.default_rng(5)

# name of the golden file: function, transformation, types
CASES: dict[str, tuple[str, str, str]] = {
    "selu": ("selu", "jit(f)", "f4[n,m]"),
    "cross_entropy_grad": ("cross_entropy", "jit(grad(f))", "f4[n,k], f4[n,k]"),
    "sum_of_squares": ("sum_of_squares", "jit(f)", "f4[n,m]"),
    "column_mean": ("column_mean", "jit(f)", "f8[n,m]"),
    "kepler_vmap": ("kepler", "jit(vmap(f))", "f8[n], f8[n]"),
    "kepler_grad_vmap": ("kepler", "jit(vmap(grad(f)))", "f8[n], f8[n]"),
    "heat": ("heat", "jit(f)", "f8[n,m], f8[n,m], int"),
    "heat_grad": ("heat", "jit(grad(f, argnums=(0, 1)))", "f8[n,m], f8[n,m], int"),
    "embedding_loss_grad": ("embedding_loss", "jit(grad(f))", "f4[v,d], i8[n], f4[n,d]"),
    "embedding_loss_grad_sorted": (
        "embedding_loss", "jit(grad(f), deterministic=True)", "f4[v,d], i8[n], f4[n,d]"
    ),
    "mlp_loss_grad": (
        "mlp_loss",
        "jit(grad(f, argnums=(0, 1, 2, 3)))",
        "f4[d,h], f4[h], f4[h,c], f4[c], f4[n,d], f4[n,c]",
    ),
    "running_share": ("running_share", "jit(f)", "f8[n]"),
    "running_shares": ("running_shares", "jit(f)", "f4[n,m]"),
    "distances": ("distances", "jit(f)", "f8[n]"),
    "clipped_products": ("clipped_products", "jit(f)", "f8[n], f8[n]"),
    "newton_root_vmap": ("newton_root", "jit(vmap(f))", "c16[n]"),
    "brightness_grad": ("brightness", "jit(grad(f))", "f8[n], c16[n]"),
}


def single(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def differences(f: Callable[..., Any], args: tuple[Any, ...], k: int, step: float = 1e-5) -> np.ndarray:
    """The gradient of f with respect to its k-th argument, each element by itself, in float64."""
    args = tuple(a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else a for a in args)
    slope = np.zeros(args[k].shape)
    for place in np.ndindex(args[k].shape):
        ends = []
        for moved in (step, -step):
            given = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
            given[k][place] += moved
            ends.append(f(*given))
        slope[place] = (ends[0] - ends[1]) / (2.0 * step)
    return slope


def each(f: Callable[..., Any], *args: np.ndarray) -> np.ndarray:
    return np.array([f(*one) for one in zip(*args)])


def kepler_slope(mean: float, eccentricity: float) -> float:
    """By the implicit function: E - e sin E = M."""
    return 1.0 / (1.0 - eccentricity * np.cos(programs.kepler(mean, eccentricity)))


def of(f: Callable[..., Any], *args: Any) -> tuple[tuple[Any, ...], Any]:
    """Arguments, and what NumPy gives for them (in float64 for sums of single numbers)."""
    wide = [a.astype(np.float64) if getattr(a, "dtype", None) == np.float32 else np.copy(a) for a in args]
    return args, f(*wide)


def slopes(f: Callable[..., Any], argnums: tuple[int, ...], *args: Any) -> tuple[tuple[Any, ...], Any]:
    found = tuple(differences(f, args, k) for k in argnums)
    return args, found if len(found) > 1 else found[0]


MEANS, ECCENTRICITIES = RNG.uniform(0.0, 3.0, 300), RNG.uniform(0.0, 0.9, 300)
ROOTS = np.exp(2j * np.pi * np.arange(3) / 3)
STARTS = np.repeat(ROOTS, 100) + 0.2 * (RNG.random(300) + 1j * RNG.random(300))
# the arguments, what is expected of them, and how near
NUMBERS: dict[str, tuple[tuple[tuple[Any, ...], Any], float]] = {
    "selu": (of(programs.selu, single(37, 53)), 2e-6),
    "cross_entropy_grad": (slopes(programs.cross_entropy, (0,), single(11, 45), abs(single(11, 45))), 1e-6),
    "sum_of_squares": (of(programs.sum_of_squares, single(300, 70)), 1e-6),
    "column_mean": (of(programs.column_mean, RNG.standard_normal((700, 45))), 1e-13),
    "kepler_vmap": (((MEANS, ECCENTRICITIES), each(programs.kepler, MEANS, ECCENTRICITIES)), 1e-12),
    "kepler_grad_vmap": (((MEANS, ECCENTRICITIES), each(kepler_slope, MEANS, ECCENTRICITIES)), 1e-8),
    "heat": (of(programs.heat, RNG.standard_normal((21, 35)), 0.1 * RNG.random((21, 35)), 6), 1e-13),
    "heat_grad": (slopes(programs.heat, (0, 1), RNG.standard_normal((7, 9)), 0.1 * RNG.random((7, 9)), 4), 1e-8),
    "embedding_loss_grad": (
        slopes(programs.embedding_loss, (0,), single(6, 5), RNG.integers(-6, 6, 20), single(20, 5)),
        2e-6,
    ),
    "embedding_loss_grad_sorted": (
        slopes(programs.embedding_loss, (0,), single(6, 5), RNG.integers(-6, 6, 20), single(20, 5)),
        2e-6,
    ),
    "mlp_loss_grad": (
        slopes(
            programs.mlp_loss, (0, 1, 2, 3),
            *(single(4, 7), single(7), single(7, 3), single(3), single(33, 4), single(33, 3)),
        ),
        2e-6,
    ),
    "running_share": (of(programs.running_share, RNG.standard_normal(700)), 1e-12),
    "running_shares": (of(programs.running_shares, single(7, 300)), 2e-6),
    "distances": (of(programs.distances, RNG.standard_normal(700)), 1e-12),
    "newton_root_vmap": (((STARTS,), ROOTS[np.argmin(np.abs(STARTS[:, None] - ROOTS), 1)]), 1e-12),
    "brightness_grad": (
        slopes(programs.brightness, (0,), RNG.uniform(0.0, 6.0, 300), np.exp(1j * RNG.random(300))),
        1e-7,
    ),
    "clipped_products": (of(programs.clipped_products, *RNG.standard_normal((2, 700))), 1e-13),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", sys.path.copy())


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, transform, types = CASES[name]
    asked = [f"tests/cuda_programs.py:{function}", "--transform", transform, "--args", types]
    assert cli.main(["show", *asked, "--stage", "cuda"]) == 0
    text = capsys.readouterr().out
    if os.environ.get("CALQUE_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / f"{name}.py").write_text(text, encoding="utf-8")
    assert golden(name) == text


@pytest.mark.skipif(nvrtc.nvrtc() is None, reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("architecture", nvrtc.ARCHITECTURES)
@pytest.mark.parametrize("name", CASES)
def test_nvrtc_takes_it_and_no_register_is_spilled(name: str, architecture: str) -> None:
    code = re.search(r'^code = r"""\n(.*?)^"""', golden(name), re.S | re.M)
    assert code is not None
    for index in ("int", "long long"):
        figures = nvrtc.compiled(code.group(1), architecture, (f"-DIndex={index}",))
        assert set(figures) == set(re.findall(r'kernel\(code, "(\w+)"', golden(name)))
        assert {kernel: f.spills for kernel, f in figures.items()} == dict.fromkeys(figures, 0)


@pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    """The same bits, whatever the order of the threads, but for sums of atomic additions."""
    (args, want), tolerance = NUMBERS[name]
    results = []
    with installed():
        module: dict[str, Any] = {}
        exec(compile(golden(name), f"{name}.py", "exec"), module)
        launcher = next(v for k, v in module.items() if re.search("_jit$", k))
        before = standin.order
        try:
            for standin.order in (0, 1, 7):
                result = launcher(*map(to_device, args))
                results.append([to_host(x) for x in (result if isinstance(result, tuple) else (result,))])
        finally:
            standin.order = before
    for got, expected in zip(results[0], want if isinstance(want, tuple) else (want,), strict=True):
        assert got.shape == np.shape(expected)
        largest = max(1.0, np.max(np.abs(expected)))
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * largest)
    for other in results[1:]:
        if "atomicAdd(" in golden(name):  # in the order in which threads arrive
            for one, two in zip(results[0], other, strict=True):
                np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)
            continue
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_the_readme_shows_the_kernel_as_it_is() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    kernel = page.partition("```cuda\n")[2].partition("```")[0]
    shown = re.search(r"def selu\(x\):\n(.*)", page)
    assert shown is not None and shown.group(1) in (ROOT / "tests" / "test_cuda.py").read_text(encoding="utf-8")
    import test_cuda

    text = calque.source(calque.jit(test_cuda.selu), calque.spec("f4[n]"), stage="cuda")
    assert kernel and kernel in text


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.py")} == set(CASES) == set(NUMBERS)


def test_ruff_finds_nothing() -> None:
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "100", "--no-cache"]
    command += ["--select", "E,F,W,I,B", "--ignore", "E741,E501,I001", "--ignore", "B007", str(GOLDEN)]  # B007: the user's `for t`
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
