"""Pictures of the site are well formed, are on their pages, and show what their sources have."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest
from test_layers import LAYERS

import calque

ROOT = Path(calque.__file__).resolve().parent
PAGES = {
    "first-calls": "docs/jit.md",
    "growth": "docs/jit.md",
    "layers": "docs/how-it-works.md",
    "sparsity": "docs/sparse.md",
    "speeds": "docs/index.md",
    "stencil": "docs/guides/stores.md",
}


@pytest.fixture(autouse=True)
def extensions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "extensions"))


def extension(name: str) -> ModuleType:
    return importlib.import_module(name)


def drawn(name: str) -> ElementTree.Element:
    """A part of a page as the tree of its figure."""
    return ElementTree.fromstring(extension("generated_parts").PARTS[name]("", "", False))


def words(figure: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in figure.iter("text")]


@pytest.mark.parametrize("name", PAGES)
def test_a_picture_is_well_formed_and_says_what_it_shows(name: str) -> None:
    assert f"\n```{{{name}}}\n```\n" in (ROOT / PAGES[name]).read_text(encoding="utf-8")
    (image,) = drawn(name)
    assert image.get("role") == "img" and len(image.get("aria-label", "")) > 20
    _, _, width, height = map(float, image.get("viewBox", "").split())
    for each in image.iter():
        across = [float(each.get(key, 0)) for key in ("x", "x1", "x2", "cx")]
        down = [float(each.get(key, 0)) for key in ("y", "y1", "y2", "cy")]
        assert 0 <= min(across + down) and max(across) <= width and max(down) <= height


@pytest.mark.parametrize("name", PAGES)
def test_each_class_of_a_picture_has_a_style(name: str) -> None:
    styles = (ROOT / "docs/static/calque.css").read_text(encoding="utf-8")
    kinds = {kind for each in drawn(name).iter() for kind in each.get("class", "").split()}
    styled = set(re.findall(r"\.([\w-]+)", styles))
    assert kinds - styled <= {"first-calls", "growth"}


@pytest.mark.parametrize("name", PAGES)
def test_a_text_for_readers_without_pictures(name: str) -> None:
    text = extension("generated_parts").PARTS[name]("", "", True)
    assert "<" not in text and len(text.split()) > 10


def test_first_calls_are_those_of_the_table() -> None:
    text = (ROOT / "benchmarks/results/first_calls.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| ([\w ]+?)(?:, \d times)? \|", text, re.M)
    programs = [name for name in dict.fromkeys(names) if name != "gradient of"]
    assert [name for name in words(drawn("first-calls")) if name in programs] == programs
    grown = extension("first_calls_picture").repeated()
    assert set(grown) == {name for name in programs if f"| {name}, 3 times |" in text}
    assert set(grown) <= set(words(drawn("growth")))


def test_the_axis_of_first_calls_holds_all_times() -> None:
    picture = extension("first_calls_picture")
    times = [time for program in picture.single().values() for time in program.values()]
    assert picture.LOW < min(times) and max(times) < picture.HIGH


def test_the_arrows_are_those_of_the_step_and_its_adjoint() -> None:
    picture = extension("stencil_picture")
    matrix = np.zeros((picture.CELLS, picture.CELLS))
    for entry in picture.entries(picture.step):
        matrix[entry.written, entry.read] = entry.factor
    columns = [picture.step(column.copy()) for column in np.eye(picture.CELLS)]
    assert np.allclose(matrix, np.transpose(columns))
    back = {(e.written, e.read, e.factor) for e in picture.entries(picture.step_back)}
    assert back == {(e.read, e.written, e.factor) for e in picture.entries(picture.step)}
    arrows = [each for each in drawn("stencil").iter("line") if "marker-end" in each.attrib]
    assert len(arrows) == 2 * np.count_nonzero(matrix)


def test_columns_of_one_group_share_no_row() -> None:
    pattern = extension("sparsity_picture").jacobian()
    cells = list(zip(pattern.sparsity.rows, pattern.colors[pattern.sparsity.cols]))
    assert len(set(cells)) == len(cells)
    numbers = [word for word in words(drawn("sparsity")) if word.isdecimal()]
    hessian = extension("sparsity_picture").hessian()
    assert len(numbers) == 2 * pattern.sparsity.nnz + hessian.sparsity.nnz
    assert hessian.num_colors < hessian.sparsity.shape[0]


def test_every_layer_is_a_box() -> None:
    names = [name.partition(".")[2] or name or "calque" for name in LAYERS]
    boxes = drawn("layers").iter("rect")
    summaries = [title.text or "" for each in boxes for title in each.iter("title")]
    assert set(names) <= set(words(drawn("layers")))
    assert len(summaries) == len(names) and all(summaries)
