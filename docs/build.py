"""Build the documentation site: ``python docs/build.py`` writes build/site/index.html.

Warnings are errors, and so are links that lead nowhere within the site. The pages for language
models, ``llms.txt`` and ``llms-full.txt``, stand beside ``index.html``. The command needs the extra
``docs``: ``pip install -e ".[docs]"``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.cmd.build import main as sphinx

DOCS = Path(__file__).resolve().parent


class BuiltPage(HTMLParser):
    """The links of a built page, and the places in it that links may lead to."""

    def __init__(self, text: str):
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag leads to, and its name."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.places.add(value)


def broken_links(folder: Path) -> list[str]:
    """Return the links of a built site that lead to no file, or to no place in a page."""
    files = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    pages = {path: BuiltPage(path.read_text(encoding="utf-8")) for path in files}

    def broken() -> Iterator[str]:
        for path, page in pages.items():
            for link in page.links:
                parts = urlsplit(link)
                if parts.scheme or parts.netloc or link in ("#", ""):
                    continue
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                place = unquote(parts.fragment)
                found = target.exists() and (
                    not place or target not in pages or place in pages[target].places
                )
                if not found:
                    yield f"{path.relative_to(folder)}: {link} leads nowhere"

    return sorted(broken())


def main() -> int:
    """Build the site, and return the exit status of Sphinx."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", default=DOCS.parent / "build" / "site", type=Path)
    folder = parser.parse_args().folder.resolve()
    kept = folder.with_name(folder.name + ".doctrees")
    status = sphinx(
        ["-W", "--keep-going", "-q", "-E", "-a", "-d", str(kept), str(DOCS), str(folder)]
    )
    if status:
        return status
    broken = broken_links(folder)
    print(*broken, sep="\n", end="\n" if broken else "")
    print(folder / "index.html")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
