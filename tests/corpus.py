"""All text that calque generates for a corpus of programs: written to a folder, or two compared.

    python tests/corpus.py write FOLDER [--only PATTERN] [--every N]
    python tests/corpus.py compare FOLDER FOLDER

One file for each program and what is done to it: its value, gradient, jvp and vmap as NumPy source,
and the kernels of value and gradient. What is refused is a file with the refusal. A change that only
moves code leaves every byte as it was: write once before it and once after it, and compare. The
programs are those of this checkout, the calque is the one that is imported.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import corpus_programs

PROCESSES = 2
SHOWN_LINES = 12
TOGETHER = 8  # programs that a process takes at once


def written(names: list[str], folder: str) -> int:
    """Write the files of these programs; how many there are."""
    programs = corpus_programs.programs()
    count = 0
    for name in names:
        for what, make in programs[name]().items():
            path = Path(folder, name, f"{what}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made(make), encoding="utf-8")
            count += 1
    return count


def made(make: Callable[[], str]) -> str:
    """The generated text, or the refusal."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return make()
    except Exception as error:
        said = getattr(error, "message", "") or next(iter(str(error).splitlines()), "")
        said = re.sub("0x[0-9a-f]+", "0x...", str(said)).replace(str(corpus_programs.ROOT), "")
        return f"# {type(error).__name__}: {said}\n"


def write(folder: str, only: str, every: int) -> int:
    """Write the corpus, in two processes."""
    names = [name for name in corpus_programs.programs() if re.search(only, name)][::every]
    parts = [names[k : k + TOGETHER] for k in range(0, len(names), TOGETHER)]
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        count = sum(pool.map(written, parts, [folder] * len(parts)))
    print(f"{count} texts of {len(names)} programs")
    return 0 if names else 1


def differences(left: Path, right: Path) -> Iterator[str]:
    """Each file that differs, with the first lines of how."""
    files = {p.relative_to(root) for root in (left, right) for p in root.rglob("*.py")}
    for file in sorted(files):
        sides = [(root / file) for root in (left, right)]
        missing = [side for side in sides if not side.exists()]
        if missing:
            yield f"{file}: not in {missing[0].parents[len(file.parts) - 1]}"
            continue
        texts = [side.read_text(encoding="utf-8") for side in sides]
        if texts[0] != texts[1]:
            lines = (text.splitlines() for text in texts)
            changes = [*difflib.unified_diff(*lines, *map(str, sides), n=1, lineterm="")]
            more = f"... {len(changes) - SHOWN_LINES} more lines"
            yield "\n".join([*changes[:SHOWN_LINES], *[more] * (len(changes) > SHOWN_LINES)])


def compare(left: str, right: str) -> int:
    """Print what differs; 1 if anything does."""
    found = list(differences(Path(left), Path(right)))
    for text in found:
        print(text)
    print(f"{len(found)} texts differ")
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write the generated text of the corpus")
    writing.add_argument("folder")
    writing.add_argument("--only", default="", help="a regular expression of program names")
    writing.add_argument("--every", type=int, default=1, help="of these, each how-manieth")
    comparing = commands.add_parser("compare", help="compare two folders, byte for byte")
    comparing.add_argument("left")
    comparing.add_argument("right")
    given = parser.parse_args()
    if given.command == "compare":
        return compare(given.left, given.right)
    with tempfile.TemporaryDirectory(prefix="calque-corpus-") as cache:
        os.environ |= {"CALQUE_CACHE": cache, "CALQUE_CPU_DEVICES": "4"}
        return write(given.folder, given.only, given.every)


if __name__ == "__main__":
    sys.exit(main())
