"""Writes docs/how-it-works.md: ``python tests/how_it_works.py`` from the root of the checkout.

The programs of the page are what calque makes of ``energy`` today, its map of folders is made from
the docstrings; the text between them stands in ``how_it_works.md`` beside this file.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
import runpy
from pathlib import Path

import numpy as np
from test_layers import LAYERS

import calque
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.codegen.numpy.emit import outlined
from calque.transpiler.ir.text import show

ROOT = Path(calque.__file__).resolve().parent
PAGE = ROOT / "docs" / "how-it-works.md"
TEXT = Path(__file__).with_suffix(".md")
ROOMS = ("transpiler", "runtime")


def energy(x, k):
    y = np.tanh(x)
    s = 0.0
    for i in range(1, x.size):
        s += k * (y[i] - y[i - 1]) ** 2
    return s


def stops() -> dict[str, str]:
    """The programs of the page, by the name that the text has for them."""
    gradient, args = calque.grad(energy), (calque.spec("f8[n]"), 2.0)
    return {
        "program": fenced("python", "import numpy as np\n\n\n" + inspect.getsource(energy)),
        "core": fenced("text", calque.source(energy, *args, stage="core")),
        "adjoint": fenced("text", calque.source(gradient, *args, stage="core")),
        "numpy": fenced("python generated", calque.source(gradient, *args)),
        "loops": fenced("text", show(outlined(calque.jit(gradient).program(*args).traced.function, NUMBA))),
        "kernels": fenced("python generated", calque.source(calque.jit(gradient), *args)),
        "passes": ", ".join(f"`{name}`" for name in passes()),
        "map": "\n\n".join(room(folder) for folder in folders()),
    }


def fenced(kind: str, text: str) -> str:
    return f"```{kind}\n{text.rstrip()}\n```"


def passes() -> list[str]:
    """The names of the passes that change the program, in order, by ``CALQUE_DEBUG=2``."""
    anew = runpy.run_path(__file__)["energy"]  # for which nothing has been made yet
    told, before = io.StringIO(), os.environ.get("CALQUE_DEBUG")
    os.environ["CALQUE_DEBUG"] = "2"
    try:
        with contextlib.redirect_stderr(told):
            calque.source(calque.jit(calque.grad(anew)), calque.spec("f8[n]"), 2.0)
    finally:
        os.environ.pop("CALQUE_DEBUG")
        os.environ |= {} if before is None else {"CALQUE_DEBUG": before}
    return list(dict.fromkeys(re.findall(r"^--- \w+ before (\w+)$", told.getvalue(), re.M)))


def folders() -> list[Path]:
    """The folders of the package in the order of imports, each before those within it."""
    found = [p.parent for name in ROOMS for p in sorted((ROOT / name).rglob("__init__.py"))]
    order = {name: number for number, name in enumerate(LAYERS)}

    def place(folder: Path) -> tuple[int, int, tuple[str, ...]]:
        parts = folder.relative_to(ROOT).parts
        outer = next((order[r] for r in (".".join(parts[:2]),) if r in order), -1)
        return ROOMS.index(parts[0]), outer, parts

    return sorted(found, key=place)


def room(folder: Path) -> str:
    """The heading of a folder, its paragraph, and a line for each of its files."""
    first, *more = said(folder / "__init__.py").split("\n\n")
    about = [p for p in more if p.startswith("In come") or "Read ``" in p]
    lines = [f"### {folder.relative_to(ROOT).as_posix()}", "", marked(" ".join([first, *about]))]
    files = sorted(p for p in folder.glob("*.py") if p.name != "__init__.py")
    lines += [""] * bool(files)
    lines += [f"- `{p.name}`: {marked(said(p).split(chr(10) * 2)[0])}" for p in files]
    return "\n".join(lines)


def said(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def marked(text: str) -> str:
    """A docstring's words in one line, with its code as a page has it; examples are left out."""
    text = re.split(r":?:\n|\n>>>", text)[0]
    return re.sub(r"``(.+?)``", r"`\1`", " ".join(text.split()))


def page() -> str:
    """The whole page."""
    text = TEXT.read_text(encoding="utf-8")
    made = stops()
    assert set(re.findall(r"^\{(\w+)\}$", text, re.M)) | {"passes"} == set(made)
    return re.sub(r"\{(\w+)\}", lambda found: made.get(found[1], found[0]), text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
