"""The gallery: every program is right, what is kept of it is current, and its page can be made."""

from __future__ import annotations

import importlib
import runpy
import warnings
from pathlib import Path

import doc_pages
import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
NAMES = sorted(path.stem for path in (ROOT / "examples/gallery").glob("*.py"))
AGAIN = "run `python docs/run_gallery.py {}`"


@pytest.fixture(autouse=True)
def extensions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "extensions"))


@pytest.mark.parametrize("name", NAMES)
def test_a_program(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It asserts that its results are right; the derivative that its page shows is the one that is written today."""
    gallery_pages = importlib.import_module("gallery_pages")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = importlib.import_module("matplotlib.pyplot")
    figures: list[int] = []
    monkeypatch.setattr(plt, "show", lambda: figures.extend(plt.get_fignums()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(gallery_pages.PROGRAMS / f"{name}.py"), run_name="__main__")
    plt.close("all")
    assert len(figures) == 1
    results, derivative = gallery_pages.DERIVATIVE.split(capsys.readouterr().out, maxsplit=1)
    assert "expected" in results
    assert derivative.strip() == gallery_pages.kept(name).derivative, AGAIN.format(name)


def test_what_is_kept_is_of_the_programs_as_they_are() -> None:
    gallery_pages = importlib.import_module("gallery_pages")
    stale = [name for name in NAMES if not gallery_pages.is_current(name)]
    assert not stale, AGAIN.format("")
    files = {path.name for path in gallery_pages.KEPT.iterdir()}
    assert files == {f"{name}.{kind}" for name in NAMES for kind in ("png", "txt")}
    assert all(path.stat().st_size < 60_000 for path in gallery_pages.KEPT.glob("*.png"))


def test_a_changed_program_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gallery_pages = importlib.import_module("gallery_pages")
    text = gallery_pages.text_of(NAMES[0])
    monkeypatch.setattr(gallery_pages, "PROGRAMS", tmp_path)
    (tmp_path / f"{NAMES[0]}.py").write_text(text, encoding="utf-8")
    assert gallery_pages.is_current(NAMES[0])
    (tmp_path / f"{NAMES[0]}.py").write_text(text + "\n", encoding="utf-8")
    assert not gallery_pages.is_current(NAMES[0])


def test_the_gallery_leads_to_every_program_once() -> None:
    blocks = doc_pages.blocks((ROOT / "docs/gallery.md").read_text(encoding="utf-8"))
    shown = [name for block in blocks if block.kind == "{gallery}" for name in block.text.split()]
    assert sorted(shown) == NAMES and len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_its_parts(name: str) -> None:
    gallery_pages = importlib.import_module("gallery_pages")
    text, result = gallery_pages.page(name), gallery_pages.kept(name)
    assert result.results in text and result.derivative in text
    timed = gallery_pages.TIMED.search(gallery_pages.text_of(name))
    assert list(result.times) == (["timed", "calque", "JAX", "Autograd"] if timed else [])
    assert all("For JAX" not in block.text for block in doc_pages.blocks(text))
    assert gallery_pages.introduction(gallery_pages.text_of(name)).for_jax.startswith("For JAX")
