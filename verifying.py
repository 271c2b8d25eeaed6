"""The work of `calque verify`: compare saved modules with what calque writes today.

Verification imports the program that a module was made from, which may do anything, even end Python
with success. So another process makes the texts again, and this one compares them: a text that does
not arrive has failed.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.runtime.call.progress import quiet_log
from calque.runtime.engines.choosing import ENGINES
from calque.runtime.saving.provenance import LOST
from calque.runtime.saving.reading import module_source
from calque.targets import UsageError, resolve
from calque.transpiler.errors import SpecError
from calque.transpiler.ir import debug

_AGAIN = (
    "import json, sys; job = json.load(sys.stdin); sys.path[:] = job['path']; "
    "from calque.verifying import make_again; make_again(job)"
)
_OPTIONS = {  # of the command in a header, and the values of those that are chosen
    "--transform": (),
    "--stage": ("numpy", "kernels"),
    "--engine": ENGINES,
    "--args": (),
}


@dataclass(frozen=True)
class FileVerdict:
    """The verdict on a file: all but the name is empty where it is up to date."""

    file: str
    difference: str = ""
    problem: str = ""
    code: int = 0


@dataclass(frozen=True)
class _Saved:
    """A saved module, and the parts of the command that is to make it again."""

    file: str
    text: str
    folder: str
    command: dict[str, str]


def verdicts(files: Sequence[str], given: Sequence[str]) -> list[FileVerdict]:
    """Each file by itself: one that cannot be verified fails, and hides nothing of the others."""
    found: list[FileVerdict | _Saved] = []
    for file in files:
        try:
            found.append(_saved(file, given))
        except UsageError as error:
            found.append(FileVerdict(file, problem=str(error), code=2))
    answers = iter(_made_again([one for one in found if isinstance(one, _Saved)]))
    return [one if isinstance(one, FileVerdict) else _compared(one, next(answers)) for one in found]


def _saved(file: str, given: Sequence[str]) -> _Saved:
    """A module and its command, which names a file that may be run."""
    try:
        text = Path(file).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    command = _command(provenance(text, file), file)
    source = command["target"].rpartition(":")[0]
    folder = os.getcwd() if os.path.isfile(source) else os.path.dirname(os.path.abspath(file))
    trusted = [*map(_checkout, (os.getcwd(), os.path.dirname(os.path.abspath(file)))), *given]
    place = os.path.realpath(os.path.join(folder, source))
    if not any(_is_within(place, root) for root in trusted):
        message = f"{file} names {source}, which is not in this checkout and would be run"
        raise UsageError(f"{message}; give it with --source, if you trust it")
    return _Saved(file, text, folder, command)


def saved_command(file: str) -> tuple[str, dict[str, str]]:
    """The folder in which a saved module's command runs, and the command's parts."""
    found = _saved(file, ())
    return found.folder, found.command


def _made_again(modules: Sequence[_Saved]) -> list[dict[str, Any]]:
    """The texts that other processes make of each command; where one ends early, a next goes on."""
    answers: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while len(answers) < len(modules):
            report = os.path.join(folder, f"from_{len(answers)}")
            left = [k for k in range(len(modules)) if k not in answers]
            asked = [[k, modules[k].folder, modules[k].command] for k in left]
            job = json.dumps({"path": sys.path, "report": report, "modules": asked})
            flags = ["-P", *(f"-W{option}" for option in sys.warnoptions)]
            done = subprocess.run([sys.executable, *flags, "-c", _AGAIN], input=job, text=True)
            answers |= _arrived(report)
            ended = next((k for k in left if k not in answers), None)
            if ended is not None:
                why = f"Python ended (exit status {done.returncode}) before its text was made"
                answers[ended] = {"problem": f"cannot be made again: {why}", "code": 1}
    return [answers[k] for k in range(len(modules))]


def _arrived(report: str) -> dict[int, dict[str, Any]]:
    answers = {}
    if os.path.exists(report):
        for line in Path(report).read_text(encoding="ascii").splitlines():
            with contextlib.suppress(ValueError):  # half a line
                number, answer = json.loads(line)
                answers[number] = answer
    return answers


def make_again(job: dict[str, Any]) -> None:
    """Run by the other process: an answer for each command, in a line of the report."""
    quiet_log()
    os.dup2(2, 1)  # what the programs print is none of the verdicts
    for number, folder, command in job["modules"]:
        answer = _answer(folder, command)
        with open(job["report"], "a", encoding="ascii") as out:
            out.write(json.dumps([number, answer]) + "\n")


def _answer(folder: str, command: dict[str, str]) -> dict[str, Any]:
    """The texts that a command writes and prints, or why there are none."""
    stage, engine = command.get("--stage"), command.get("--engine")
    try:
        with contextlib.chdir(folder):
            fn, args = resolve(command["target"], command.get("--transform"), command.get("--args"))
            written = module_source(fn, *args, stage=stage, engine=engine)
            printed = module_source(fn, *args, stage=stage, engine=engine, alone=False)
        return {"written": written, "printed": printed}
    except (UsageError, SpecError) as error:
        return {"problem": f"cannot be made again: {error}", "code": 2}
    except (Exception, SystemExit) as error:  # of the program that it was made from
        if debug.level():
            traceback.print_exc()
        told = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
        return {"problem": f"cannot be made again: {told}", "code": 1}


def _compared(module: _Saved, answer: dict[str, Any]) -> FileVerdict:
    """A saved module against what its own command writes today, as a unified diff."""
    file = module.file
    if "problem" in answer:
        return FileVerdict(file, problem=f"{file} {answer['problem']}", code=answer["code"])
    if module.text == answer["printed"]:  # kept as it was shown: what kernels call is imported
        return FileVerdict(file)
    names = (file, f"{file} (regenerated)")
    lines = (module.text.splitlines(True), answer["written"].splitlines(True))
    difference = list(difflib.unified_diff(*lines, *names))
    text = "".join(line if line.endswith("\n") else line + "\n" for line in difference)
    return FileVerdict(file, difference=text, code=int(bool(text)))


def _checkout(folder: str) -> str:
    """The root of the checkout that holds a folder; the folder itself where none does."""
    path = Path(os.path.realpath(folder))
    return str(next((p for p in (path, *path.parents) if (p / ".git").exists()), path))


def _is_within(place: str, root: str) -> bool:
    root = os.path.realpath(root)
    return place == root or place.startswith(root.rstrip(os.sep) + os.sep)


def _command(words: list[str], file: str) -> dict[str, str]:
    """The parts of a header's command: a function and its types, and nothing else.

    >>> _command(["show", "model.py:f", "--args", "float"], "saved.py")
    {'target': 'model.py:f', '--args': 'float'}
    """
    names, values = words[2::2], words[3::2]
    plain = len(words) % 2 == 0 and len(set(names)) == len(names)
    if not plain or words[1].startswith("-") or not _OPTIONS.keys() >= {*names}:
        raise UsageError(f"{file} has a header that calque does not write: {shlex.join(words)}")
    for name, value in zip(names, values):
        if _OPTIONS[name] and value not in _OPTIONS[name]:
            raise UsageError(f"{file} has a header that makes no module: {name} {value}")
        if name == "--args" and value.strip().startswith("@"):
            raise UsageError(f"{file} has a header that reads another file: {name} {value}")
    return {"target": words[1], **dict(zip(names, values))}


def provenance(text: str, file: str = "the module") -> list[str]:
    """The arguments of the `calque` command in the header of a saved module.

    >>> provenance('"Gradient. Regenerate with" ')
    Traceback (most recent call last):
    ...
    calque.targets.UsageError: the module has no header that says how calque wrote it
    """
    try:
        header = ast.get_docstring(ast.parse(text), clean=False) or ""
    except SyntaxError as error:
        raise UsageError(f"{file} is no Python: line {error.lineno}: {error.msg}") from None
    except ValueError:
        header = ""
    found = re.search(r"regenerate with\n((?:[ \t]+\S.*(?:\n|$))+)", header)
    words: list[str] = []
    if found:
        with contextlib.suppress(ValueError):
            words = shlex.split(found[1].replace("\\\n", " "))
    reason = header.partition(f"\n{LOST}")[2].partition("\nTypes: ")[0]
    if reason:
        why = " ".join(reason.split()).rstrip(".")
        raise UsageError(f"{file} cannot be made again by a command: {why}")
    if words[:2] != ["calque", "show"] or "-o" in words:
        raise UsageError(f"{file} has no header that says how calque wrote it")
    return words[1:]
