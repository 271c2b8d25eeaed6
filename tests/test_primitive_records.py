"""One record for each primitive: no code asks for one by name, and gaps are listed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque.transpiler.primitives.record import PRIMITIVES, Primitive

ROOT = Path(calque.__file__).resolve().parent / "transpiler"
# names that may be said of nothing else than a primitive: not "copy", a dict's method, too
OWN = {n for n in PRIMITIVES if any(c in n for c in "._ ")} | {"getitem", "astype", "psum", "pcast"}
# the strings that are left, by file, and why
REMAINING = {
    "frontend/control/raising.py": (
        {"getitem", "np.divide", "np.floor_divide", "np.power", "np.remainder"}
        | {f"np.linalg.{n}" for n in ("det", "norm", "slogdet")},
        "operations that may raise, and those of families that do not",
    ),
    "codegen/numba/called_functions.py": (
        {"checked_index", "solve_triangular"}
        | {f"random_{n}" for n in ("bits", "uniform", "normal", "exponential")},
        "functions of the runtime that kernels call",
    ),
    "codegen/cuda/cuda_module.py": ({"checked_index"}, "a function of the runtime"),
    "codegen/cuda/random_functions.py": (
        {f"random_{n}{f}" for n in ("bits", "uniform", "normal", "exponential") for f in ("", "f")}
        | {"random_word"},
        "functions that kernels call",
    ),
    "codegen/cuda/device_functions.py": (
        {"checked_index", "rescaled_sum"},
        "functions that kernels call",
    ),
    "codegen/numpy/mpi_launcher.py": ({"all_gather"}, "a function of the module that it writes"),
    "frontend/expressions.py": ({"getitem"}, "Python's operator, not the primitive"),
    "ir/arrays.py": ({"getitem"}, "Python's operator, not the primitive"),
    "ir/builder.py": ({"size of axis"}, "an entry of FUNCTIONS: the builder is below all records"),
    "primitives/compositions.py": ({"astype"}, "a method of arrays"),
    "primitives/diagonals.py": ({"np.diagonal", "np.trace"}, "declared in a loop"),
    "primitives/joining.py": ({"np.vstack", "np.hstack", "np.column_stack"}, "declared in a loop"),
    "primitives/shapes.py": ({"size of axis"}, "an entry of FUNCTIONS, for the builder"),
    "primitives/random.py": ({"random.between"}, "the text of its call"),
}
# where the name of a primitive itself is compared, and why
NAMED = {
    "algebra/triangular_solves.py": "with the names of the user's parameters",
    "codegen/numba/whole_array_calls.py": "with the functions in texts that Numba has",
    "primitives/joining.py": "with its own, in a loop that declares three",
    "primitives/record.py": "with those that are declared already",
}
# the records without a rule that others have: what is refused, by that name
WITHOUT: dict[str, set[str]] = {
    "jvp": set(),
    "vjp": set(),
    # of known sizes, or of a pass that comes after batching
    "batch": {
        *("axis_number", "checked_index", "constant", "np.arange of floats"),
        *("np.histogram of edges", "np.indices"),
        *("linalg.eigh_tridiagonal", "linalg.solve_circulant"),  # one matrix at a time
        *("np.tril_indices", "np.triu_indices", "reshape of dead memory", "solve_triangular"),
    },
}
DECLARING = ("name", "method", "attribute", "op", "word", "suffix", "infix", "arithmetic", "numba")
FILES = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.py"))


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """The node around each node."""
    return {inner: outer for outer in ast.walk(tree) for inner in ast.iter_child_nodes(outer)}


def strings(file: str) -> Iterator[str]:
    """The names of primitives in a file, whole or in a text that is split, but in declarations."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    around = parents(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        outer = around[node]
        if file.startswith("primitives/"):
            declared = isinstance(outer, ast.Call) and not isinstance(outer.func, ast.Attribute)
            if declared or (isinstance(outer, ast.keyword) and outer.arg in DECLARING):
                continue
        split = isinstance(outer, ast.Attribute) and outer.attr == "split"
        yield from (n for n in (node.value.split() if split else [node.value]) if n in OWN)


def is_name_of_primitive(node: ast.AST) -> bool:
    """True if an expression is ``s.primitive.name`` or the like."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    return ast.unparse(node.value).split(".")[-1] == "primitive"


@pytest.mark.parametrize("file", FILES)
def test_no_name_of_a_primitive_stands_for_it(file: str) -> None:
    allowed, _ = REMAINING.get(file, (set(), ""))
    assert set(strings(file)) == allowed, "ask for the record, or say in REMAINING why not"


@pytest.mark.parametrize("file", FILES)
def test_no_module_compares_the_name_of_a_primitive(file: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    asked = [
        node.lineno
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.Compare)
            and any(map(is_name_of_primitive, (node.left, *node.comparators)))
        )
        or (isinstance(node, ast.Match) and is_name_of_primitive(node.subject))
        or (isinstance(node, ast.Subscript) and is_name_of_primitive(node.slice))
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and any(map(is_name_of_primitive, node.args))
        )
    ]
    assert bool(asked) == (file in NAMED), f"{file}: lines {asked}"


def lacks(primitive: Primitive) -> list[str]:
    """List the rules that a record lacks, of those that its kind can have."""
    found = []
    if not primitive.nondifferentiable and primitive.kind != "size":
        found += [rule for rule in ("jvp", "vjp") if getattr(primitive, rule) is None]
    if primitive.batch is None and primitive.kind not in ("elementwise", "size", "collective"):
        found.append("batch")
    if primitive.kind != "elementwise" and not (
        primitive.element or primitive.reduction or primitive.lowering or primitive.in_loops
    ):
        found.append("loops")
    if primitive.kind == "elementwise" and not (primitive.scalar or primitive.numba):
        found.append("scalar")
    return found


def test_what_each_record_lacks() -> None:
    """All have a value, types, text and samples; what else is missing is printed, with ``-s``."""
    rows = {name: lacks(p) for name, p in sorted(PRIMITIVES.items())}
    for name, missing in rows.items():
        if missing:
            print(f"{name}: {', '.join(missing)}")
    for primitive in PRIMITIVES.values():
        assert callable(primitive.function) and callable(primitive.infer), primitive
        assert primitive.spelling and primitive.samples, primitive
    for rule, names in WITHOUT.items():
        assert {name for name, missing in rows.items() if rule in missing} == names, rule


# one device alone gives its operand; nobody stores into a key
ALONE = {n for n, p in PRIMITIVES.items() if p.kind == "collective"} | {"random.clone"}


def shared(one: Any, other: Any) -> bool:
    """True if two values are arrays that share memory."""
    both = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    return both and np.shares_memory(one, other)


@pytest.mark.parametrize("name", sorted(n for n, p in PRIMITIVES.items() if p.kind != "store"))
def test_a_result_shares_memory_only_where_the_record_says(name: str) -> None:
    primitive = PRIMITIVES[name]
    assert primitive.samples is not None
    if primitive.view_back is not None or primitive.aliases or name in ALONE:
        return
    for args, params in primitive.samples(np.random.default_rng(0)):
        with np.errstate(all="ignore"):
            found = primitive.function(*args, **params)
        outs = found if isinstance(found, tuple) else (found,)
        assert not any(shared(out, a) for out in outs for a in args)


def test_what_is_true_of_booleans_is_written_plainly_in_kernels() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        return np.where(np.logical_and(x > 1.0, x < 4.0), x, 0.0)

    x = np.arange(6.0)
    compiled = calque.jit(f)
    assert np.array_equal(compiled(x), f(x))
    assert " and " in compiled.source(x) and "bool(" not in compiled.source(x)
