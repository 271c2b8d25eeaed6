"""A function that is edited after its import is refused: what runs is not what it says."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError, ImpureFunction, SourceNotFound

BEFORE = "import numpy as np\n\n\ndef loss(x):\n    return np.sum(x * x * 0.5)\n"
EDITS = {
    "a number": BEFORE.replace("0.5", "9.5"),
    "an operator": BEFORE.replace("x * x", "x + x"),
    "a name": BEFORE.replace("np.sum", "np.max"),
    "a sign of zero": BEFORE.replace("0.5", "0.5 + -0.0"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_refused(edit: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"edited_{list(EDITS).index(edit)}"
    path = tmp_path / f"{name}.py"
    path.write_text(BEFORE)
    module = importlib.import_module(name)
    path.write_text(EDITS[edit])
    with pytest.raises(SourceNotFound, match="has changed since"):
        calque.grad(module.loss)(np.ones(2))


MOVED = {
    "a line before": "\n" + BEFORE,
    "another function before": BEFORE.replace("def loss", "def other(x):\n    return x\n\n\ndef loss"),
    "one of the same name before": BEFORE.replace(
        "def loss", "class Loss:\n    def loss(x):\n        return 2.0 * x\n\n\ndef loss"
    ),
    "the import elsewhere": BEFORE.replace("import numpy as np\n\n\n", "") + "import numpy as np\n",
}


@pytest.mark.parametrize("edit", MOVED)
def test_a_function_that_has_moved_is_the_same(edit: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "moved.py"
    written(path, BEFORE, 1e9)
    module = loaded(path)
    written(path, MOVED[edit], 1e9)
    np.testing.assert_array_equal(calque.grad(module.loss)(np.ones(2)), [1.0, 1.0])
    assert "# return np.sum(x * x * 0.5)" in calque.source(calque.grad(module.loss), np.ones(2))


def loaded(path: Path) -> Any:
    """A file as a module, by Python's own loader."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module  # dataclasses look for their module
    try:
        found.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


def written(path: Path, text: str, age: float) -> None:
    path.write_text(text)
    os.utime(path, (age, age))


MORE = {
    "a free name": (
        "def outer(p, q):\n    def loss(x):\n        return x * p + q * 0.0\n    return loss\n"
        "loss = outer(2.0, 3.0)\n",
        lambda text: text.replace("x * p + q", "x * q + p"),
    ),
    "lambdas of one line": (
        "loss, other = (lambda x: x * 2.0), (lambda x: x * 3.0)\n",
        lambda text: text.replace("2.0", "4.0").replace("3.0", "2.0").replace("4.0", "3.0"),
    ),
    "an inner function": (
        "def loss(x):\n    def inner(y):\n        return y * 2.0\n    return inner(x)\n",
        lambda text: text.replace("2.0", "3.0"),
    ),
    "what is called": (
        "def square(x):\n    return x * x\ndef loss(x):\n    return square(x)\n",
        lambda text: text.replace("x * x", "x + x"),
    ),
}


@pytest.mark.parametrize("kind", MORE)
def test_refused_whatever_the_age_of_the_file(kind: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Tools that copy and unpack files keep their times."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    text, edit = MORE[kind]
    path = tmp_path / "aged.py"
    written(path, text, 1e9)
    module = loaded(path)
    written(path, edit(text), 1e9)
    with pytest.raises(CalqueError, match="has another text"):
        calque.grad(module.loss)(1.0)


def test_two_files_of_equal_code(tmp_path: Path) -> None:
    text = "import numpy as np\n\n\ndef loss(x):  # {}\n    return np.random.randn() * x  # {}\n"
    for name in ("one", "two"):
        path = tmp_path / f"{name}.py"
        path.write_text(text.format(name, name))
        with pytest.raises(ImpureFunction) as caught:
            calque.grad(loaded(path).loss)(1.0)
        assert caught.value.origin.file == str(path)
        assert caught.value.origin.text.endswith(f"# {name}")


@pytest.mark.parametrize("line", [0, 1, 2])
def test_a_generated_init_is_never_another_one(line: int, tmp_path: Path) -> None:
    """Also where a generator gives a file's own name to what it compiles."""
    text = (
        "class Other:\n    def __init__(self, a):\n        self.a = 7.0 * a\n\n\n"
        "space = {'__loader__': __loader__}\n"
        f"text = {chr(10) * line + 'def __init__(self, a): self.a = 2.0 * a'!r}\n"
        "exec(compile(text, __file__, 'exec'), space)\n\n\n"
        "class Made:\n    __init__ = space['__init__']\n\n\n"
        "def loss(x):\n    return Made(x).a\n"
    )
    path = tmp_path / "generating.py"
    written(path, text, 1e9)
    try:
        assert calque.grad(loaded(path).loss)(3.0) == 2.0
    except CalqueError:
        pass  # refused


def test_the_compilers_flags(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nimport dataclasses\n\n\n@dataclasses.dataclass\n"
        "class Pair:\n    a: float\n    b: float = 2.0\n\n    def _product(self):\n"
        "        def inner(x: Missing) -> Missing:\n            y: Missing = x\n"
        "            return y in {1.0, 2.0}, self.a * self.b\n\n"
        "        return inner(3)[1]\n\n\ndef loss(x):\n    return Pair(x)._product()\n"
    )
    path = tmp_path / "flagged.py"
    written(path, text, 1e9)
    assert calque.grad(loaded(path).loss)(3.0) == 2.0


def test_what_did_not_change_is_taken(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = BEFORE + "\n\nclass Model:\n    c = 2.0\n\n    def loss(self, x):\n"
    text += "        def inner(y):\n            return y * self.c\n\n        return loss(inner(x))\n"
    (tmp_path / "written_now.py").write_text(text + "\n\nsquare = lambda x: x * x\n")
    module = importlib.import_module("written_now")
    np.testing.assert_array_equal(calque.grad(module.loss)(np.ones(2)), [1.0, 1.0])
    np.testing.assert_array_equal(calque.grad(module.Model().loss)(np.ones(2)), [4.0, 4.0])
    assert calque.grad(module.square)(3.0) == 6.0
    with open(tmp_path / "written_now.py", "a") as file:
        file.write("\n# a comment at the end changes nothing\n")
    np.testing.assert_array_equal(calque.grad(module.Model().loss)(np.ones(3)), [4.0, 4.0, 4.0])
