"""Tracebacks name the user's files alone, and messages the user's calls on the way to an error."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import calque
from calque.transpiler.errors import ShapeError

ROOT = Path(calque.__file__).resolve().parent

PROGRAM = """
import sys
import numpy as np
import calque


def inner(x):
    return np.sum(x * np.random.randn(3))


def middle(x):
    return 2.0 * inner(x)


def outer(x):
    y = middle(x)
    return y


def outside(x):
    total = 0.0
    for k in range(len(x)):
        total = total + x[k + 5]
    return total


def positive(x):
    if x[0] > 0:
        raise ValueError("positive")
    return np.sum(x)


def check_positive(x):
    return positive(x * 1.0)


class Model:
    @calque.grad
    def loss(self, x):
        return inner(x)


def main(what):
    x = np.ones(3)
    return {
        "grad": lambda: calque.grad(outer)(x),
        "jit": lambda: calque.jit(outer)(x),
        "vjp": lambda: calque.vjp(outer)(x, 1.0),
        "jvp": lambda: calque.jvp(outer, (x,), (x,)),
        "vmap": lambda: calque.vmap(outer)(np.ones((2, 3))),
        "keywords": lambda: calque.jit(outer)(x=x),
        "source": lambda: calque.source(outer, x),
        "save": lambda: calque.save(outer, "saved.py", x),
        "explain": lambda: calque.explain(calque.grad(outer), x),
        "check": lambda: calque.check(outer, x),
        "method": lambda: Model().loss(x),
        "pmap": lambda: calque.pmap(outer)(np.ones((1, 3))),
        "cotangent": lambda: calque.vjp(lambda x: x * 2.0, x)[1]("no array"),
        "generated": lambda: calque.value_and_grad(outside)(x),
        "raised": lambda: calque.jit(check_positive)(x),
    }[what]()


main(sys.argv[1])
"""
CALLS = ("grad", "jit", "vjp", "jvp", "vmap", "keywords", "source", "save", "explain", "check", "method", "pmap")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("users") / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    return file


def told(program: Path, what: str, level: str = "") -> str:
    """Run a program that ends with an error; return the traceback that Python prints."""
    environment = {**os.environ, "CALQUE_DEBUG": level}
    command = [sys.executable, str(program), what]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=program.parent)
    assert done.returncode == 1, done.stdout
    return done.stderr


def own_files(text: str) -> list[str]:
    """The files of calque's in a traceback."""
    found = re.findall(r'File "([^"]*)"', text)
    return [f for f in found if f.startswith((str(ROOT / "runtime"), str(ROOT / "transpiler")))]


@pytest.fixture(scope="module")
def all_told(program: Path) -> dict[str, str]:
    """The tracebacks of all calls, from one process: each is as it would be printed."""
    script = (
        "import sys, json, traceback\n"
        f"text = open({str(program)!r}).read().replace('main(sys.argv[1])', '')\n"
        f"names = {{'__name__': 'program'}}; exec(compile(text, {str(program)!r}, 'exec'), names)\n"
        "found = {}\n"
        f"for what in {CALLS!r} + ('cotangent', 'generated', 'raised'):\n"
        "    try: names['main'](what)\n"
        "    except Exception: found[what] = traceback.format_exc()\n"
        "print(json.dumps(found))\n"
    )
    file = program.parent / "all.py"
    file.write_text(script, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "CALQUE_DEBUG"}
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env=environment, cwd=program.parent)
    assert done.returncode == 0, done.stderr
    import json

    return json.loads(done.stdout)


@pytest.mark.parametrize("what", [*CALLS, "cotangent", "generated", "raised"])
def test_no_frame_of_calque_is_shown(all_told: dict[str, str], what: str) -> None:
    assert own_files(all_told[what]) == [], all_told[what]
    assert "program.py" in all_told[what]
    assert "During handling" not in all_told[what]


@pytest.mark.parametrize("what", [c for c in CALLS if c != "pmap"])
def test_a_refusal_ends_with_the_chain_of_calls(all_told: dict[str, str], what: str) -> None:
    *before, last = all_told[what].splitlines()
    assert re.fullmatch(r"more: calque help \w+", last)
    lines = [line for line in before if line.startswith("Called from")]
    if what == "method":
        assert len(lines) == 1 and "in loss: return inner(x)" in lines[0]
        return
    assert before[-2:] == lines
    assert lines[0].endswith("line 12, in middle: return 2.0 * inner(x)")
    assert lines[1].endswith("line 16, in outer: y = middle(x)")


def test_length_of_a_traceback(program: Path) -> None:
    text = told(program, "grad")
    assert own_files(text) == []
    assert len(text.splitlines()) <= 18, text
    assert "UnsupportedFunction" in text or "ImpureFunction" in text
    shown = told(program, "grad", "1")
    assert len(own_files(shown)) > 10 and "Called from" in shown


def test_errors_of_python_tell_the_calls_too() -> None:
    def one(x, n):
        return x * (1 / n)

    def two(x):
        return one(x, int("0"))

    with pytest.raises(ZeroDivisionError) as caught:
        calque.jit(two)(1.0)
    where, call = caught.value.__notes__
    assert "in one" in where and call.startswith("Called from") and "in two: return one(x" in call


def test_errors_keep_their_class_and_travel() -> None:
    def one(x):
        return x @ np.ones((4, 4))

    def two(x):
        return np.sum(one(x))

    with pytest.raises(ShapeError, match="Called from") as caught:
        calque.grad(two)(np.ones(3))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files == [__file__]


def test_one_call_is_no_chain() -> None:
    def one(x):
        return np.sum(x @ np.ones((4, 4)))

    with pytest.raises(ShapeError) as caught:
        calque.grad(one)(np.ones(3))
    assert "Called from" not in str(caught.value)


def test_long_chains_are_cut() -> None:
    def down(x, n):
        return np.sum(x @ np.ones((4, 4))) if n == 0 else down(x, n - 1)

    with pytest.raises(ShapeError) as caught:
        calque.grad(lambda x: down(x, 20))(np.ones(3))
    assert str(caught.value).count("Called from") == 8
    assert str(caught.value).endswith("and 13 calls more")


def test_frames_stay_under_debug(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("CALQUE_DEBUG", "1")
    with pytest.raises(calque.transpiler.errors.CalqueError) as caught:
        calque.jit(lambda x: x @ np.ones((4, 4)))(np.ones(3))
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(file.startswith(str(ROOT / "transpiler")) for file in files)


def test_a_defect_of_calque_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calque.transpiler.pipeline, "to_core", None)  # "NoneType is not callable"
    with pytest.raises(TypeError) as caught:
        calque.jit(lambda x: x * 2.0)(1.0)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files[-1].endswith("dispatch.py")


# an index that a kernel refuses


def one_index(x, k):
    s = 0.0
    for i in range(x.size):
        s = s + x[k[i]] ** 2
        s = s * x[i]
    return s


def two_indices(x, k):
    s = 0.0
    for i in range(x.size):
        s = s + x[k[i]] ** 2
        s = s * x[k[i] - 1]
    return s


@pytest.mark.parametrize(("fn", "offsets"), [(one_index, [3]), (two_indices, [3, 4])])
@pytest.mark.parametrize("transform", [calque.jit, lambda f: calque.jit(calque.grad(f))])
def test_an_index_that_a_kernel_refuses_has_the_lines_that_index(fn, offsets, transform) -> None:
    start = fn.__code__.co_firstlineno
    with pytest.raises(IndexError, match="index is out of bounds") as caught:
        transform(fn)(np.ones(3), np.array([0, 1, 7]))
    (note,) = caught.value.__notes__
    assert note.endswith("a call without jit shows the index and its line.")
    if len(offsets) == 1:
        assert f"line {start + offsets[0]}, in one_index\n    s = s + x[k[i]] ** 2\n        ^^^^^" in note
    else:
        assert f"test_tracebacks.py: {', '.join(str(start + k) for k in offsets)}\n" in note
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 3"):
        fn(np.ones(3), np.array([0, 1, 7]))
