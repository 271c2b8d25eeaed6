"""Pages of the site whose text stands elsewhere in the repository: results, changes, programs.

They are copied to docs/generated, which git ignores, before Sphinx looks for pages. Links to them
from other pages are written for a reader of the repository (``../benchmarks/results/cpu.md``), and
lead to the copies on the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import gallery_pages

ROOT = Path(__file__).resolve().parent.parent.parent
COPIES = ROOT / "docs" / "generated"
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")


def sources() -> dict[str, str]:
    """Return the copied pages, by path from the root: names of the copies on the site."""
    results = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    copied = {f"benchmarks/results/{p.name}": f"generated/results/{p.stem}" for p in results}
    pages = {"CHANGELOG.md": "changes", "CONTRIBUTING.md": "contributing"}
    others = {source: f"generated/{name}" for source, name in pages.items()}
    return {**copied, **others, **programs()}


def programs() -> dict[str, str]:
    """Return the pages of the gallery, each under the path of its program."""
    return {f"examples/gallery/{n}.py": f"generated/gallery/{n}" for n in gallery_pages.names()}


def text_of(source: str) -> str:
    """Return the text of a page that stands elsewhere, with links that lead to the site's pages."""
    if source in programs():
        return gallery_pages.page(Path(source).stem)
    return with_links((ROOT / source).read_text(encoding="utf-8"), posixpath.dirname(source))


def with_links(text: str, folder: str) -> str:
    """Let the links of a page in a folder of the repository lead to the copies.

    >>> with_links("[times](../benchmarks/results/cpu.md)", "docs")
    '[times](/generated/results/cpu.md)'
    >>> with_links("[install](docs/install.md#extras)", "")
    '[install](/install.md#extras)'
    """

    def led(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[1]))
        copy = sources().get(path)
        if copy is None and not path.startswith("docs/"):
            return found[0]
        page = f"{copy}.md" if copy else path.removeprefix("docs/")
        return f"](/{page}{found[2] or ''})"

    return LINK.sub(led, text)


def write_copies() -> None:
    """Write the copies that have changed; Sphinx does not read the others again."""
    expected = {COPIES.parent / f"{copy}.md": source for source, copy in sources().items()}
    for path, source in expected.items():
        text = text_of(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in set(COPIES.rglob("*.md")) - expected.keys():
        path.unlink()


def setup(app: Any) -> dict[str, bool]:
    """Write the copies before pages are looked for, and lead links to them."""

    def read(app: Any, name: str, content: list[str]) -> None:
        if not name.startswith("generated/"):
            content[0] = with_links(content[0], posixpath.dirname(f"docs/{name}"))

    write_copies()
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
