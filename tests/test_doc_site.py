"""The site is whole: its navigation leads to every page, its reference has every public name."""

from __future__ import annotations

import doctest
import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import doc_pages
import pytest
from test_docs import DOCS

import calque

ROOT = Path(calque.__file__).resolve().parent
EXTENSIONS = ["generated_parts", "repository_pages", "language_models"]
BRIDGES = ["jax", "torch", "pytensor", "casadi"]


@pytest.fixture(autouse=True)
def extensions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "extensions"))


def fences(kind: str) -> Iterator[tuple[str, doc_pages.Block]]:
    """Yield the fences of a kind of all pages, with the page."""
    for page in DOCS:
        for block in doc_pages.blocks((ROOT / page).read_text(encoding="utf-8")):
            if block.kind == f"{{{kind}}}":
                yield page, block


def test_the_navigation_leads_to_every_page() -> None:
    led = {"docs/index.md"}
    for page, tree in fences("toctree"):
        names = [line for line in tree.text.splitlines() if line and not line.startswith(":")]
        led |= {f"{Path(page).parent.as_posix()}/{name}.md" for name in names}
    assert set(DOCS) <= led
    missing = {page for page in led - set(DOCS) if not page.startswith("docs/generated/")}
    assert not missing


def test_the_reference_has_every_public_name_once() -> None:
    found = Counter(f"{block.mark}.{name}" for _, block in fences("api") for name in block.text.split())
    homes = {home.__name__.replace("runtime.", ""): home for home in (calque, calque.random, calque.sparse, calque.tree)}
    public = {f"{name}.{each}" for name, home in homes.items() for each in home.__all__}
    others = {f"calque.{name}" for name in ("bridges", "random", "sparse", "tree", "__version__")}
    assert set(found) == public - others | {f"calque.bridges.{name}.wrap" for name in BRIDGES}
    assert max(found.values()) == 1


@pytest.mark.parametrize("name", EXTENSIONS)
def test_examples_of_an_extension(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried and not failed


def test_a_plain_page_has_what_the_build_makes() -> None:
    plain = importlib.import_module("language_models").plain
    text = plain((ROOT / "docs/reference/bridges.md").read_text(encoding="utf-8"))
    assert "### calque.bridges.jax.wrap(f, jit=True)" in text and "{api}" not in text


def test_copies_of_pages_are_in_the_repository() -> None:
    sources = importlib.import_module("repository_pages").sources()
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/results/cpu.md"} <= set(sources)
    assert all((ROOT / source).exists() for source in sources)
