"""The same on every Python that setup.cfg names: no warning of ours, and the syntax that is new."""

from __future__ import annotations

import fractions
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError, SourceNotFound, UnsupportedSyntax

PROGRAM = '''
import sys
import numpy as np
import calque
from calque import cli


def loss(x: "f8[n]"):
    """First.

    Indented.
    """
    if x[0] < 0.0:
        raise ValueError(f"{x[0]:.3f} of {{{x.size}}} is below 0")
    parts = [v * k for k, v in enumerate([x, 2.0 * x])]
    return sum(np.sum(np.sin(part)) for part in parts)


x = np.arange(1.0, 4.0)
np.testing.assert_allclose(calque.grad(loss)(x), 2.0 * np.cos(2.0 * x))
np.testing.assert_allclose(calque.jit(calque.grad(loss))(x), 2.0 * np.cos(2.0 * x))
try:
    calque.jit(loss)(-x)
except ValueError as error:
    assert str(error) == "-1.000 of {3} is below 0", error
calque.save(calque.grad(loss), "saved.py", x)
command = ["program.py:loss", "--transform", "grad(f)"]
assert "def loss_grad" in calque.source(calque.grad(loss), x)
if __name__ == "__main__":
    for argv in (["show", *command], ["show", *command, "--stage", "kernels"], ["verify", "saved.py"]):
        assert cli.main(argv) == 0
    assert cli.main(["explain", "program.py:loss"]) == 0
'''


def test_the_import_warns_of_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import calque"], capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_first_uses_warn_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    run = [sys.executable, "-W", "error", "program.py"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


# Python 3.14 has these names no longer; 3.12 and 3.13 give them by a function, with a warning.
WITHOUT_OLD_NODES = """
import ast

for name in ("Num", "Str", "Bytes", "NameConstant", "Ellipsis"):
    vars(ast).pop(name, None)
vars(ast).pop("__getattr__", None)
assert not hasattr(ast, "Num") and not hasattr(ast, "Str")
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11's own ast.unparse needs them")
def test_nodes_that_new_pythons_lack_are_not_needed(tmp_path: Path) -> None:
    """Programs are read, printed and saved, with astor and gast, without such nodes."""
    program = PROGRAM.replace("import sys\n", f"import sys\n{WITHOUT_OLD_NODES}", 1)
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "is below 0" in done.stdout and "saved.py: up to date" in done.stdout


def load(path: Path) -> Any:
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


COMPREHENSIONS = """
import numpy as np


def loss(x, k=5.0):
    made = [x * k for k in range(3)]
    table = {k: [v * j for j in range(2)] for k, v in enumerate(made) if k}
    return sum(w for row in table.values() for w in row) * k + sum(x * c for c in {2.0})
"""


def test_comprehensions_are_compiled_into_their_function(tmp_path: Path, monkeypatch: Any) -> None:
    """Since 3.12: what runs is still told from another text of the file."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "comprehended.py"
    path.write_text(COMPREHENSIONS)
    assert calque.grad(load(path).loss)(1.0) == 17.0
    edits = (("j in range(2)", "j in range(3)"), ("x * c", "x + c"), ("v * j", "j * v"))
    for number, edit in enumerate(edits):
        path = tmp_path / f"edited_{number}.py"
        path.write_text(COMPREHENSIONS)
        module = load(path)
        path.write_text(COMPREHENSIONS.replace(*edit))
        with pytest.raises(SourceNotFound, match="has changed since|has another text"):
            calque.grad(module.loss)(1.0)


NESTED = """
def nested(x):
    if x < 0:
        raise ValueError(f"a {f'{x:.2f}'} {f'b {x!r}'!s}")
    return x * x


def padded(x):
    assert x > 0, f"{f'{x:.2f}':>9}"
    return x * x


def wide(x, n):
    assert x > 0, f"{x:{n}}"
    return x * x
"""


def test_texts_within_texts(tmp_path: Path) -> None:
    """Their run-time values are told as Python tells them, or asked for."""
    path = tmp_path / "nested_texts.py"
    path.write_text(NESTED)
    module = load(path)
    for fn, *given in ((module.nested, -2.0), (module.padded, -2.0), (module.wide, -2.0, 9)):
        with pytest.raises((ValueError, AssertionError)) as plain:
            fn(*given)
        try:
            calque.grad(fn)(*given)
        except CalqueError as refused:
            assert "nested_texts.py, line" in str(refused)
        except (ValueError, AssertionError) as error:
            assert str(error) == str(plain.value)
        else:
            raise AssertionError(f"{fn.__name__} did not raise")
    with pytest.raises(ValueError, match=r"^a -2.00 b -2.0$"):
        calque.grad(module.nested)(-2.0)


NEW = """
type Pair[T] = tuple[T, T]


def generic[T](x: T) -> T:
    def inner[U: (float, int)](y: U) -> U:
        return y * 3.0 * x
    return inner(x)


class Box[T]:
    def __init__(self, v: T):
        self.v = v

    def loss(self, x: T) -> T:
        return self.v * x * x


def boxed(x):
    return Box[float](3.0).loss(x)


def told(x):
    if x < 0:
        raise ValueError(f"{"below"} {f"{x:{">"}{9}.2f}"} {
            x!r}")
    return 3.0 * x * x


def aliased(x):
    type Local = float
    return x * x
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this syntax is new in Python 3.12")
def test_the_syntax_of_3_12(tmp_path: Path) -> None:
    path = tmp_path / "new_syntax.py"
    path.write_text(NEW)
    module = load(path)
    for name in ("generic", "boxed", "told"):
        assert calque.grad(getattr(module, name))(2.0) == 12.0, name
        assert calque.jit(getattr(module, name))(2.0) == 12.0, name
    with pytest.raises(ValueError) as caught:
        calque.grad(module.told)(-2.0)
    with pytest.raises(ValueError) as plain:
        module.told(-2.0)
    assert str(caught.value) == str(plain.value) == "below     -2.00 -2.0"
    with pytest.raises(UnsupportedSyntax) as refused:
        calque.grad(module.aliased)(2.0)
    assert "type Local = float" in str(refused.value)
    assert "Instead: write it outside the function" in str(refused.value)


FROZEN = """
import copy
import dataclasses


@dataclasses.dataclass(frozen=True)
class Pair:
    a: float
    b: float = 2.0


def replaced(x):
    pair = dataclasses.replace(Pair(x), b=x)
    return pair.a * pair.b


def copied(x):
    pair = copy.replace(Pair(x), b=x)
    return pair.a * pair.b
"""


def test_dataclasses_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "frozen.py"
    path.write_text(FROZEN)
    module = load(path)
    assert calque.grad(module.replaced)(2.0) == 4.0
    if sys.version_info >= (3, 13):
        assert calque.grad(module.copied)(2.0) == 4.0


def test_setup_names_the_pythons_that_the_readme_names() -> None:
    root = Path(calque.__file__).resolve().parent
    setup = (root / "setup.cfg").read_text()
    for minor in (11, 12, 13):
        assert f"Programming Language :: Python :: 3.{minor}\n" in setup
    assert "python_requires = >=3.11,<3.14" in setup
    assert "Python 3.11 to 3.13" in (root / "README.md").read_text()


def by_the_standard_library(x):
    return float(fractions.Fraction(x[0])) * x[0]


def test_the_users_line_where_the_standard_library_stops() -> None:
    with pytest.raises(CalqueError) as caught:
        calque.grad(by_the_standard_library)(np.ones(3))
    assert "test_pythons.py, line" in str(caught.value)
    assert "float(fractions.Fraction(x[0]))" in str(caught.value) and caught.value.hint


TWO, FIVE = lambda x: 2.0, lambda x: 5.0  # noqa: E731  (in one line: that is what is tested)
ZERO, NEGATIVE = lambda x: (x, 0.0), lambda x: (x, -0.0)  # noqa: E731  (the same)
CALLED, OTHER = lambda x: 2.0 * x, lambda x: 5.0 * x  # noqa: E731  (the same)


def test_lambdas_of_one_line_are_told_apart() -> None:
    """Python 3.12 notes no columns for one that gives a constant: the last of a line was taken."""
    for function in (TWO, FIVE, ZERO, NEGATIVE, CALLED, OTHER):
        found = calque.jit(function)(1.5)
        assert repr(found) == repr(function(1.5))
