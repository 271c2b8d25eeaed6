"""Everything in the README and in docs/ runs, and prints what the pages show: see ``doc_pages.py``.

What only the site has, its navigation and its generated parts, is tested in ``test_doc_site.py``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import doc_pages
import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
COPIES = ROOT / "docs" / "generated"  # by a build of the site
DOCS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md") if COPIES not in p.parents)
PAGES = ["README.md", "CONTRIBUTING.md", *DOCS]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def programs(page: str) -> str:
    return "\n\n".join(block.text for block, _ in doc_pages.program(text_of(page)))


RUN = [p for p in PAGES if programs(p)]
TOGETHER = ["docs/errors/", "docs/limits/"]  # many short pages: calque is imported once for each folder


@pytest.mark.parametrize("page", [*TOGETHER, *(p for p in RUN if not p.startswith(tuple(TOGETHER)))])
def test_the_programs_of_a_page(page: str, tmp_path: Path) -> None:
    environment = {**os.environ, "CALQUE_CPU_DEVICES": "2"}
    chosen = [ROOT / p for p in RUN if p.startswith(page)]
    command = [sys.executable, "-W", "error", ROOT / "tests" / "doc_pages.py", *chosen]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text("```python\nprint(1)\n```\n\n```output\n2\n```\n\n```python\nprint(3)\n```\n")
    difference = doc_pages.main(page, write=False)
    assert "-2\n+1\n" in difference and "+```output\n+3\n" in difference
    doc_pages.main(page, write=True)
    assert doc_pages.main(page, write=False) == ""


def test_a_refusal_that_does_not_come_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text("```python refused\nx = 1\n```\n\n```output\nNo.\n```\n")
    with pytest.raises(AssertionError, match="says that this is refused"):
        doc_pages.main(page, write=False)


def test_the_readme_imports_what_its_own_command_installs() -> None:
    """`pip install .` comes before its programs, and brings no SciPy."""
    found = {name.partition(".")[0] for name in re.findall(r"^(?:import|from) (\S+)", programs("README.md"), re.M)}
    assert found == {"numpy", "calque"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", text_of(page)):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target


def test_files_that_pages_name_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:benchmarks|examples|tests|transpiler|runtime|docs)/[\w./]*\w/?)`", text_of(page)):
            assert (ROOT / name).exists(), f"{page}: {name}"


def load(text: str, tmp_path: Path, name: str):
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gradient_that_the_readme_shows(tmp_path: Path) -> None:
    blocks = doc_pages.blocks(text_of("README.md"))
    first = next(block.text for block in blocks if block.kind == "python")
    (shown,) = [block.text for block in blocks if block.mark == "generated"]
    settle = load(first, tmp_path, "settle").settle
    assert calque.source(calque.grad(settle), calque.spec("f8[n]"), 0.1, 10) == shown


def test_the_figures_of_scaling() -> None:
    """The first table, for a few devices, from the program as it is generated today."""
    code = "import scaling as s, sys; f, a = s.data_parallel(8); t = s.tree_map(lambda x: s.Spec(x.dtype, x.shape), a); print(*map(int, s.traffic(s.DeviceSource(f, t, 'threads'))))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True)
    bytes_sent, messages = map(int, done.stdout.split())
    row = next(line for line in (ROOT / "docs/scaling.md").read_text().splitlines() if line.startswith("| 8 |"))
    assert f"{bytes_sent:,}" in row and row.endswith(f"| {messages} |")
