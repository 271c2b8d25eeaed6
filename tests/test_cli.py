"""The command `calque`, run as a user runs it: in a folder, on files, with exit codes and two streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calque
from calque import cli, targets, verifying
from calque.transpiler.primitives.record import PRIMITIVES

ROOT = Path(calque.__file__).resolve().parent

MODEL = '''
import numpy as np

scale = np.array([1.0, 2.0, 3.0])


def loss(w: "f8[3]", b: float):
    z = scale * w + b
    return np.sum(z * z)


def untyped(w, b):
    return np.sum(w * w) * b


def mixed(params, x):
    return np.sum(np.tanh(x @ params["W"] + params["b"]))


def log_barrier(x: "f8[n]"):
    return -np.sum(np.log(x))


def random(x: "f8[n]"):
    return np.sum(x * np.random.randn(3))


def integer(k: int):
    return k * 2


class Model:
    def __init__(self):
        self.rate = 0.5

    def energy(self, x: "f8[n]"):
        return self.rate * np.sum(x * x)

    @staticmethod
    def cube(x: float):
        return x**3


class Needy:
    def __init__(self, rate):
        self.rate = rate

    def energy(self, x: "f8[n]"):
        return self.rate * np.sum(x * x)


model = Needy(2.0)
number = 3


def wrong_at_a_line(x: "f8[n]"):
    y = np.exp(x) * x
    return np.sum(y)
'''


def made_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with model.py, made the current one."""
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "other.py").write_text("def first(x): ...\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "model", raising=False)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return made_folder(tmp_path, monkeypatch)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m calque` in its own process."""
    command = [sys.executable, "-m", "calque", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}
    )


def read(captured: str, **names: object) -> dict:
    """The names that printed source defines."""
    exec(compile(captured, "<shown>", "exec"), names)
    return names


# show


def test_show_prints_source_that_works(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "model.py:loss", "--transform", "grad(f, argnums=(0, 1))"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "\x1b" not in out and "import calque" not in out
    shown = read(out)["loss_grad"]
    scale = np.array([1.0, 2.0, 3.0])
    w_bar, b_bar = shown(np.ones(3), 0.5, scale=scale)
    assert np.allclose(w_bar, 2.0 * scale * (scale + 0.5))
    assert np.isclose(b_bar, np.sum(2.0 * (scale + 0.5)))


def test_show_from_a_shell(folder: Path) -> None:
    done = run("show", "model.py:loss", "--transform", "grad(f)")
    assert (done.returncode, done.stderr) == (0, "")
    assert "def loss_grad(w, b, *, scale):" in done.stdout and "\x1b" not in done.stdout


def test_show_is_the_same_twice(folder: Path) -> None:
    first, second = (
        run("show", "model.py:loss", "--transform", "grad(f)", PYTHONHASHSEED=seed).stdout
        for seed in ("1", "2")
    )
    assert first == second != ""


@pytest.mark.parametrize(
    "transform",
    [
        *("f", "grad", "grad(f)", "grad(f, 1)", "grad(f, argnums=(0, 1))", "grad(f, argnums=-1)"),
        *("value_and_grad(f)", "grad(grad(f, argnums=1), argnums=1)", "jvp(f)", "vjp(f)"),
    ],
)
def test_show_transforms(
    folder: Path, transform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", "model.py:loss", "--transform", transform]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert any(name.startswith("loss") for name in read(out))


def test_show_without_a_transform(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "model.py:loss"]) == 0
    assert "np.sum(z * z)" in capsys.readouterr().out


def test_show_core(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "model.py:loss", "--stage", "core"]) == 0
    out, err = capsys.readouterr()
    assert "float64[3]" in out and err == ""


def test_show_args(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    types = "{'W': f8[d,3], 'b': f8[3]}, f8[n,d]"
    assert cli.main(["show", "model.py:mixed", "--transform", "grad(f)", "--args", types]) == 0
    assert "mixed_grad" in capsys.readouterr().out


def test_show_methods(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("Model.energy", "Model.cube", "model.energy"):
        assert cli.main(["show", f"model.py:{target}", "--transform", "grad(f)"]) == 0
        assert f"def {target.split('.')[1]}_grad(" in capsys.readouterr().out


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert cli._painted("import numpy\n") == "import numpy\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "\x1b[" in cli._painted("import numpy\n")
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli._painted("import numpy\n") == "import numpy\n"


# wrong usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["paint", "model.py:loss"], "calque: argument COMMAND: invalid choice"),
        (["show", "model.py"], "calque: 'model.py' names no function: write FILE:FUNC"),
        (["check", "model.py:"], "calque: 'model.py:' names no function: write FILE:FUNC, as in model.py:loss"),
        (["show", "model"], "calque: 'model' names no function: write FILE:FUNC, as in model.py:loss"),
        (["show", "other.py"], "calque: 'other.py' names no function: write FILE:FUNC, as in other.py:first"),
        (["show", "nowhere.py:loss"], "calque: there is no file nowhere.py"),
        (["show", "model.py:los"], "calque: model.py has no function los; did you mean loss?"),
        (["show", "model.py:number"], "calque: model.py:number is a int, not a function"),
        (["show", "model.py:Needy.energy"], "calque: model.py:Needy.energy needs an instance"),
        (["show", "model.py:untyped"], "calque: The type of untyped's argument w is unknown."),
        (["show", "model.py:loss", "--args", "f8[3]"], "calque: --args does not fit loss("),
        (["show", "model.py:loss", "--args", "q8[3], f8"], "calque: 'q8' is not a dtype.\n    q8[3], f8\n    ^^\n"),
        (["show", "model.py:loss", "--stage", "asm"], "calque: argument --stage: invalid choice"),
        (["show", "model.py:loss", "--transform", "vmap(grad(f))"], "calque: under vmap the"),
        (["show", "model.py:loss", "--transform", "gard(f)"], "calque: in --transform: gard is none of grad,"),
        (["verify", "nowhere.py"], "calque: nowhere.py cannot be read"),
        (["verify", "model.py"], "calque: model.py has no header that says how calque wrote it"),
        (["check", "model.py:integer"], "calque: no argument is of a floating dtype"),
    ],
)
def test_wrong_usage(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(message)


@pytest.mark.parametrize(
    "transform",
    [
        *("", "g", "grad(", "grad(g)", "exec(f)", "grad(f, argnums=n)", "f.__globals__"),
        *("grad(f, **{'argnums': 0})", "grad(f, open('x'))", "(lambda: f)()", "os.system('true')"),
        *("source(f)", "grad(f)(1)", "grad(f, no_such_option=1)", "[grad(f)]"),
    ],
)
def test_a_transform_is_read_not_evaluated(transform: str) -> None:
    with pytest.raises(targets.UsageError):
        targets.apply_transform(transform, lambda x: x)


def test_a_close_name_is_proposed() -> None:
    with pytest.raises(targets.UsageError, match=r"; did you mean value_and_grad\?$"):
        targets.apply_transform("valu_and_grad(f)", lambda x: x)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [(["hel"], "help"), (["show", "model.py:loss", "--stage", "kernel"], "kernels")],
)
def test_a_close_choice_is_proposed(
    arguments: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert f"; did you mean {name}?\nusage: " in capsys.readouterr().err


def test_a_file_that_fails_on_import(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "conflict.py").write_text('"""Doc."""\n<<<<<<< ours\n', encoding="utf-8")
    assert cli.main(["verify", "conflict.py"]) == 2
    assert capsys.readouterr().err.startswith("calque: conflict.py is no Python: line 2: invalid")
    (folder / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    assert cli.main(["show", "broken.py:f"]) == 2
    assert capsys.readouterr().err == (
        "calque: broken.py cannot be imported: ZeroDivisionError: division by zero\n"
    )


@pytest.mark.parametrize(
    "body, message",
    [
        ("return x.foo + 1", "AttributeError: 'numpy.ndarray' object has no attribute 'foo'"),
        ("return np.sum(x, axes=0)", "TypeError: sum() got an unexpected keyword argument 'axes'"),
        ("return {'a': x}['b']", "KeyError: 'b'"),
    ],
)
def test_an_error_of_the_program_shows_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], body: str, message: str
) -> None:
    text = f"import numpy as np\ndef f(x):\n    {body}\n"
    (folder / "program.py").write_text(text, encoding="utf-8")
    assert cli.main(["show", "program.py:f", "--args", "f8[3]"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(message)
    assert f"    {body}\n" in err and "program.py, line 3, in f" in err


def test_refusal_is_exit_code_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "model.py:random", "--transform", "grad(f)"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "line 25" in err and "np.random.randn" in err and "^" in err


def test_integer_arguments_have_no_gradient(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", "model.py:integer", "--transform", "grad(f)"]) == 1
    assert capsys.readouterr().err.startswith("NotDifferentiable: ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"calque {calque.__version__}\n"


# explain and check


def test_explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "model.py:loss"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() and err == ""


def test_check_agrees(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "model.py:loss"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["argument", "forward", "reverse", "differences", "agree"]
    assert [line.split()[0] for line in lines[1:]] == ["w", "b"]
    assert all(line.split()[-1] == "yes" for line in lines[1:])
    assert cli.main(["check", "model.py:loss"]) == 0
    assert capsys.readouterr().out.splitlines() == lines


def test_check_finds_arguments_in_the_domain(folder: Path) -> None:
    assert cli.main(["check", "model.py:log_barrier"]) == 0


def test_check_containers_and_dtypes(folder: Path) -> None:
    types = "{'W': f4[d,3], 'b': f4[3]}, f4[n,d]"
    assert cli.main(["check", "model.py:mixed", "--args", types]) == 0


def test_check_of_a_gradient(folder: Path) -> None:
    assert cli.main(["check", "model.py:loss", "--transform", "grad(f)"]) == 0


def test_check_reports_a_disagreement(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    multiply = PRIMITIVES["np.multiply"]
    correct = multiply.vjp

    def wrong(cotangents, outs, args, params):
        return tuple(2.0 * bar for bar in correct(cotangents, outs, args, params))

    monkeypatch.setattr(multiply, "vjp", wrong)
    assert cli.main(["check", "model.py:wrong_at_a_line"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[0] == "x" and lines[1].split()[-1] == "NO"
    assert lines[2].endswith("model.py, line 57, in wrong_at_a_line")
    assert lines[3:5] == ["    y = np.exp(x) * x", "        ^^^^^^^^^^^^^"]
    assert lines[5].startswith("The derivative of np.multiply: reverse mode disagrees with forward")


# save and verify


def saved(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    arguments = ["show", "model.py:loss", "--transform", "grad(f, argnums=(0, 1))", *more]
    assert cli.main([*arguments, "-o", "loss_grad.py"]) == 0
    assert capsys.readouterr() == ("", "")
    return (folder / "loss_grad.py").read_text(encoding="utf-8")


def test_a_saved_module_says_where_it_comes_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = saved(folder, capsys)
    assert text.startswith(
        '"""Gradient of loss with respect to w, b.\n\n'
        f"From model.py, line 7. Written by calque {calque.__version__}; regenerate with\n"
        '    calque show model.py:loss --transform "grad(f, argnums=(0, 1))" --args "f8[3], float"\n'
    )
    assert str(folder) not in text and "calque" not in text.split('"""')[2]


def test_verify_up_to_date(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(folder, capsys)
    assert cli.main(["verify", "loss_grad.py"]) == 0
    assert capsys.readouterr() == ("loss_grad.py: up to date\n", "")


def test_verify_of_arrays_that_need_equal_sizes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command in the header gives one letter to sizes that the program needs to be equal."""
    text = "import numpy as np\n\n\ndef fit(p, t, y, z):\n    return np.sum((p[0] * t - y) ** 2) + np.sum(z)\n"
    (folder / "fit.py").write_text(text, encoding="utf-8")
    fit = targets.load_function("fit.py:fit")
    calque.save(calque.grad(fit), "fit_grad.py", np.ones(2), np.ones(5), np.ones(5), np.ones(7))
    header = (folder / "fit_grad.py").read_text(encoding="utf-8")
    assert '--args "f8[n], f8[m], f8[m], f8[k]"' in header
    assert cli.main(["verify", "fit_grad.py"]) == 0
    assert capsys.readouterr() == ("fit_grad.py: up to date\n", "")


def test_verify_stale(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = saved(folder, capsys)
    (folder / "loss_grad.py").write_text(text + "edited = True\n", encoding="utf-8")
    assert cli.main(["verify", "loss_grad.py"]) == 1
    out, err = capsys.readouterr()
    assert "-edited = True\n" in out and out.startswith("--- loss_grad.py\n")
    assert err == "loss_grad.py: stale\n"


def test_verify_sees_a_changed_function(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(folder, capsys)
    (folder / "model.py").write_text(MODEL.replace("z * z", "z * z * z"), encoding="utf-8")
    done = run("verify", "loss_grad.py")
    assert done.returncode == 1 and "@@" in done.stdout


def test_verify_from_another_folder(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved(folder, capsys)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert cli.main(["verify", str(folder / "loss_grad.py")]) == 0


def test_verify_several(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = saved(folder, capsys)
    (folder / "old.py").write_text(text + "\n", encoding="utf-8")
    assert cli.main(["verify", "old.py", "loss_grad.py"]) == 1
    out, err = capsys.readouterr()
    assert out.endswith("loss_grad.py: up to date\n") and err == "old.py: stale\n"


def test_provenance_is_parsed_not_run() -> None:
    header = (
        '"""Gradient.\n\nWritten by calque 0.1.0; regenerate with\n'
        '    calque show a b.py:f --transform "grad(f)"; rm -rf x\nTypes: none.\n"""\n'
    )
    words = verifying.provenance(header)
    assert words == ["show", "a", "b.py:f", "--transform", "grad(f);", "rm", "-rf", "x"]
    with pytest.raises(targets.UsageError):
        verifying.provenance(header.replace("calque show", "rm -rf"))
    with pytest.raises(targets.UsageError):
        verifying.provenance(header.replace("; rm -rf x", " -o x"))
