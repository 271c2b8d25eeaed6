"""Imports run one way: between rooms by a fixed order, between files without a circle; and names.

A room is a folder. What stands in it may import from rooms before it in the order below, never from
those behind it; imports within functions count, and so do names given to ``import_module``. No name is
that of two files or of two classes.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

import calque

ROOT = Path(calque.__file__).resolve().parent
TRANSPILER = (
    *("late", "errors", "forking", "prng", "ir", "primitives", "frontend"),
    *("vectorize", "algebra", "loops.bounds", "loops.accesses", "loops.dependence", "loops.products", "autodiff.tape", "autodiff", "autodiff.rules", "spmd"),
    *("sparsity", "transformations", "loops", "memory", "outlining"),
    *("codegen.text", "codegen.numba", "codegen", "codegen.numpy", "codegen.cuda", "diagnostics", "passes", "kernel_passes", "pipeline", "texts", "costs"),
)
RUNTIME = (
    *("version", "gc_pause", "linear_systems", "vecmath", "kernels", "engines", "tracebacks"),
    *("outside", "parameters", "inlining", "fitting", "gpus", "meshes", "options", "record_types", "spec", "debug_nans", "collectives"),
    *("primitive", "registering", "trees", "tree", "call", "cuda", "tiers", "type_protocols", "typed", "transformed", "inner", "custom"),
    *("custom_root", "linear_maps", "devices", "api", "more_derivatives", "sparse", "check"),
    *("saving.provenance", "saving.stage_programs", "saving.titles", "saving.pass_remarks", "saving.cost_texts"),
    *("saving.cost_report", "pages", "saving", "interpreted", "random"),
    *("scipy_twins", "bridges"),
)
LAYERS = (
    *(f"transpiler.{name}" for name in TRANSPILER),
    *(f"runtime.{name}" for name in RUNTIME),
    *("", "argument_files", "targets", "help_pages", "verifying", "cli", "__main__"),
)
HEAVY = (
    *("numba", "llvmlite", "cupy", "mpi4py", "jax", "scipy", "autograd", "pygments", "matplotlib"),
    *("optree", "numpy.random", "casadi", "torch", "pytensor", "pymc", "openmdao"),
)
# Passes that other passes ask, too: what is said of a loop there is said once.
ASKED = {"parallelize": "whether iterations are independent", "bounds": "whether an index is inside"}
SAME_FILES: dict[str, str] = {}
SAME_CLASSES: dict[str, str] = {}


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
ROOMS = {module for module, file in MODULES.items() if file.name == "__init__.py"}


class Read(NamedTuple):
    """The parts of a module's text that the tests need; the syntax tree is not kept."""

    imports: list[tuple[int, str]]  # with line numbers, and relative ones by their dots
    docstring: str
    classes: list[str]


@functools.cache
def read(module: str) -> Read:
    """A module's text, read once by each process of pytest that asks for it."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return Read(_imports(tree, module), ast.get_docstring(tree) or "", classes)


def layer_of(module: str) -> str:
    """The innermost room, or file beside the rooms, that has a place in the order."""
    name = module.removeprefix("calque").removeprefix(".")
    while name not in LAYERS:
        assert "." in name, f"{module} has no place in the layers of tests/test_layers.py"
        name = name.rpartition(".")[0]
    return name


def _imports(tree: ast.Module, module: str) -> list[tuple[int, str]]:
    """The modules of calque that a module imports, with line numbers; relative imports by their dots."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.append((node.lineno, full if full in MODULES else base))
        elif isinstance(node, ast.Call):
            found += [(node.lineno, name) for name in _named(node, module)]
    return [(line, name) for line, name in found if name.split(".")[0] in ("calque", "")]


def _named(call: ast.Call, module: str) -> list[str]:
    """The name that a call gives to ``import_module`` or ``__import__``, as far as its text says it.

    Of a name that is put together, the innermost room that is sure: ``f"calque.runtime.{name}"`` is an
    import of ``calque.runtime``, and ``f"{__name__}.{name}"`` one of the module itself.
    """
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "name")]
    if ast.unparse(call.func).split(".")[-1] not in ("import_module", "__import__") or not given:
        return []
    text = ""
    for part in given[0].values if isinstance(given[0], ast.JoinedStr) else given[:1]:
        match part:
            case ast.Constant(value=str(value)):
                text += value
            case ast.FormattedValue(value=ast.Name(id="__name__")):
                text += module
            case _:
                while text and text not in MODULES:
                    text = text.rpartition(".")[0]
                break
    return [text] if text else []


def imports(module: str) -> list[tuple[int, str]]:
    """The modules of calque that a module imports."""
    return read(module).imports


def test_names_given_to_import_module_are_imports() -> None:
    text = """
import importlib, numpy
from calque.transpiler import prng
def late(name):
    importlib.import_module("calque.runtime.random")
    __import__("calque.runtime.api")
    import_module(name="calque.transpiler.prng.bits")
    importlib.import_module(f"calque.runtime.{name}")
    importlib.import_module(f"calque.transpiler.prng.uni{name}")
    importlib.import_module(f"{__name__}.{name}")
    importlib.import_module(f"{__name__}.exp")
    importlib.import_module(".random", "calque.runtime")
    importlib.import_module("scipy.linalg"), importlib.import_module(name), importlib.import_module(f"{name}.x")
"""
    assert sorted(_imports(ast.parse(text), "calque.runtime.vecmath")) == [
        (3, "calque.transpiler.prng"),
        (5, "calque.runtime.random"),
        (6, "calque.runtime.api"),
        (7, "calque.transpiler.prng.bits"),
        (8, "calque.runtime"),
        (9, "calque.transpiler.prng"),
        (10, "calque.runtime.vecmath"),
        (11, "calque.runtime.vecmath.exp"),
        (12, ".random"),
    ]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_run_one_way(module: str) -> None:
    if module in ("calque.transpiler", "calque.runtime"):
        assert not imports(module)
        return
    layer = layer_of(module)
    for line, name in imports(module):
        place = f"{MODULES[module].relative_to(ROOT)}:{line} imports {name}"
        assert not name.startswith("."), f"{place}: imports are absolute"
        assert name in MODULES, f"{place}: no such module"
        other = layer_of(name)
        assert LAYERS.index(other) <= LAYERS.index(layer), f"{place}: {other} stands above {layer}"


def test_no_imports_go_in_a_circle() -> None:
    graph = {m: {name for _, name in imports(m) if name != m} for m in MODULES}
    for room in ROOMS - {"calque.runtime.kernels", "calque.runtime.random", "calque.runtime.vecmath"}:
        graph[room] -= {name for name in graph[room] if name.startswith(f"{room}.")}
    graphlib.TopologicalSorter(graph).prepare()


def test_a_pass_imports_no_pass() -> None:
    rooms = tuple(f"calque.transpiler.{room}." for room in ("algebra", "loops", "memory"))
    lists = ("passes", "kernel_passes")
    found = [name for each in lists for _, name in imports(f"calque.transpiler.{each}")]
    led = {name for name in found if name.startswith(rooms)}
    passes = {name for name in led if name.rpartition(".")[2] not in ASKED}
    for module in passes:
        assert not {name for _, name in imports(module)} & passes, f"{module}: a pass imports no pass"


def test_a_name_is_one_files() -> None:
    places = defaultdict(list)
    for file in MODULES.values():
        if file.name != "__init__.py":
            places[file.stem].append(str(file.relative_to(ROOT)))
    found = {name: where for name, where in places.items() if len(where) > 1}
    assert found.keys() == SAME_FILES.keys(), found


def test_a_name_is_one_classs() -> None:
    places = defaultdict(list)
    for module in MODULES:
        for name in read(module).classes:
            places[name].append(module)
    found = {name: where for name, where in places.items() if len(where) > 1}
    assert found.keys() == SAME_CLASSES.keys(), found


@pytest.mark.parametrize("room", sorted(ROOMS - {"calque"}))
def test_a_room_says_what_it_is_for(room: str) -> None:
    """The docstring of a folder names its inputs, its outputs, and the file to read first."""
    text = " ".join(read(room).docstring.split())
    for words in (("In come", "In comes"), ("out go", "Out go", "out come", "Out come"), ("Read ",)):
        assert any(w in text for w in words), f"{room}: {words[0]} ..."


@pytest.mark.parametrize("room", sorted(ROOMS - {"calque"}))
def test_what_a_room_tells_to_read_is_here(room: str) -> None:
    here = {part for module in MODULES for part in module.split(".")}
    for sentence in re.findall(r"Read\s[^.;:]*", read(room).docstring):
        named = {part for name in re.findall(r"``([\w/]+)``", sentence) for part in name.split("/")}
        assert named <= here, f"{room}: {named - here}"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_file_says_what_it_is(module: str) -> None:
    assert read(module).docstring


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


def test_loops_are_written_by_the_rewriter() -> None:
    """No pass builds a loop by hand: definitions, sizes and bounds would not follow."""
    writers = {"calque.transpiler.ir.core", "calque.transpiler.ir.rewrite"}
    readers = {"calque.transpiler.diagnostics.parsing"}  # of Core's own text
    transpiler = {m: file for m, file in MODULES.items() if m.startswith("calque.transpiler.")}
    found = {m for m, file in transpiler.items() if _builds_loops(file.read_text("utf-8"))}
    assert found == writers | readers


def _builds_loops(text: str) -> bool:
    """True if a module calls For or While of Core; ``case For(...)`` is a pattern, not a call."""
    code = "\n".join(line for line in text.split("\n") if "case " not in line)
    return re.search(r"(?<![\w.])(core\.)?(For|While)\(", code) is not None
