"""The effect of each pass on small programs, and programs to which it must not apply.

``pass_examples/PASS.txt`` holds programs in the text of Core: a line that says what is shown, the
program before, and after ``->`` the program after, or ``the same``. Numbers decide whether the pass
is right: both programs are run. ``CALQUE_GOLDEN=write pytest tests/test_passes.py`` writes what
comes after the arrow.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque.runtime.kernels.integer_functions import checked_index
from calque.runtime.linear_systems import solve_triangular
from calque.transpiler import kernel_passes, pipeline
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.codegen.numpy.emit import emit_module
from calque.transpiler.diagnostics.parsing import parse
from calque.transpiler.ir.core import Function, Parameter, Slot, Var
from calque.transpiler.ir.pass_manager import Work
from calque.transpiler.ir.text import show
from calque.transpiler.ir.verify import verify
from calque.transpiler.primitives.extrema import rescaled_sum

FOLDER = Path(__file__).parent / "pass_examples"
WRITE = os.environ.get("CALQUE_GOLDEN") == "write"
PASSES = {p.name: p for p in (*pipeline.CORE_PASSES, *kernel_passes.KERNEL_PASSES)}
WITHOUT = {  # passes without examples, and why
    "inline_calls": "what is called is no statement of Core's text",
    "spread_phases": "phases are not in the text",
    "insert_shape_guards": "it asks which sizes an operation took to be equal, which the text does not say",
    "gather": "it asks which iterations a reverse loop undoes, which the text does not say",
    "mark_in_bounds": "the frontend has marked what it proves, in all examples",
    "mark_parallel": "its marks are seen in other passes' examples; tests/test_parallel_loops.py",
    "demote_parallel_to_serial": "it undoes marks; tests/test_parallel_loops.py",
    "estimate_parallel_work": "it writes what explain prints; tests/test_parallel_loops.py",
    "hoist_creations": "it moves what no kernel can make; tests/test_creations.py",
    "forward_terms": "what is a scan is a verdict, not in the text; tests/test_cuda_scans.py",
    "fuse_scans": "what is a scan is a verdict, not in the text; tests/test_cuda_scans.py",
    "scan_in_parts": "what is a scan is a verdict, not in the text; tests/test_cuda_scans.py",
    "split_index_set": "it asks for sizes of a call; tests/test_index_set_splitting.py",
}
SIZE = 64  # of every axis of an argument, where a pass chooses by the sizes of the call


def examples() -> list[tuple[str, str]]:
    """A pass and what an example shows, for each."""
    return [
        (file.stem, part.partition("\n")[0])
        for file in sorted(FOLDER.glob("*.txt"))
        for part in parts(file)
    ]


def parts(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").removeprefix("== ").split("\n== ")


def run_pass(name: str, text: str) -> Function:
    """The program of ``text`` after a pass."""
    function, builder = parse(text)
    builder.dims.actual = dict.fromkeys(builder.dims.arguments, SIZE)
    with builder.active(), np.errstate(all="ignore"):
        PASSES[name].run(Work(function, builder, NUMBA))
    verify(function)
    return function


def numbers(function: Function) -> Any:
    """Run the NumPy text of a program on random arguments of its parameters' types."""
    sizes: dict[str, int] = {}
    args = [argument(p, sizes, np.random.default_rng(k)) for k, p in enumerate(function.params)]
    made = replace(function, name="program")
    made.signature = [Parameter(f"value_{k}", p) for k, p in enumerate(function.params)]
    count = len(function.body.results)
    made.result = tuple(
        Slot(k) if isinstance(function.body.results[k], Var) else function.body.results[k]
        for k in range(count)
    )
    namespace: dict[str, Any] = {
        "checked_index": checked_index,
        "solve_triangular": solve_triangular,
        "rescaled_sum": rescaled_sum.function,
    }
    exec(emit_module(made, title=""), namespace)
    return namespace["program"](*args)


def argument(param: Var, sizes: dict[str, int], rng: np.random.Generator) -> Any:
    """Numbers of a type: small positive integers; square matrices positive definite."""
    shape = tuple(
        d if isinstance(d, int) else sizes.setdefault(str(d), 4 + len(sizes))
        for d in param.type.dims
    )
    if param.type.dtype.kind == "i":
        return rng.integers(0, 4, shape) if shape else 3
    if not shape:
        return 1.5
    values = rng.uniform(0.5, 1.5, shape)
    square = len(shape) == 2 and shape[0] == shape[1]
    return values @ values.T + 4.0 * np.eye(shape[0]) if square else values


@pytest.mark.parametrize(("name", "title"), examples())
def test_what_a_pass_does(name: str, title: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = FOLDER / f"{name}.txt"
    (part,) = [p for p in parts(file) if p.startswith(f"{title}\n")]
    before, arrow, after = part.removeprefix(title).strip("\n").partition("\n->\n")
    before = show(parse(before)[0])
    changed = run_pass(name, before)
    made = show(changed)
    shown = "the same\n" if made == before else made

    wanted = numbers(parse(before)[0])
    printed = capsys.readouterr().out
    for found, want in zip(numbers(changed), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12)
    assert capsys.readouterr().out == printed

    if WRITE:
        text = file.read_text(encoding="utf-8").replace(
            part.strip("\n"), f"{title}\n{before}->\n{shown}".strip("\n")
        )
        file.write_text(text, encoding="utf-8")
    else:
        assert arrow and after.strip("\n") + "\n" == shown, (
            "CALQUE_GOLDEN=write pytest tests/test_passes.py"
        )


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda f: f.stem)
def test_a_pass_has_an_example_of_each_kind(file: Path) -> None:
    after = [part.partition("\n->\n")[2].strip() for part in parts(file)]
    assert any(a != "the same" for a in after) and any(a == "the same" for a in after)


def test_every_pass_has_examples_or_a_reason() -> None:
    missing = PASSES.keys() - {name for name, _ in examples()} - WITHOUT.keys()
    assert not missing, f"{FOLDER.name}/NAME.txt shows what {', '.join(sorted(missing))} does"
