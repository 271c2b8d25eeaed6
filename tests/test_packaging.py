"""The wheel holds the whole package and works away from the checkout."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
OUTSIDE = {"tests", "examples", "benchmarks", "build", "dist", "docs"}

PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import calque, calque.cli, calque.transpiler.pipeline
assert calque.__file__.startswith(sys.argv[1]), calque.__file__
from probe import square_sum
page = calque.view(calque.grad(square_sum), np.ones(2), path=sys.argv[1] + "/page.html").read_text()
assert "--accent" in page and "use strict" in page
assert calque.cli.main(["help", "ShapeError"]) == 0
print(calque.grad(square_sum)(np.array([1.0, 2.0])))
"""


def settings() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def folders_with_code() -> set[str]:
    """The dotted packages that the tree holds."""
    found = set()
    for file in ROOT.rglob("*.py"):
        parts = file.relative_to(ROOT).parts[:-1]
        if not parts or (parts[0] not in OUTSIDE and not parts[0].startswith(".")):
            found.add(".".join(("calque", *parts)))
    return {name for name in found if "egg-info" not in name}


def test_no_package_is_forgotten() -> None:
    listed = settings()["options"]["packages"].split()
    assert set(listed) == folders_with_code()
    assert len(listed) == len(set(listed))


def test_every_package_has_an_init() -> None:
    for name in folders_with_code():
        folder = ROOT.joinpath(*name.split(".")[1:])
        assert (folder / "__init__.py").exists(), name


def test_the_version_is_said_once() -> None:
    assert settings()["metadata"]["version"] == calque.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {calque.__version__}\n" in citation


def test_pyproject_holds_the_build_system_only() -> None:
    import tomllib

    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert set(tomllib.loads(text)) == {"build-system"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy, so that the checkout stays clean."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "checkout"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, copy, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "-w", str(folder), str(copy)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("calque-*.whl")
    return built


def test_the_wheel_holds_every_module(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    listed = [name.split(".")[1:] for name in settings()["options"]["packages"].split()]
    files = [file for parts in listed for file in ROOT.joinpath(*parts).glob("*.py")]
    others = {f"calque/{name}" for name in ("py.typed", *(f"runtime/pages/page.{k}" for k in ("css", "js")))}
    files += [page for folder in ("errors", "limits") for page in (ROOT / "docs" / folder).glob("*.md")]
    assert inside == {f"calque/{file.relative_to(ROOT).as_posix()}" for file in files} | others


def test_the_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target"]
    done = subprocess.run([*pip, str(target), str(wheel)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    probe = "import numpy as np\n\n\ndef square_sum(x):\n    return np.sum(x * x)\n"
    (target / "probe.py").write_text(probe, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(target)],
        **{"cwd": tmp_path, "env": environment, "capture_output": True, "text": True},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ShapeError\n==========\n") and done.stdout.endswith("\n[2. 4.]\n")
