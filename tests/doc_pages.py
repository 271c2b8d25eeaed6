"""Runs the code of pages, as ``python tests/doc_pages.py docs/jit.md``, and compares what it prints.

The Python of a page is one program: a block sees the names of those before it. What a block prints
stands in an ``output`` block behind it, where ``...`` stands for anything. A block marked
``python refused`` ends with an error of calque, whose message is the ``output`` behind it; the class of
the error may stand in the mark, too: ``python refused ShapeError``. A block marked with the name of a
file is that file, which later blocks import, and which ``console`` blocks find: these run the commands
behind ``$``. Blocks with another mark (``python torch``) are for other tests. ``--write`` lets the page
say what its code prints.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from calque.transpiler.errors import CalqueError

BLOCK = re.compile(r"^ *(`{3,})(\{?[\w-]*\}?)([^\n]*)\n(.*?)^ *\1$", re.M | re.S)


class Block(NamedTuple):
    """A fence of a page: its language, its mark, its text, and where the fence ends."""

    kind: str
    mark: str
    text: str
    end: int


def blocks(text: str) -> list[Block]:
    """Return the fences of a page, in order.

    >>> blocks("```python refused\\nf(1)\\n```\\n")
    [Block(kind='python', mark='refused', text='f(1)\\n', end=26)]
    """
    return [Block(m[2], m[3].strip(), m[4], m.end()) for m in BLOCK.finditer(text)]


def runs(block: Block) -> bool:
    """Return True if a block is run: Python of the page, or commands of the shell."""
    of_page = not block.mark or block.mark.split()[0] == "refused" or block.mark.endswith(".py")
    return block.kind == "console" or (block.kind == "python" and of_page)


def program(text: str) -> list[tuple[Block, Block | None]]:
    """Return the blocks of a page that run, each with the block of what it must print, if one follows."""
    found = blocks(text)
    pairs = zip(found, [*found[1:], None])
    return [
        (b, after if after and after.kind == "output" and b.kind == "python" else None)
        for b, after in pairs
        if runs(b)
    ]


def printed_by(block: Block, module: ModuleType, folder: Path) -> str:
    """Run one block in a file of its own, and return what it prints, or the message of its error."""
    folder.mkdir()
    path = folder / "model.py"
    path.write_text(block.text, encoding="utf-8")
    module.__file__ = str(path)
    printed = io.StringIO()
    refusal = None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(block.text, str(path), "exec"), vars(module))
        except CalqueError as error:
            wanted = block.mark.split()
            if not wanted or wanted[1:] not in ([], [type(error).__name__]):
                raise
            refusal = re.sub(r"[^\s`]*/model\.py", "model.py", str(error)) + "\n"
    if block.mark.startswith("refused") and refusal is None:
        raise AssertionError(f"the page says that this is refused:\n{block.text}")
    text = (printed.getvalue() + (refusal or "")).rstrip()
    return text and text + "\n"


def shown_by_commands(text: str) -> str:
    """Run the commands of a console block, and return them with what they print."""
    shown = []
    for command in re.findall(r"^\$ (.*)$", text, re.M):
        own = re.sub(r"^calque\b", f"{sys.executable} -m calque", command)
        merged = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        printed = subprocess.run(own, shell=True, text=True, **merged).stdout.rstrip()
        shown.append(f"$ {command}\n{printed}".rstrip() + "\n")
    return "".join(shown)


def corrected(text: str, folder: Path) -> str:
    """Run the blocks of a page in a folder, and return the page with what they print today."""
    module = sys.modules["model"] = ModuleType("model")
    sys.path.insert(0, str(folder))
    checker = doctest.OutputChecker()
    parts, start = [], 0
    for number, (block, shown) in enumerate(program(text)):
        if block.kind == "console":
            expected, got = block.text, shown_by_commands(block.text)
            corrected_end = text[start : block.end].removesuffix(f"{expected}```") + f"{got}```"
        elif block.mark.endswith(".py"):
            (folder / block.mark).write_text(block.text, encoding="utf-8")
            continue
        else:
            expected, got = (
                shown.text if shown else "",
                printed_by(block, module, folder / str(number)),
            )
            corrected_end = f"{text[start : block.end]}\n\n```output\n{got}```"
        if not checker.check_output(expected, got, doctest.ELLIPSIS):
            parts.append(corrected_end)
            start = (shown or block).end
    return "".join(parts) + text[start:]


def main(page: Path, write: bool) -> str:
    """Compare a page with what its code prints, or let the page say that; return the difference."""
    page = page.resolve()
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        right = corrected(text, Path(scratch))
    if write:
        page.write_text(right, encoding="utf-8")
        return ""
    lines = [each.splitlines(keepends=True) for each in (text, right)]
    return "".join(difflib.unified_diff(*lines, page.name, "what its code prints"))


def in_a_process_of_its_own(page: Path, write: bool) -> bool:
    """Run ``main`` in a fork, which has imported calque already; return True if the page is right."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    wrong = True
    try:
        difference = main(page, write)
        wrong = bool(difference)
        print(difference, end="", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(wrong)


if __name__ == "__main__":
    pages = [Path(name) for name in sys.argv[1:] if name != "--write"]
    sys.exit(any([not in_a_process_of_its_own(page, "--write" in sys.argv) for page in pages]))
