"""The generated source that we are proud of, pinned; and the budget that every line of it keeps.

A failing comparison prints the new text. To take it: CALQUE_GOLDEN=write pytest tests/test_golden.py
"""

from __future__ import annotations

import ast
import difflib
import io
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import calque
from calque import cli
from calque.transpiler.primitives.record import PRIMITIVES

ROOT = Path(calque.__file__).resolve().parent
GOLDEN = Path(__file__).resolve().parent / "golden"
PROGRAMS = "tests/golden_programs.py"

# name of the golden file: file, function, transformation, and the types if they are batched
CASES: dict[str, tuple[str, ...]] = {
    "logistic_loss_grad": (PROGRAMS, "logistic_loss", "grad(f, argnums=(0, 1))"),
    "gauss_seidel_grad": (PROGRAMS, "gauss_seidel", "grad(f, argnums=(0, 1))"),
    "nonlinear_stencil_grad": (PROGRAMS, "nonlinear_stencil", "grad(f)"),
    "hinge_grad": (PROGRAMS, "hinge", "grad(f)"),
    "newton_grad": (PROGRAMS, "newton", "grad(f)"),
    "entropy_term_grad": (PROGRAMS, "entropy_term", "grad(f)"),
    "tanh_jvp": (PROGRAMS, "tanh", "jvp(f)"),
    "tanh_grad_grad": (PROGRAMS, "tanh", "grad(grad(f))"),
    "cross_entropy_grad": (PROGRAMS, "cross_entropy", "grad(f)"),
    "mlp_grad": (PROGRAMS, "mlp", "grad(f)"),
    "residual_grad": (PROGRAMS, "residual", "grad(f)"),
    "mlp_jvp": (PROGRAMS, "mlp", "jvp(f)"),
    "recurrent_grad": (PROGRAMS, "recurrent", "grad(f)"),
    "growing_grad": (PROGRAMS, "growing", "grad(f)"),
    "decay_value_and_grad": (PROGRAMS, "decay", "value_and_grad(f)"),
    "example_abs_value": ("examples/abs_value.py", "absolute", "grad(f)"),
    "example_tanh": ("examples/tanh_derivatives.py", "tanh", "grad(f)"),
    "example_cubic": ("examples/tanh_derivatives.py", "cubic", "grad(grad(f))"),
    "example_logistic": ("examples/logistic_regression.py", "loss", "grad(f, argnums=(0, 1))"),
    "example_logistic_dict": ("examples/logistic_regression.py", "loss_of", "value_and_grad(f)"),
    "example_gauss_seidel": ("examples/gauss_seidel.py", "gauss_seidel", "grad(f, argnums=(0, 1))"),
    "example_newton_sqrt": ("examples/newton_sqrt.py", "newton_sqrt", "grad(f)"),
    "example_implicit_layer": ("examples/implicit_layer.py", "loss", "grad(f, argnums=(0, 1, 2))"),
    "example_rosenbrock": ("examples/scipy_minimize.py", "rosenbrock", "value_and_grad(f)"),
    "hinge_vmap": (PROGRAMS, "hinge", "vmap(f, in_axes=(None, 0, 0))", "f8[d], f8[n,d], f8[n]"),
    "entropy_term_vmap": (PROGRAMS, "entropy_term", "vmap(f, in_axes=(0, None))", "f8[n], float"),
    "example_batched_forward": (
        "examples/batched_forward.py",
        "forward",
        "vmap(f, in_axes=(0, None, None))",
        "f8[n,d], f8[d,k], float",
    ),
    "example_convolve": (
        "examples/convolve.py",
        "convolve",
        "vmap(f, in_axes=[0, None])",
        "f8[m,n], f8[3]",
    ),
    "example_jacobian": ("examples/jacobian.py", "f", "jacfwd(f)"),
    "example_hessian": ("examples/hessian.py", "rosenbrock", "hessian(f)"),
    "example_per_example_gradients": (
        "examples/per_example_gradients.py",
        "loss",
        "vmap(grad(f), in_axes=(None, 0, 0))",
        "f8[d], f8[n,d], f8[n]",
    ),
    "example_newton_batch": ("examples/newton_batch.py", "kepler", "vmap(f)", "f8[n], f8[n]"),
    "example_newton_batch_total": ("examples/newton_batch.py", "total", "grad(f)"),
    "example_newton_batch_grad": (
        "examples/newton_batch.py",
        "kepler",
        "vmap(grad(f))",
        "f8[n], f8[n]",
    ),
}
# Second derivatives and a primal of one or two lines are held to no ratio of lines.
SECOND = {
    *("tanh_grad_grad", "example_cubic", "example_hessian"),
    # the gradient of a loop, each lane of which has its own trip count
    *("example_newton_batch_grad", "example_newton_batch_total"),
}


REMARKS = ("as it was before this statement", "places may repeat")
RULES = {p.rule for p in PRIMITIVES.values()}


def command_of(file: str, function: str, transform: str, *types: str) -> list[str]:
    """Return the arguments of the command `calque` for a case."""
    given = ["--args", *types] if types else []
    return ["show", f"{file}:{function}", "--transform", transform, *given]


def generate(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of `calque show` for a case, run from the root of the checkout."""
    assert cli.main(command_of(*CASES[name])) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", sys.path.copy())


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = generate(name, capsys)
    path = GOLDEN / f"{name}.py"
    if os.environ.get("CALQUE_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    pinned = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != pinned:
        changes = difflib.unified_diff(pinned.splitlines(), text.splitlines(), "pinned", "now")
        pytest.fail(f"{name} has changed:\n" + "\n".join(changes) + f"\n\nThe new text:\n{text}")


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.py")} == set(CASES)


def test_the_same_bytes_in_another_process() -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:2]; from calque import cli\n"
        "for arguments in eval(sys.argv[2]):\n"
        "    cli.main(arguments)\n"
    )
    printed = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(ROOT), repr([command_of(*c) for c in CASES.values()])]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        printed.append(
            subprocess.run(command, capture_output=True, env=environment, check=True).stdout
        )
    assert printed[0] == printed[1]
    assert printed[0].decode() == "".join((GOLDEN / f"{n}.py").read_text() for n in CASES)


# the budget


def definitions(text: str) -> list[ast.FunctionDef]:
    """The functions of a generated module."""
    return [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def primal(name: str) -> list[ast.FunctionDef]:
    """The user's function, and those of its file that it calls."""
    file, function = CASES[name][:2]
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    known = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found, pending = [], [function]
    while pending:
        node = known.pop(pending.pop(0), None)
        if node is not None:
            found.append(node)
            pending += [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return found


def stored_names(nodes: list[ast.FunctionDef]) -> set[str]:
    """Arguments and everything assigned."""
    found = set()
    for node in nodes:
        for item in ast.walk(node):
            if isinstance(item, ast.arg):
                found.add(item.arg)
            elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
                found.add(item.id)
    return found


def lines_of(text: str) -> int:
    """Non-blank lines of the function, comments included."""
    return len([line for line in text[text.index("def ") :].splitlines() if line.strip()])


def statements_of(nodes: list[ast.FunctionDef]) -> int:
    return sum(isinstance(i, ast.stmt) for node in nodes for i in ast.walk(node)) - len(nodes)


def captured(name: str) -> set[str]:
    """The names that the user gave at module level."""
    tree = ast.parse((ROOT / CASES[name][0]).read_text(encoding="utf-8"))
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def measured(name: str) -> tuple[int, int, set[str], int]:
    """Lines generated, lines of the primal, names invented, statements of the primal."""
    text = (GOLDEN / f"{name}.py").read_text(encoding="utf-8")
    made, own = definitions(text), primal(name)
    source_lines = sum((n.end_lineno or 0) - n.lineno + 1 for n in own)
    derived = re.compile(r"(_bar|_dot|_saved|_lanes)+$|_\d+(?=_bar$|_saved$)")  # of a list, of calls
    given = stored_names(own) | captured(name) | {n.name for n in own}
    stems = {n: derived.sub("", derived.sub("", n)) for n in stored_names(made) - given}
    invented = {n for n, stem in stems.items() if stem not in given}
    return lines_of(text), source_lines, invented, statements_of(own)


def test_budget_of_all() -> None:
    """Four lines for one, one name for a statement; the table is for whoever wants to improve it."""
    rows = {name: measured(name) for name in CASES if name not in SECOND}
    for name, (lines, source_lines, invented, statements) in rows.items():
        print(
            f"{name:24} {lines:3} of {source_lines:2}  {len(invented):2} of {statements:2}",
            *invented,
        )
    lines, source_lines, invented, statements = (list(column) for column in zip(*rows.values()))
    assert sum(lines) <= 4 * sum(source_lines)
    assert sum(map(len, invented)) <= sum(statements)


@pytest.mark.parametrize("name", CASES)
def test_budget_of_each(name: str) -> None:
    """A short primal pays for the `def`, the phases and the return, a second derivative twice."""
    lines, source_lines, invented, statements = measured(name)
    factor = 2 if name in SECOND else 1
    assert lines <= factor * (4 * source_lines + 6)
    assert len(invented) <= factor * (statements + 3), sorted(invented)
    assert [n for n in invented if re.search(r"_?\d+$", n)] == []


@pytest.mark.parametrize("name", CASES)
def test_it_imports_numpy_alone(name: str) -> None:
    tree = ast.parse((GOLDEN / f"{name}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.ImportFrom)
        if isinstance(node, ast.Import):
            assert [alias.name for alias in node.names] == ["numpy"]


@pytest.mark.parametrize("name", CASES)
def test_it_means_the_same_printed_again(name: str) -> None:
    tree = ast.parse((GOLDEN / f"{name}.py").read_text(encoding="utf-8"))
    assert ast.dump(ast.parse(ast.unparse(tree))) == ast.dump(tree)


@pytest.mark.parametrize("name", CASES)
def test_comments_quote_the_user(name: str) -> None:
    """A comment is a phase, a word on a copy, or a line of the user's file."""
    text = (GOLDEN / f"{name}.py").read_text(encoding="utf-8")
    user = "".join((ROOT / CASES[name][0]).read_text(encoding="utf-8").split())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            said = token.string.lstrip("# ")
            allowed = said in ("forward", "first derivative", "reverse") or said.startswith("the argument is kept")
            allowed |= said in (*REMARKS, *RULES) or re.fullmatch(r"\([\w, ]*\) -> \([\w, ]*\)", said) is not None
            said = re.sub(r"^(derivative of: )?(\w+: )?", "", said)  # of which function, if it is not the transformed one
            assert allowed or "".join(said.split()) in user, said


def test_ruff_finds_nothing() -> None:
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "100"]
    command += ["--select", "E,F,W,I,B", "--ignore", "E741,E501,I001", "--no-cache", str(GOLDEN)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
