"""Names say what a thing is, in the field's words: passes, first lines of docstrings, iterations."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import calque
from calque.transpiler import kernel_passes, passes
from calque.transpiler.autodiff import reverse
from calque.transpiler.ir.old_pass_names import OLD_NAMES
from calque.transpiler.ir.pass_manager import Pass
from calque.transpiler.late import Late

ROOT = Path(calque.__file__).resolve().parent
FOLDERS = ("runtime", "transpiler", "tests", "benchmarks", "examples")
HOMES_OF_LISTS = (passes.__name__, kernel_passes.__name__)
LISTS = (passes.CORE_PASSES, passes.CHECKED, kernel_passes.KERNEL_PASSES)
PASSES = {p.name: p for each in (*LISTS, reverse.BEFORE_SWEEP, reverse.AFTER_SWEEP) for p in each}

# "round" as a number is rounded, a trip is made, or a hash is computed
ROUNDING = re.compile(
    r"\bround\(|\.round\b|\bround\]|[\"'`(]round[\"'`),]|\bround_(?!\w)|\b__round__\b|\bround trips?\b"
    r"|\btest_builtin_round\b|\b(?:// rounds|rounds? (?:up|down|to|once|in other ways)|rounds the|LAPACK rounds)\b|\b(?:python|np|builtin)_round\b|\b_round_text\b|\bdef _round\("
    r"|\bROUND(?:_TO_8)?\b|\bthreefry_rounds\b|\bgpu_round_trips\b|\b// rounds\b|\{round\}|^\s+round,$"
)
WORD = re.compile(r"(?<![a-z])rounds?(?![a-z])|(?<![A-Z])Rounds?(?![a-z])|(?<![A-Z])ROUNDS?(?![A-Z])")
# Files in which "round" may be an iteration, or what else it is there
ROUNDS_STAY = {
    "transpiler/ir/old_pass_names.py": "aliases until the next release",
    "tests/test_names.py": "this file",
    "transpiler/prng/threefry.py": "the rounds of Threefry",
    "runtime/vecmath/random_numbers.py": "the rounds of Threefry",
    "transpiler/prng/normals.py": "rounding",
    "tests/battery": "users' programs, whose generated text is compared",
    "tests/compositions": "users' programs, whose generated text is compared",
    "tests/lane_programs.py": "users' programs, whose generated text is compared",
    "tests/random_whiles.py": "users' programs, whose generated text is compared",
    "benchmarks/programs": "users' programs, whose generated text is compared",
    "examples": "users' programs, which golden files hold",
}


@functools.cache
def texts() -> dict[str, str]:
    """The text of every file, by its path from the root; golden files are generated."""
    files = [*ROOT.glob("*.py"), *(f for folder in FOLDERS for f in (ROOT / folder).rglob("*.py"))]
    found = {f.relative_to(ROOT).as_posix(): f.read_text(encoding="utf-8") for f in files}
    return {name: text for name, text in found.items() if not name.startswith("tests/golden")}


def functions_of(each: Pass) -> Iterator[tuple[str, str]]:
    """The functions of other files that a pass calls, each with the name of its file."""
    known = {**vars(reverse), **vars(passes), **vars(kernel_passes)}
    names = each.run.__code__.co_names
    stand_ins = [known[name] for name in names if isinstance(known.get(name), Late)]
    late = [vars(importlib.import_module(module.__name__)) for module in stand_ins]
    for name in names:
        found = [known.get(name), *(module.get(name) for module in late)]
        for function in filter(callable, found):
            module = getattr(function, "__module__", "")
            if module.startswith("calque.") and module not in HOMES_OF_LISTS:
                yield name, module.rpartition(".")[2]


def share_a_word(left: str, right: str) -> bool:
    """Return True if a word of one begins as a word of the other does: "hoist" and "hoisted"."""
    pairs = [(a, b) for a in left.split("_") for b in right.split("_") if min(len(a), len(b)) >= 3]
    return any(a[: min(4, len(a), len(b))] == b[: min(4, len(a), len(b))] for a, b in pairs)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_is_named_like_its_function_and_its_file(name: str) -> None:
    files = dict(functions_of(PASSES[name]))
    assert name in files, f"the pass {name} calls {', '.join(files)}"
    assert share_a_word(name, files[name]), f"{name} shares no word with {files[name]}.py"


def test_old_names_of_passes_are_aliases() -> None:
    assert set(OLD_NAMES.values()) <= PASSES.keys()
    assert not OLD_NAMES.keys() & PASSES.keys()


def test_a_program_is_printed_after_a_pass_by_its_old_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = next((o, n) for o, n in OLD_NAMES.items() if n == "lower_to_loops")
    monkeypatch.setenv("CALQUE_PRINT_AFTER", old)
    calque.source(calque.jit(calque.grad(lambda x: np.sum(x * x))), np.ones(3))
    assert f"# after {new}\n" in capsys.readouterr().err


def test_docstrings_begin_with_what_a_thing_does_or_is() -> None:
    word = re.compile(r"\"\"\"\s*(?:Whether|What|How|Where|Which)\b")
    found = []
    for file, text in texts().items():
        if word.search(text):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                    docstring = ast.get_docstring(node) or ""
                    if word.match(f'"""{docstring}'):
                        found.append(f"{file}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}")
    assert not found, "\n".join([f"{len(found)} docstrings", *found[:20]])


def test_a_round_is_no_iteration() -> None:
    found = []
    for file, text in texts().items():
        if not any(file == kept or file.startswith(f"{kept}/") for kept in ROUNDS_STAY):
            for number, line in enumerate(text.splitlines(), 1):
                if WORD.search(line) and WORD.search(ROUNDING.sub("", line)):
                    found.append(f"{file}:{number}: {line.strip()}")
    assert not found, "\n".join([f"{len(found)} lines", *found[:20]])
