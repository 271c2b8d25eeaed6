"""Kernels as source: stages, saved modules that stand alone, stepping, and the options of jit."""

from __future__ import annotations

import bdb
import contextlib
import io
import os
import pdb
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sampling import sampled

import calque
from calque import cli
from calque.runtime.call import loading
from calque.runtime.kernels.decorator import PARALLEL_FROM
from calque.transpiler.ir import pytrees

ROOT = Path(calque.__file__).resolve().parent


def selu(x, alpha=1.67, scale=1.05):
    return scale * np.where(x > 0, x, alpha * np.exp(x) - alpha)


def loss(w, x, y):
    p = 1.0 / (1.0 + np.exp(-(x @ w)))
    return -np.mean(y * np.log(p) + (1.0 - y) * np.log(1.0 - p)) + np.sum(np.maximum(w, 0.0))


def recurrence(x, a):
    y = np.zeros_like(x)
    for i in range(1, x.size):
        y[i] = np.exp(a * x[i]) + y[i - 1] / a
        if y[i] > 3.0:
            y[i] = np.minimum(y[i], 4.0)
    return np.sum(np.sin(y)) + np.sign(a), y


RNG = np.random.default_rng(0)
LOGISTIC = (RNG.normal(size=3), RNG.normal(size=(8, 3)), np.arange(8) % 2 * 1.0)


# stages


def test_kernels_of_a_function_that_is_not_jitted() -> None:
    x = np.ones((2, 3))
    assert calque.source(selu, x, stage="kernels") == calque.jit(selu).source(x)
    gradient = calque.grad(loss)
    text = gradient.source(*LOGISTIC, stage="kernels")
    assert text == calque.jit(gradient).source(*LOGISTIC) and "@kernel" in text
    assert "def loss_grad_jit(" in text


def test_numpy_source_of_a_jitted_function() -> None:
    x = np.ones((2, 3))
    assert calque.jit(selu).source(x, stage="numpy") == calque.source(selu, x)
    gradient = calque.grad(loss)
    assert calque.jit(gradient).source(*LOGISTIC, stage="numpy") == gradient.source(*LOGISTIC)
    inside = calque.vmap(calque.jit(calque.grad(selu)))
    outside = calque.vmap(calque.grad(selu))
    assert inside.source(np.ones(3), stage="numpy") == outside.source(np.ones(3))
    assert "@kernel" in inside.source(np.ones(3))


def test_a_stage_that_is_none() -> None:
    with pytest.raises(ValueError, match="stage must be one of core, numpy, kernels, cuda, not 'metal'"):
        calque.source(selu, 1.0, stage="metal")
    with pytest.raises(ValueError, match="can only be shown"):
        calque.save(selu, "nowhere.py", 1.0, stage="core")


MODEL = '''
import numpy as np

import calque


def selu(x: "f8[n,m]", alpha: float, scale: float):
    return scale * np.where(x > 0, x, alpha * np.exp(x) - alpha)


def energy(x: "f8[n]"):
    return np.sum(np.tanh(x) * np.maximum(x, 0.0))


@calque.jit(parallel=False)
@calque.grad
def force(x: "f8[n]"):
    return np.sum(np.tanh(x) * x)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "kernel_model.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "kernel_model", raising=False)
    return tmp_path


def kernels_on(text: str) -> str:
    """A module from its first kernel on."""
    return text[text.index("\n@kernel") :]


@pytest.mark.parametrize(
    "words, name",
    sampled(
        [
            (["energy", "--transform", "jit(grad(f))"], "energy_grad_jit"),
            (["energy", "--transform", "grad(f)", "--stage", "kernels"], "energy_grad_jit"),
            (["energy", "--transform", "jit(f, parallel=False, boundscheck=True)"], "energy_jit"),
            (["energy", "--transform", "jit(grad(f))", "--stage", "numpy"], "energy_grad"),
            (["force"], "force_grad_jit"),
            (["force", "--stage", "numpy"], "force_grad"),
        ],
        1,
    ),
)
def test_show_save_and_verify(folder: Path, capsys, words: list[str], name: str) -> None:
    arguments = ["show", f"kernel_model.py:{words[0]}", *words[1:]]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert f"\ndef {name}(" in text and ("\n@kernel" in text) == name.endswith("_jit")
    assert cli.main([*arguments, "-o", "saved.py"]) == 0
    saved = (folder / "saved.py").read_text(encoding="utf-8")
    if "\n@kernel" in text:
        assert kernels_on(text) in kernels_on(saved)
    else:
        assert saved.endswith(text)
    assert "calque.runtime" not in saved
    assert cli.main(["verify", "saved.py"]) == 0
    (folder / "saved.py").write_text(text, encoding="utf-8")
    assert cli.main(["verify", "saved.py"]) == 0
    (folder / "saved.py").write_text(text.replace("np.empty", "np.ones"), encoding="utf-8")
    assert cli.main(["verify", "saved.py"]) == int("np.empty" in text)


def test_the_header_of_kernels(folder: Path, capsys) -> None:
    cli.main(["show", "kernel_model.py:energy", "--transform", "jit(grad(f))"])
    assert capsys.readouterr().out.startswith(
        '"""Kernels of the gradient of energy with respect to x.\n'
    )


# saved modules


ALONE = """
import importlib, sys
sys.modules["calque"] = None
import numpy as np
module, function, data, out = sys.argv[1:]
args = [a for _, a in sorted(np.load(data).items())]
found = getattr(importlib.import_module(module), function)(*[a if a.ndim else a.item() for a in args])
found = found if isinstance(found, tuple) else (found,)
np.savez(out, *found)
loaded = {name.split(".")[0] for name in sys.modules if sys.modules[name] is not None}
print("numba" in loaded, "calque" in loaded, "scipy" in loaded)
"""


def run_alone(folder: Path, module: str, function: str, args, **more: str) -> list[np.ndarray]:
    np.savez(folder / "args.npz", *args)
    environment = {**os.environ, "PYTHONPATH": str(folder), **more}
    command = [sys.executable, "-c", ALONE, module, function, "args.npz", "out.npz"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["True", "False"]
    return list(np.load(folder / "out.npz").values())


def test_a_saved_module_stands_alone(tmp_path: Path) -> None:
    calque.save(calque.jit(calque.value_and_grad(loss)), tmp_path / "alone.py", *LOGISTIC)
    text = (tmp_path / "alone.py").read_text(encoding="utf-8")
    assert "import calque" not in text and "from calque" not in text
    name = "loss_value_and_grad_jit"
    value, gradient = run_alone(tmp_path, "alone", name, LOGISTIC)
    np.testing.assert_allclose(value, loss(*LOGISTIC), rtol=1e-14)
    step = np.array([1.0, -2.0, 0.5]) * 1e-6
    w, *rest = LOGISTIC
    slope = (loss(w + step, *rest) - loss(w - step, *rest)) / 2
    np.testing.assert_allclose(gradient @ step, slope, rtol=1e-7)
    uncompiled = run_alone(tmp_path, "alone", name, LOGISTIC, NUMBA_DISABLE_JIT="1")
    np.testing.assert_allclose(uncompiled[1], gradient, rtol=1e-13)


def every_helper(x):
    y = np.maximum(x, 0.1) + np.minimum(x, 0.9) + np.sign(x) + np.heaviside(x, 0.5)
    y = y + np.exp(x) + np.log(x + 3.0) + np.sin(x) + np.tanh(x) + np.arctan2(x, y)
    return y + (x + 3.0) ** 1.5 + np.arcsinh(x) + np.log1p(x * x)


@pytest.mark.parametrize("dtype, tolerance", [("f8", 1e-14), ("f4", 1e-5)])
def test_a_saved_module_holds_all_that_it_uses(tmp_path: Path, dtype: str, tolerance: float) -> None:
    x = np.linspace(-2.0, 2.0, 11).astype(dtype)
    calque.save(calque.jit(every_helper), tmp_path / "helpers.py", x)
    (found,) = run_alone(tmp_path, "helpers", "every_helper_jit", [x])
    assert found.dtype == dtype
    np.testing.assert_allclose(found, every_helper(x), rtol=tolerance)


def test_saved_modules_pass_ruff(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    calque.save(calque.jit(calque.grad(loss)), tmp_path / "a.py", *LOGISTIC)
    calque.save(calque.jit(every_helper), tmp_path / "b.py", np.ones(3))
    calque.save(calque.jit(recurrence), tmp_path / "c.py", np.ones(3, "f4"), 2.0)
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config"]
    command += [str(ROOT / "ruff.toml"), "--extend-ignore", "E501", "a.py", "b.py", "c.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for file in tmp_path.glob("*.py"):
        for line in file.read_text(encoding="utf-8").splitlines():
            assert len(line) <= 100 or line.startswith("    calque show "), line


def test_saved_modules_are_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "helped.py").write_text(
        "import numpy as np\n\n\ndef helped(x):\n"
        "    return np.sum(np.exp(x) * np.maximum(np.sign(x), np.tanh(x)) + np.minimum(x, 1.0))\n",
        encoding="utf-8",
    )
    code = (
        "import numpy as np, calque, helped\n"
        "calque.save(calque.jit(calque.grad(helped.helped)), 'out.py', np.ones(3))\n"
    )
    texts = set()
    for seed in ("0", "1"):
        path = os.pathsep.join([str(tmp_path), str(ROOT.parent)])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
        texts.add((tmp_path / "out.py").read_text(encoding="utf-8"))
    assert len(texts) == 1 and "def exp(x):" in texts.pop()


# uncompiled


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(loading, "_modules", {})


@pytest.mark.parametrize(
    "function, args",
    [
        (selu, (RNG.normal(size=(3, 4)), 1.67, 1.05)),
        (calque.grad(loss), LOGISTIC),
        (recurrence, (np.linspace(0.0, 1.0, 6), 0.7)),
        (calque.jvp(recurrence), (np.linspace(0.0, 1.0, 6), 0.7, np.ones(6), 1.0)),
        (every_helper, (np.linspace(-2.0, 2.0, 11),)),
    ],
)
def test_uncompiled_is_the_same(uncompiled: None, function, args) -> None:
    jitted = calque.jit(function)
    found, expected = jitted(*args), function(*args)
    assert jitted.cache_info().kernels == ()
    for a, b in zip(pytrees.flatten(found)[0], pytrees.flatten(expected)[0], strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_division_by_zero_is_numpys_when_uncompiled(uncompiled: None) -> None:
    value, y = calque.jit(recurrence)(np.ones(4), 0.0)
    assert np.isnan(value) or np.isinf(y[1:]).any()


def test_a_debugger_steps_through_a_kernel(uncompiled: None) -> None:
    jitted = calque.jit(recurrence)
    x = np.linspace(0.0, 1.0, 4)
    program = jitted.program(x, 0.7)
    file = program.call.__code__.co_filename
    lines = program.text.splitlines()
    line = next(k for k, text in enumerate(lines, 1) if "y[i] = exp(" in text)
    out = io.StringIO()
    commands = "continue\np i, x[i]\nstep\nwhere\nq\n"
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=out, nosigint=True, readrc=False)
    assert debugger.set_break(file, line) is None
    with contextlib.suppress(bdb.BdbQuit):
        debugger.runcall(jitted, x, 0.7)
    said = out.getvalue()
    assert f"{file}({line})recurrence_kernel()" in said
    assert lines[line - 1].strip() in said and "(1, " in said
    assert "exp(x)" in said  # stepped into NumPy's function in place of the polynomial


# options


def big(x):
    return np.exp(x) * x


def test_parallel() -> None:
    small, large = np.ones(3), np.ones(PARALLEL_FROM)
    versions = {}
    for parallel in (True, False, "auto"):
        jitted = calque.jit(big, parallel=parallel)
        for x in (small, large):
            np.testing.assert_allclose(jitted(x), big(x), rtol=1e-15)
        jitted.wait()  # the second call waits for no other version
        versions[parallel] = {k.version for k in jitted.cache_info().kernels}
    assert versions == {True: {"parallel"}, False: {"serial"}, "auto": {"serial", "parallel"}}
    assert "@kernel(parallel=True)" in calque.jit(big, parallel=True).source(small)
    assert "prange" not in calque.jit(big, parallel=False).source(small)
    with pytest.raises(ValueError, match="parallel must be True, False or 'auto'"):
        calque.jit(big, parallel="often")


def picked(x, k):
    total = 0.0
    for i in range(k.size):
        total += x[k[i]]
    return total


def test_boundscheck() -> None:
    x, inside, outside = np.arange(4.0), np.array([0, 3]), np.array([0, 4])
    shown = {
        None: "x[checked_index(k[i], x.shape[0])]",
        True: "@kernel(boundscheck=True)",
        False: "@kernel(boundscheck=None)",
    }
    for wish, text in shown.items():
        jitted = calque.jit(picked, boundscheck=wish)
        assert text in jitted.source(x, inside)
        assert jitted(x, inside) == jitted(x, inside - 4) == 3.0
        if wish is not False:
            for far in (outside, outside - 9, outside.astype(np.uint8)):
                with pytest.raises(IndexError):
                    jitted(x, far)
    proven = calque.jit(big).source(x)
    assert "boundscheck" not in proven and "checked_index" not in proven
    assert "@kernel(boundscheck=True)" in calque.jit(big, boundscheck=True).source(x)


def test_the_options_of_the_outermost_jit_count() -> None:
    inner = calque.jit(calque.grad(lambda x: np.sum(np.exp(x))), parallel=False)
    assert "@kernel(parallel=False)" in calque.vmap(inner).source(np.ones((2, 3)))
    assert "@kernel(parallel=True)" in calque.jit(inner, parallel=True).source(np.ones(3))


# names, and what comments quote


def spread(u):
    """Of the neighbours above and below."""
    out = np.zeros_like(u)
    for i in range(1, u.shape[0] - 1):
        out[i] = u[i + 1] * np.sin(u[i + 1]) + u[i - 1] ** 2
    return out


def halved(u):
    return 0.5 * u


def energy_of(u):
    v = spread(u)
    w = halved(v)
    return np.sum(w * w)


def test_a_function_of_several_statements_is_quoted_by_them() -> None:
    """And one that is a single expression by its call, as if its text stood there."""
    text = calque.grad(energy_of).source(np.ones(5))
    assert "# spread: out[i] = u[i + 1] * np.sin(u[i + 1]) + u[i - 1] ** 2" in text
    assert "# w = halved(v)" in text
    assert "# v = spread(u)" not in text and "# return 0.5 * u" not in text
    assert "u_ip1 = u[i + 1]" in text


def test_elements_are_called_after_their_place() -> None:
    def both(x):
        y = 2.0 * np.exp(x)
        z = y + np.tanh(x) * x
        return y, z, np.cumsum(x * y)

    text = calque.jit(both).source(np.ones(5))
    assert "y_i = 2.0 * exp(x_i)" in text and "y[i] = y_i" in text
    assert "z[i] = y_i + tanh(x_i) * x_i" in text
    assert "x_times_y[i] = x_i * y_i" in text


def test_counters_of_loops_within_loops() -> None:
    def distances(points):
        far = np.zeros(points.shape[0])
        for i in range(points.shape[0]):
            for j in range(i):
                d = points[i] - points[j]
                far[i] = np.maximum(far[i], d @ d)
        return far

    text = calque.jit(distances).source(np.ones((5, 2)))
    assert "for k in range(points.shape[1]):" in text
    assert "d = points[i, k] - points[j, k]" in text


def test_variables_that_are_called_as_what_kernels_call(capsys, monkeypatch) -> None:
    """They get another name there: what Numba cannot compile would run as NumPy source."""

    def shadows(exp, len, parts):
        max = exp * 2.0
        abs = np.sum(max) + len
        for i in range(exp.shape[0]):
            abs = abs + max[i] * np.exp(exp[i]) + parts["min"][i]
        return abs

    monkeypatch.setenv("CALQUE_DEBUG", "1")
    x = np.array([1.0, 2.0, 3.0])
    args = (x, 2.0, {"min": x + 1.0})
    np.testing.assert_allclose(calque.jit(shadows)(*args), shadows(*args), rtol=1e-13)
    gradient = calque.jit(calque.grad(shadows))(*args)
    np.testing.assert_allclose(gradient, 2.0 + 2.0 * np.exp(x) * (1.0 + x), rtol=1e-13)
    assert "runs as NumPy source" not in capsys.readouterr().err
