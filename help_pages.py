"""Pages that `calque help NAME` prints: one for each class of errors, one for each topic of limits.

They are the Markdown files of docs/errors and docs/limits, which ship with the package.
"""

from __future__ import annotations

import difflib
import importlib.resources
import inspect
import re
import textwrap
from collections.abc import Iterator

from calque.targets import UsageError
from calque.transpiler import errors

_WIDTH = 80
_FENCE = re.compile(r"^(```+)(.*)$")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)[^)]*\)")
_ITEM = re.compile(r"^(?:- |\d+\. )")


def page(name: str, width: int = _WIDTH) -> str:
    """Return the page of an error or of a topic of limits, as plain text.

    Raises ``UsageError``, with the nearest name, where there is no such page.

    >>> print(page("ShapeError").partition("import numpy")[0])
    ShapeError
    ==========
    <BLANKLINE>
    Shapes that do not fit together, or an axis out of range.
    A kind of CalqueError and ValueError, in calque.transpiler.errors.
    <BLANKLINE>
    Shapes do not fit, as NumPy would say; it is a `ValueError`, too.
    <BLANKLINE>
    <BLANKLINE>
    """
    names = {known.lower(): known for known in (*error_classes(), *topics(), "limits")}
    if name == errors.TagNeeded.__name__:
        name = errors.TagNeeded.help_page
    found = names.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), names, n=1)
        told = f"did you mean {names[near[0]]}?" if near else "`calque help` lists them"
        raise UsageError(f"there is no page {name}; {told}")
    if found == "limits":
        return _listed(topics(), width)
    folder = "errors" if found in error_classes() else "limits"
    return plain(_texts()[folder, found], width)


def contents(width: int = _WIDTH) -> str:
    """Return a list of all pages: the errors with their summaries, and the topics of limits."""
    summaries = {name: summary(found) for name, found in error_classes().items()}
    return "\n".join(
        [
            "Errors. `calque help NAME` prints a page with an example:\n",
            _listed(summaries, width),
            "Limits. `calque help TOPIC` prints a page with examples:\n",
            _listed(topics(), width),
        ]
    )


def error_classes() -> dict[str, type[errors.CalqueError]]:
    """Return the errors that have a page, by name.

    >>> error_classes()["ShapeError"].__name__
    'ShapeError'
    """
    found = {name: each for name, each in vars(errors).items() if isinstance(each, type)}
    raised = {n: c for n, c in sorted(found.items()) if issubclass(c, errors.CalqueError)}
    return {name: each for name, each in raised.items() if each.help_page == name}


def summary(error: type[Exception]) -> str:
    """Return the first line of an error's docstring.

    >>> summary(errors.DtypeError)
    'A dtype on which an operation is not defined.'
    """
    return (inspect.getdoc(error) or "").partition("\n")[0].replace("``", "`")


def topics() -> dict[str, str]:
    """Return the topics of limits, each with the title of its page.

    >>> topics()["gpus"]
    'GPUs'
    """
    texts = _texts()
    return {
        name: texts[folder, name].partition("\n")[0].removeprefix("# ")
        for folder, name in sorted(texts)
        if folder == "limits"
    }


def plain(text: str, width: int = _WIDTH) -> str:
    """Return Markdown as plain text: paragraphs are filled, code is indented, output has a bar.

    >>> print(plain("# Title\\n\\n*One* [link](limits.md).\\n\\n```output\\n3\\n```\\n"), end="")
    Title
    =====
    <BLANKLINE>
    *One* link (calque help limits).
    <BLANKLINE>
        | 3
    """
    return "\n\n".join(part for part in map(str.rstrip, _parts(text, width)) if part) + "\n"


def _parts(text: str, width: int) -> Iterator[str]:
    """Yield the paragraphs, headings, items and blocks of code of a page."""
    lines = iter(text.splitlines())
    paragraph: list[str] = []
    for line in lines:
        fence = _FENCE.match(line)
        if not line or fence or line.startswith("#") or _ITEM.match(line):
            yield _filled(paragraph, width)
            paragraph = []
        if fence:
            yield _block(fence[2], _until(lines, fence[1]), width)
        elif line.startswith("#"):
            marks, _, title = line.partition(" ")
            yield f"{title}\n{('=' if marks == '#' else '-') * len(title)}"
        elif line:
            paragraph.append(line)
    yield _filled(paragraph, width)


def _until(lines: Iterator[str], end: str) -> list[str]:
    """Take the lines before the one that ends a block."""
    found = []
    for line in lines:
        if line == end:
            break
        found.append(line)
    return found


def _block(kind: str, lines: list[str], width: int) -> str:
    """Return a block of a page: the facts about an error, output or code."""
    if kind.startswith("{error}"):
        error = error_classes()[kind.split()[1]]
        bases = " and ".join(base.__name__ for base in error.__bases__)
        told = [f"A kind of {bases}, in {errors.__name__}."]
        return f"{_filled([summary(error)], width)}\n{_filled(told, width)}"
    before = "    | " if kind == "output" else "    "
    return textwrap.indent("\n".join(lines), before, lambda line: bool(line.strip()))


def _filled(paragraph: list[str], width: int) -> str:
    text = _LINK.sub(_linked, " ".join(paragraph))
    further = "  " if _ITEM.match(text) else ""
    return textwrap.fill(text, width, subsequent_indent=further, break_on_hyphens=False)


def _linked(link: re.Match[str]) -> str:
    """Return the words of a link, and the page it leads to: a command, or a file of docs."""
    text, target = link[1], link[2].replace("../", "")
    folder, _, file = target.rpartition("/")
    name = file.removesuffix(".md")
    if folder in ("", "errors", "limits") and name in (*error_classes(), *topics(), "limits"):
        target = f"calque help {name}"
    elif "://" not in target:
        target = f"docs/{target}"
    return target if text == file else f"{text} ({target})"


def _listed(entries: dict[str, str], width: int) -> str:
    """Return names with what they stand for, in two columns."""
    first = max(map(len, entries)) + 4
    lines = [
        textwrap.fill(
            said,
            *(max(width, first + 30),),
            initial_indent=f"  {name}".ljust(first),
            subsequent_indent=" " * first,
        )
        for name, said in entries.items()
    ]
    return "\n".join(lines) + "\n"


def _texts() -> dict[tuple[str, str], str]:
    """Return the pages that ship with the package, by folder and name."""
    docs = importlib.resources.files("calque") / "docs"
    return {
        (folder, file.name.removesuffix(".md")): file.read_text(encoding="utf-8")
        for folder in ("errors", "limits")
        for file in (docs / folder).iterdir()
        if file.name.endswith(".md")
    }
