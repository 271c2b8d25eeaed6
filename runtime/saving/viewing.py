"""The page on which a derivative is reviewed, written to a file and opened."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

from calque.runtime.options import checked
from calque.runtime.outside import outside
from calque.runtime.pages.html_pages import page_html
from calque.runtime.pages.review_ticks import SUFFIX, reviewed_in
from calque.runtime.pages.reviews import review_of
from calque.runtime.pages.text_differences import Against
from calque.runtime.saving.reading import module_source
from calque.runtime.saving.writing import write_whole
from calque.runtime.spec import Spec
from calque.runtime.tracebacks import hide_own_frames
from calque.transpiler.codegen.text.recording import recorded
from calque.transpiler.ir import pytrees


@outside
def view(
    fn: Any,
    *args: Any,
    path: str | os.PathLike[str] | None = None,
    stage: str | None = None,
    engine: str | None = None,
    against: str | os.PathLike[str] | None = None,
    check: bool = False,
) -> Path:
    """Write a page that shows a function beside its derivative, line by line; return its path.

    The page is one HTML file that loads nothing. A line that is pointed at, or reached by the
    arrow keys, lights up the lines that answer it. Remarks are those of ``explain``.

    ``fn`` is a transformed (or plain) function, ``args`` are those of a call, or specs.
    ``path`` is the file; without it, the page goes to a temporary file and is opened in a browser.
    ``stage`` is "kernels" or "cuda" to show these, too, of a function that is not jitted;
    ``engine`` is as for ``source``. ``against`` is a saved module: the page shows what calque
    writes today as a difference to it, with the ticks from ``saved.py.reviewed`` if there is such
    a file. With ``check=True`` each statement's derivative is compared with differences at these
    arguments, and the page has the numbers beside it.
    Raises what the transformation raises, and OSError for a file that cannot be read or written.

    >>> import pathlib, tempfile, calque
    >>> folder = tempfile.TemporaryDirectory()
    >>> page = calque.view(calque.grad(lambda x: x * x), 1.0, path=f"{folder.name}/page.html")
    >>> page.name
    'page.html'
    >>> folder.cleanup()
    """
    try:
        files = {"path": path, "against": against}
        checked("view", **{name: file for name, file in files.items() if file is not None})
        options = checked("view", check=check)
        values = args if options["check"] else None
        if values is not None and any(isinstance(x, Spec) for x in pytrees.flatten(args)[0]):
            raise ValueError("check=True needs the arguments of a call, not their types")
        text = page_text(fn, *args, stage=stage, engine=engine, against=against, values=values)
        if path is not None:
            write_whole(path, text)
            return Path(path)
        handle, made = tempfile.mkstemp(".html", "calque_")
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        webbrowser.open(Path(made).as_uri())
        return Path(made)
    except Exception as error:
        hide_own_frames(error)
        raise


def page_text(
    fn: Any,
    *args: Any,
    stage: str | None = None,
    engine: str | None = None,
    against: str | os.PathLike[str] | None = None,
    values: tuple[Any, ...] | None = None,
) -> str:
    """The text of the page that ``view`` writes; ``values`` are what derivatives are checked at."""
    if isinstance(stage, str) and stage == "core":
        raise ValueError('stage "core" has no page: it can only be printed')
    compared = None if against is None else _against(fn, args, stage, engine, against)
    return page_html(review_of(fn, args, stage, engine, compared, values))


def _against(
    fn: Any,
    args: tuple[Any, ...],
    stage: str | None,
    engine: str | None,
    path: str | os.PathLike[str],
) -> Against:
    """A committed module beside what calque writes today, and the ticks beside it."""
    committed = Path(path).read_text(encoding="utf-8")
    alone = "from calque." not in committed  # else it is kept as it was printed
    with recorded() as written:
        now = module_source(fn, *args, stage=stage, alone=alone, engine=engine)
    ticks = Path(f"{os.fspath(path)}{SUFFIX}")
    reviewed = reviewed_in(ticks.read_text(encoding="utf-8")) if ticks.is_file() else frozenset()
    return Against(os.path.basename(path), committed, now, written, reviewed)
