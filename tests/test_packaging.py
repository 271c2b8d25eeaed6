"""Source distribution and wheel hold the whole package; the wheel works away from the checkout."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
OUTSIDE = {"tests", "examples", "benchmarks", "build", "dist", "docs", "conda"}

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
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert set(tomllib.loads(text)) == {"build-system"}


def test_the_recipe_for_conda_says_the_same() -> None:
    """Versions, dependencies and Pythons stand in setup.cfg, and again in conda/recipe.yaml."""
    recipe = (ROOT / "conda/recipe.yaml").read_text(encoding="utf-8")
    found, options = settings(), settings()["options"]

    def items(name: str) -> list[str]:
        """The items of a list in the recipe."""
        (text,) = re.findall(rf"^ +{name}:\n((?: +- .*\n)+)", recipe, re.MULTILINE)
        lines = [line.partition("- ")[2] for line in text.splitlines()]
        return [line.replace("${{ python_min }}", python_min).replace(" ", "") for line in lines]

    (python_min,) = re.findall(r'python_min: "(.*)"', recipe)
    assert f'\n  version: "{calque.__version__}"\n' in recipe
    needed = [line.replace(" ", "") for line in options["install_requires"].split("\n") if line]
    assert items("run") == [f"python{options['python_requires']}", *needed]
    (setuptools,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert items("host") == [f"python{python_min}.*", "pip", setuptools.replace(" ", "")]
    classifiers = found["metadata"]["classifiers"]
    pythons = re.findall(r"Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    assert items("python_version") == [f"{pythons[0]}.*", f"{pythons[-1]}.*"]
    scripts = found["options.entry_points"]["console_scripts"].strip()
    assert items("entry_points") == [scripts.replace(" ", "")]
    assert f"\n  summary: {found['metadata']['description']}\n" in recipe
    assert f"\n  license: {found['metadata']['license']}\n" in recipe


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution built from a copy, with caches as a checkout has them."""
    folder = tmp_path_factory.mktemp("sdist")
    copy = folder / "checkout"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=ignored)
    build = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    command = [sys.executable, "-c", build, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=copy)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("calque-*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the source distribution, as ``python -m build`` does."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run([*pip, "-w", str(folder), str(sdist)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("calque-*.whl")
    return built


def package_files() -> set[str]:
    """The files of the package, by their places in it."""
    listed = [name.split(".")[1:] for name in settings()["options"]["packages"].split()]
    files = [file for parts in listed for file in ROOT.joinpath(*parts).glob("*.py")]
    files += [page for folder in ("errors", "limits") for page in (ROOT / "docs" / folder).glob("*.md")]
    others = ("py.typed", "runtime/pages/page.css", "runtime/pages/page.js")
    return {file.relative_to(ROOT).as_posix() for file in files}.union(others)


def test_the_source_distribution_holds_what_the_wheel_is_made_of(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()]
    about = "README.md CHANGELOG.md CITATION.cff LICENSE MANIFEST.in PKG-INFO pyproject.toml setup.cfg"
    inside = {name for name in names if not name.startswith("calque.egg-info/")}
    assert inside == package_files().union(about.split())


def test_the_wheel_holds_every_module(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == {f"calque/{name}" for name in package_files()}


def test_twine_takes_both(sdist: Path, wheel: Path) -> None:
    pytest.importorskip("twine", reason="twine comes with the extra `dev`")
    command = [sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


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
