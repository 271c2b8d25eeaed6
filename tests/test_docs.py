"""Everything in the README and in docs/ runs: the Python of a page is one program, run from its top."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import calque
from calque.transpiler.errors import CalqueError

ROOT = Path(calque.__file__).resolve().parent
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.M | re.S)


def blocks(page: str) -> list[tuple[str, str, str]]:
    return [(kind, note.strip(), text) for kind, note, text in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]


def programs(page: str) -> str:
    return "\n\n".join(text for kind, note, text in blocks(page) if kind == "python" and not note)


@pytest.mark.parametrize("page", [p for p in PAGES if programs(p)])
def test_the_programs_of_a_page(page: str, tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text(programs(page))
    environment = {**__import__("os").environ, "CALQUE_CPU_DEVICES": "2"}
    done = subprocess.run([sys.executable, "-W", "error", str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_readme_imports_what_its_own_command_installs() -> None:
    """`pip install .` comes before its programs, and brings no SciPy."""
    found = {name.partition(".")[0] for name in re.findall(r"^(?:import|from) (\S+)", programs("README.md"), re.M)}
    assert found == {"numpy", "calque"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target


def test_every_page_can_be_found_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [p for p in PAGES if p.startswith("docs/") and f"({p})" not in text] == []


def test_files_that_pages_name_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:benchmarks|examples|tests|transpiler|runtime|docs)/[\w./]*\w/?)`", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page}: {name}"


def readme(tmp_path: Path, kind: str) -> str:
    (found,) = [text for _, note, text in blocks("README.md") if note == kind]
    return found


def load(text: str, tmp_path: Path, name: str):
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_gradient_that_the_readme_shows(tmp_path: Path) -> None:
    first = next(text for kind, note, text in blocks("README.md") if kind == "python")
    settle = load(first, tmp_path, "settle").settle
    assert calque.source(calque.grad(settle), calque.spec("f8[n]"), 0.1, 10) == readme(tmp_path, "generated")


def test_the_refusal_that_the_readme_shows(tmp_path: Path) -> None:
    noisy = load("import numpy as np\n" + readme(tmp_path, "refused"), tmp_path, "model").noisy
    with pytest.raises(CalqueError) as error:
        calque.grad(noisy)(1.0)
    shown = str(error.value).split("\n")
    lines = next(text for kind, note, text in blocks("README.md") if not kind and "in noisy" in text).splitlines()
    assert shown[1:] == lines[1:]


def test_the_figures_of_scaling() -> None:
    """The first table, for a few devices, from the program as it is generated today."""
    code = "import scaling as s, sys; f, a = s.data_parallel(8); t = s.tree_map(lambda x: s.Spec(x.dtype, x.shape), a); print(*map(int, s.traffic(s.DeviceSource(f, t, 'threads'))))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benchmarks", capture_output=True, text=True)
    bytes_sent, messages = map(int, done.stdout.split())
    row = next(line for line in (ROOT / "docs/scaling.md").read_text().splitlines() if line.startswith("| 8 |"))
    assert f"{bytes_sent:,}" in row and row.endswith(f"| {messages} |")
