"""Pages of the gallery: programs of examples/gallery, with the pictures and results kept of them.

A build of the site runs no program. ``python docs/run_gallery.py`` runs those that have changed,
and keeps for each a picture and a text in docs/gallery. The text begins with a hash of the program,
and with the times of its gradient; after an empty line follows what the program prints: its
results, then a derivative as source. A test runs every program and says which kept text is out of
date.
"""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "examples" / "gallery"
KEPT = ROOT / "docs" / "gallery"
TIMED = re.compile(r"^# Timed beside JAX and Autograd: (.+)$", re.M)
DERIVATIVE = re.compile(r"^(?=def )", re.M)  # begins here in what a program prints
LONG = 80  # lines of a derivative that a page does not show at once


class KeptResult(NamedTuple):
    """The hash of a program that ran, times of its gradient, and both parts of what it printed."""

    program: str
    times: dict[str, str]
    results: str
    derivative: str


class Introduction(NamedTuple):
    """The parts of a program's docstring: its title, a paragraph, and one about JAX."""

    title: str
    paragraph: str
    for_jax: str


def names() -> list[str]:
    """Return the names of all programs."""
    return sorted(path.stem for path in PROGRAMS.glob("*.py"))


def text_of(name: str) -> str:
    """Return a program's text."""
    return (PROGRAMS / f"{name}.py").read_text(encoding="utf-8")


def hash_of(name: str) -> str:
    """Return the hash of a program by which a change is found."""
    return hashlib.sha256(text_of(name).encode()).hexdigest()[:16]


def parted(text: str) -> KeptResult:
    """Read a kept text.

    >>> parted("program: 12ab\\ncalque: 1.0 ms\\n\\nx 1.0\\n\\ndef f_grad(x): ...\\n").times
    {'calque': '1.0 ms'}
    """
    head, _, printed = text.partition("\n\n")
    lines = dict(line.split(": ", 1) for line in head.splitlines())
    results, derivative = DERIVATIVE.split(printed, maxsplit=1)
    return KeptResult(lines.pop("program"), lines, results.strip(), derivative.strip())


def kept(name: str) -> KeptResult:
    """Read what is kept of a program."""
    path = KEPT / f"{name}.txt"
    if not path.exists():
        raise SystemExit(f"Nothing is kept of {name}: run `python docs/run_gallery.py {name}`.")
    return parted(path.read_text(encoding="utf-8"))


def is_current(name: str) -> bool:
    """Return True if a program's picture and results are those of its text."""
    both = (KEPT / f"{name}.txt").exists() and (KEPT / f"{name}.png").exists()
    return both and kept(name).program == hash_of(name)


def introduction(text: str) -> Introduction:
    """Return the parts of a program's docstring, each as one line.

    >>> introduction('"Title\\\\n\\\\nOne\\\\nparagraph.\\\\n\\\\nFor JAX, another."').paragraph
    'One paragraph.'
    """
    parts = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")
    title, paragraph, for_jax = (" ".join(part.split()) for part in parts)
    return Introduction(title, paragraph, for_jax)


def code(text: str) -> str:
    """Return a program without its docstring, and without the comment that says what is timed.

    >>> code('"A program."\\n\\nx = 1\\n# Timed beside JAX and Autograd: f(x)\\n')
    'x = 1\\n'
    """
    lines = TIMED.sub("", text).splitlines()
    below = lines[ast.parse(text).body[0].end_lineno :]
    return "\n".join(below).strip() + "\n"


def times_table(times: dict[str, str]) -> str:
    """Return the times of a gradient as a table.

    >>> print(times_table({"timed": "f(x)", "calque": "1.0 ms"}))
    | `f(x)` and its gradient | processor time of a call |
    | --- | --- |
    | calque, compiled | 1.0 ms |
    """
    labels = {peer: peer if peer == "Autograd" else f"{peer}, compiled" for peer in times}
    rows = [f"| {labels[peer]} | {time} |" for peer, time in times.items() if peer != "timed"]
    head = f"| `{times['timed']}` and its gradient | processor time of a call |"
    return "\n".join([head, "| --- | --- |", *rows])


def page(name: str) -> str:
    """Return a program's page as Markdown."""
    about, result = introduction(text_of(name)), kept(name)
    derivative = f"```output\n{result.derivative}\n```"
    count = result.derivative.count("\n") + 1
    if count > LONG:
        derivative = f":::{{dropdown}} {count} lines\n{derivative}\n:::"
    parts = [
        f"# {about.title}",
        about.paragraph,
        f"![{about.title}](/gallery/{name}.png)",
        f"## The program\n\n`examples/gallery/{name}.py`",
        f"```python\n{code(text_of(name))}```",
        f"It prints:\n\n```output\n{result.results}\n```",
        "## Its derivative",
        f"The last line of the program prints what calque writes:\n\n{derivative}",
    ]
    beside = [times_table(result.times)] if result.times else []
    parts += ["## Beside JAX and Autograd", *beside, about.for_jax]
    return "\n\n".join(parts) + "\n"


def gallery(argument: str, body: str, plain: bool) -> str:
    """Return cards that lead to programs, whose names are the words of ``body``."""
    abouts = {name: introduction(text_of(name)) for name in body.split()}
    if plain:
        return "\n".join(f"- {about.title}. {about.paragraph}" for about in abouts.values())
    cards = [
        f"::::{{grid-item-card}} {about.title}\n:link: /generated/gallery/{name}\n:link-type: doc\n"
        f":img-top: /gallery/{name}.png\n::::"
        for name, about in abouts.items()
    ]
    grid = ":::::{grid} 1 2 3 3\n:gutter: 3\n:class-container: gallery\n\n"
    pages = "\n".join(f"/generated/gallery/{name}" for name in abouts)
    tree = f"```{{toctree}}\n:hidden:\n{pages}\n```"
    return grid + "\n\n".join(cards) + f"\n:::::\n\n{tree}"
