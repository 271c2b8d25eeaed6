"""docs/how-it-works.md shows the programs and the rooms as they are; no file names a page that is not here."""

from __future__ import annotations

import re
import subprocess

import how_it_works
import numpy as np

import calque

TEXTS = (".py", ".md", ".cfg", ".toml", ".yaml", ".yml", ".ini", ".sh")
WRITTEN = {"parallel.md"}  # by a benchmark, when it is run


def test_the_page_is_current() -> None:
    made = how_it_works.page()
    assert how_it_works.PAGE.read_text(encoding="utf-8") == made, "run `python tests/how_it_works.py`"


def test_the_adjoint_that_the_page_shows_is_the_gradient() -> None:
    x = np.linspace(-1.0, 2.0, 7)
    found = calque.jit(calque.grad(how_it_works.energy))(x, 2.0)
    step = 1e-6 * np.eye(7)
    wanted = [how_it_works.energy(x + h, 2.0) - how_it_works.energy(x - h, 2.0) for h in step]
    assert np.allclose(found, np.array(wanted) / 2e-6, rtol=1e-7)


def test_documents_that_files_cite_are_here() -> None:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=how_it_works.ROOT, capture_output=True, text=True)
    files = [how_it_works.ROOT / name for name in listed.stdout.splitlines()]
    here = {file.name for file in files if file.suffix == ".md"} | WRITTEN
    for file in files:
        if file.suffix in TEXTS and file.exists() and not file.match("tests/golden/*"):
            text = file.read_text(encoding="utf-8")
            cited = set(re.findall(r"[\w-]+\.md\b", text))
            assert cited <= here, f"{file}: {cited - here}"
            if file.name != "test_how_it_works.py":
                assert not re.search(r"\b(DESIGN|HOUSE|GENERATED|STYLE)\b", text), file
