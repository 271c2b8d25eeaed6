"""Imports run one way: every module's imports, also those inside functions, are held to DESIGN's order."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
LAYERS = (
    *("errors", "verdicts", "forking", "types", "inequalities", "spans", "dims", "core", "magnitudes", "listing", "words", "debug", "sizes", "tree", "arrays", "builder", "primitives", "parsing", "frontend", "analyses"),
    *("passes", "emit", "calls", "transformations", "transposition", "lanewise", "batching", "devices", "jacobians", "implicit", "single_statements", "placements"),
    "pipeline",
)
HEAVY = ("numba", "llvmlite", "cupy", "mpi4py", "jax", "scipy", "autograd", "pygments", "matplotlib")


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    files = [*ROOT.glob("*.py"), *(ROOT / "transpiler").rglob("*.py"), *ROOT.glob("runtime/**/*.py")]
    found = {}
    for file in files:
        parts = list(file.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(["calque", *parts])] = file
    return found


MODULES = modules()


def layer_of(module: str) -> tuple[int, str]:
    """A module's height in the house, and the name of its layer."""
    match module.split("."):
        case ["calque"]:
            return 101, "calque"
        case ["calque", "cli" | "targets" | "verifying" | "__main__"]:
            return 102, "cli"
        case ["calque", "runtime", *_]:
            return 100, "runtime"
        case ["calque", "transpiler"]:
            return -1, "transpiler"
        case ["calque", "transpiler", name, *_] if name in LAYERS:
            return LAYERS.index(name), name
    raise AssertionError(f"{module} has no place in the layers of tests/test_layers.py")


def imports(module: str) -> list[tuple[int, str]]:
    """The modules of calque that a module imports, with line numbers; relative imports by their dots."""
    found = []
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.append((node.lineno, full if full in MODULES else base))
    return [(line, name) for line, name in found if name.split(".")[0] in ("calque", "")]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_run_one_way(module: str) -> None:
    height, layer = layer_of(module)
    for line, name in imports(module):
        place = f"{MODULES[module].relative_to(ROOT)}:{line} imports {name}"
        assert not name.startswith("."), f"{place}: imports are absolute"
        assert name in MODULES, f"{place}: no such module"
        other_height, other_layer = layer_of(name)
        assert other_height <= height, f"{place}: {other_layer} stands above {layer}"
        if layer == "passes" and other_layer == "passes":
            assert name in ("calque.transpiler.passes", module), f"{place}: a pass imports no pass"


def test_importing_calque_loads_nothing_heavy() -> None:
    code = f"import sys, calque; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_transpiler_does_not_import_the_runtime() -> None:
    code = (
        "import importlib, pkgutil, sys, types\n"
        "root = types.ModuleType('calque'); root.__path__ = [sys.argv[1]]\n"
        "root.__version__ = '0'; sys.modules['calque'] = root\n"
        "import calque.transpiler as t\n"
        "for found in pkgutil.walk_packages(t.__path__, 'calque.transpiler.'):\n"
        "    importlib.import_module(found.name)\n"
        "print(*[name for name in sys.modules if name.startswith('calque.runtime')])\n"
    )
    command = [sys.executable, "-c", code, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
