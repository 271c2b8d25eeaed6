"""``import calque`` loads few modules; the others are imported when they are first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
# Each module costs a fifth of a millisecond of processor time: 382 of them are 0.14 s beyond NumPy's.
MOST_MODULES = 400


def run(program: str, *args: str) -> str:
    """Return what a program prints in a process of its own."""
    command = [sys.executable, "-c", program, *args]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


COUNT = """
import sys, calque
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "calque"))
"""


def test_import_calque_loads_few_modules() -> None:
    found = run(COUNT).split()
    assert len(found) <= MOST_MODULES, (
        f"import calque loads {len(found)} modules: what serves few programs stands behind a "
        "calque.transpiler.late.Late, or in the table of names of calque/__init__.py"
    )


GRADIENT = """
import sys, linecache
text = "import numpy as np\\ndef f(x):\\n    return np.sum(np.sin(x) * x)\\n"
linecache.cache["f.py"] = (len(text), None, text.splitlines(True), "f.py")
space = {}
exec(compile(text, "f.py", "exec"), space)
import calque
before = set(sys.modules)
calque.grad(space["f"])(space["np"].arange(3.0))
print(*sorted(name for name in set(sys.modules) - before if "generated" not in name))
"""


def test_a_first_gradient_loads_nothing_more() -> None:
    found = [name for name in run(GRADIENT).split() if name.split(".")[0] in ("calque", "numba")]
    assert not found


EVERY_NAME = """
import sys, types, calque
first = [name for name in calque.__all__ if name not in vars(calque)]
assert first and dir(calque) == sorted(calque.__all__)
for name in calque.__all__:
    value = getattr(calque, name)
    assert vars(calque)[name] is value, name
try:
    calque.no_such_name
except AttributeError as error:
    print(error)
"""


def test_every_public_name_is_there() -> None:
    assert run(EVERY_NAME) == "module 'calque' has no attribute 'no_such_name'"


def test_the_module_of_random_numbers() -> None:
    run("from calque.random import key; import calque; assert key is calque.random.key")
    run("import calque.random; calque.random.key(0)")
    run("import calque.random as r; r.key(0)")
    run("import importlib; importlib.import_module('calque.random').key(0)")


def guarded(tree: ast.Module) -> tuple[dict[str, str], list[ast.stmt]]:
    """The imports under TYPE_CHECKING, each name with its module, and the other arm."""
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            imported = {
                alias.asname or alias.name: f"{s.module}.{alias.name}"
                for s in node.body
                if isinstance(s, ast.ImportFrom)
                for alias in s.names
            }
            plain = {
                a.name: a.name for s in node.body if isinstance(s, ast.Import) for a in s.names
            }
            return imported | plain, node.orelse
    return {}, []


def late_names() -> dict[str, str]:
    """The public names that are imported late, each with its module and name there."""
    table = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    (assigned, *_) = guarded(table)[1]
    assert isinstance(assigned, ast.Assign)
    homes = ast.literal_eval(assigned.value)
    return {name: f"{home}.{name}" for home, names in homes.items() for name in names.split()}


@pytest.mark.parametrize(
    "home", sorted({place.rpartition(".")[0] for place in late_names().values()})
)
def test_a_name_is_imported_by_itself(home: str) -> None:
    """``from calque import name`` needs no other import before it."""
    names = [name for name, place in late_names().items() if place.rpartition(".")[0] == home]
    run(f"from calque import {', '.join(names)}")


def test_type_checkers_see_the_names_that_are_imported_late() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    assert guarded(tree)[0] == late_names()


def test_type_checkers_see_the_modules_that_are_imported_late() -> None:
    files = [f for room in ("runtime", "transpiler") for f in (ROOT / room).rglob("*.py")]
    seen = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        if " = Late(" not in text or file.name == "late.py":
            continue
        imported, late = guarded(ast.parse(text))
        found = {ast.unparse(s.targets[0]): ast.literal_eval(s.value.args[0]) for s in late}  # type: ignore[attr-defined]
        assert found == imported, file
        assert text.count(" = Late(") == len(found), file
        seen += len(found)
    assert seen


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    program = f"import gc; gc.{'enable' if enabled else 'disable'}(); import calque; print(gc.isenabled())"
    assert run(program) == str(enabled)


# tables that imports fill

TABLES = """
import importlib
from dataclasses import fields

import calque
from calque.transpiler.frontend import calls
from calque.transpiler.ir import builder
from calque.transpiler.primitives import record

def state():
    named = {n: p for n, p in record.PRIMITIVES.items() if not n.startswith(("linalg.", "special."))}
    skipped = ("lowering",)  # which nothing but loops.array_lowering asks, and that fills it
    return {(n, f.name): getattr(p, f.name) for n, p in named.items() for f in fields(p) if f.name not in skipped}

def foreign():
    tables = (builder.FUNCTIONS, builder.METHODS, builder.ATTRIBUTES, builder.OPERATORS, calls.BUILTINS)
    keys = [key for table in tables for key in table]
    return {id(k): k for k in keys if not str(getattr(k, "__module__", "")).startswith("calque.")}

before, known = state(), foreign()
record.load_all()
for module in ("kernel_passes", "codegen.cuda.cuda_module"):
    importlib.import_module(f"calque.transpiler.{module}")
for module in ("scipy_twins", "random", "saving.reading", "check.checking", "devices.sharded", "custom_root"):
    importlib.import_module(f"calque.runtime.{module}")
after = state()
print([key for key, value in before.items() if after[key] is not value and after[key] != value])
print([k for i, k in foreign().items() if i not in known])
"""


def test_late_modules_change_no_record_and_declare_nothing_of_numpys() -> None:
    """NumPy's functions, and Python's, are known without the modules that are imported late."""
    assert run(TABLES).split("\n") == ["[]", "[]"]


# without Numba and optree

PROGRAM = """
import sys

sys.modules["numba"] = sys.modules["llvmlite"] = sys.modules["optree"] = None  # imports fail

import numpy as np
import calque
from calque.transpiler.errors import NumbaMissing


def loss(p, x):
    w, (b, scale) = p["w"], p["rest"]
    return scale * np.sum((x @ w + b) ** 2)


def wave(x):
    return np.sum(np.sin(x) * x)


p, x = {"w": np.ones(3), "rest": (1.0, 2.0)}, np.arange(6.0).reshape(2, 3)
gradient = calque.grad(loss)
assert gradient(p, x)["rest"] == (68.0, 185.0)
assert calque.hessian(loss)(p, x)["rest"][0]["rest"][1] == 34.0
assert calque.jvp(wave, (x,), (x,))[0] == wave(x)
np.testing.assert_allclose(calque.vmap(calque.grad(wave))(x), calque.grad(wave)(x))
assert calque.tree_map(lambda a: a + 1, {"a": [1, (2, None)]}) == {"a": [2, (3, None)]}
assert "x_sum_bar" in calque.source(gradient, p, x)
calque.save(gradient, sys.argv[1], p, x)
calque.check(calque.grad(wave), x)
try:
    calque.jit(wave)(x)
except NumbaMissing as error:
    assert isinstance(error, ImportError)
    print(error)
"""

SAVED = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("saved", sys.argv[1])
saved = importlib.util.module_from_spec(spec)
spec.loader.exec_module(saved)
p, x = {"w": np.ones(3), "rest": (1.0, 2.0)}, np.arange(6.0).reshape(2, 3)
assert saved.loss_grad(p, x)["rest"] == (68.0, 185.0)
assert not any(name.split(".")[0] in ("calque", "numba", "optree") for name in sys.modules)
"""


def test_numpy_source_needs_neither_numba_nor_optree(tmp_path: Path) -> None:
    program, saved = tmp_path / "program.py", tmp_path / "saved.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), str(saved)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0].startswith("jit compiles kernels with Numba, which cannot be")
    assert "Instead: pip install numba" in done.stdout
    run(SAVED, str(saved))
