"""The site is whole: its navigation leads to every page, its reference has every public name."""

from __future__ import annotations

import doctest
import fnmatch
import importlib
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import doc_pages
import pytest
from test_docs import DOCS

import calque
from calque import cli, help_pages

ROOT = Path(calque.__file__).resolve().parent
PICTURES = ["first_calls_picture", "layers_picture", "sparsity_picture", "stencil_picture"]
EXTENSIONS = ["drawing", "generated_parts", "gallery_pages", "language_models", "repository_pages", "result_tables", *PICTURES]
NOT_RAISED_HERE = {
    "CalqueError": "the base of all",
    "CoreError": "a defect of calque",
    "MixedDevices": "on a GPU",
    "NoGraph": "on a GPU",
    "RanksDiffer": "under MPI",
}
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
        patterns = [f"{Path(page).parent.as_posix()}/{name}.md" for name in names]
        led |= {found for p in patterns for found in fnmatch.filter(DOCS, p) or [p]}
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


@pytest.mark.parametrize("plain", [False, True])
def test_the_first_page_shows_the_derivative_of_the_readme(plain: bool) -> None:
    expanded = importlib.import_module("generated_parts").expanded
    page = expanded((ROOT / "docs/index.md").read_text(encoding="utf-8"), plain)
    readme = doc_pages.blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    (shown,) = [block.text for block in readme if block.mark == "generated"]
    assert f"**calque writes**\n\n```python\n{shown}```\n" in page


def test_the_command_of_the_first_page_prints_what_it_shows(tmp_path, monkeypatch, capsys) -> None:
    expanded = importlib.import_module("generated_parts").expanded
    page = doc_pages.blocks(expanded((ROOT / "docs/index.md").read_text(encoding="utf-8"), True))
    function, call, command, derivative = (block.text for block in page[:4])
    (tmp_path / "settle.py").write_text(f"import numpy as np\n\n\n{function}")
    monkeypatch.chdir(tmp_path)
    assert call == "calque.grad(settle)\n"
    assert cli.main(shlex.split(command.replace("\\\n", ""))[1:]) == 0
    assert capsys.readouterr().out.endswith(derivative)


def test_pictures_show_speeds_as_the_tables_of_results_count_them() -> None:
    speeds = importlib.import_module("speeds_picture")
    for rows in speeds.PICTURES.values():
        drawn = speeds.picture(rows)
        for row in rows:
            text = (ROOT / f"benchmarks/results/{row.file}.md").read_text(encoding="utf-8")
            line = next(line for line in text.splitlines() if line.startswith(f"| {row.work} |"))
            ratios = [float(cell) for cell in line.split() if re.fullmatch(r"\d+\.\d\d", cell)]
            found = speeds.measured(row)
            pairs = [(found.times, ratio) for ratio in ratios] + [(1 / found.times, ratio) for ratio in ratios]
            assert any(abs(mine - ratio) < 0.05 * ratio + 0.005 for mine, ratio in pairs), line
            assert found.label in drawn and found.theirs in drawn
    assert 'class="slower"' in speeds.picture(speeds.ROWS)


def test_pictures_are_on_pages_and_their_bars_have_room() -> None:
    speeds = importlib.import_module("speeds_picture")
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    for name, rows in speeds.PICTURES.items():
        assert any(f"```{{speeds}} {name}".rstrip() + "\n" in page for page in pages), name
        bars = re.findall(r'<rect class="\w+" x="([\d.-]+)" y="[\d.]+" width="([\d.]+)"', speeds.picture(rows))
        assert len(bars) == len(rows)
        for left, width in (map(float, found) for found in bars):
            assert left >= 0 and left + width <= speeds.WIDTH - speeds.TEXT + 0.1


def test_published_functions_are_counted_as_their_own_page_counts_them() -> None:
    text, counted = ((ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("will-it-work", "wild"))
    right, tried, packages = re.search(r"\*\*(\d+) of (\d+) functions of (\d+) packages", counted).groups()
    assert f"[{tried} functions of {packages} published packages]" in text and f" {right} work as they are" in text


def test_each_error_has_a_page_that_raises_it() -> None:
    classes = help_pages.error_classes()
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs/errors").glob("*.md")}
    assert set(pages) == set(classes)
    raised = {name for name, text in pages.items() if any(b.mark == f"refused {name}" for b, _ in doc_pages.program(text))}
    assert set(pages) - raised == NOT_RAISED_HERE.keys()


def test_copies_of_pages_are_in_the_repository() -> None:
    sources = importlib.import_module("repository_pages").sources()
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/results/cpu.md"} <= set(sources)
    assert all((ROOT / source).exists() for source in sources)
