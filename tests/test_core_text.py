"""The text of Core is read back to an equal program."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calque
from battery.oracle import copied
from battery.registry import Program, load
from calque.runtime.transformed import Transformed
from calque.transpiler.codegen.numpy.emit import emit_module
from calque.transpiler.diagnostics.parsing import parse
from calque.transpiler.errors import CalqueError, CoreError
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.core import Function, Parameter, Slot, Var
from calque.transpiler.ir.text import show

ALL = [p for p in load() if p.refused is None]
TRIED = ALL if os.environ.get("CALQUE_TESTS") == "all" else ALL[::6]


WAYS = {
    "value": lambda p: Transformed("observed", p.fn),
    "gradient": lambda p: Transformed("observed", calque.grad(p.scalar(), argnums=p.diff)),
    "gradient in loops": lambda p: calque.jit(calque.grad(p.scalar(), argnums=p.diff)),
}


def run(function: Function, leaves: list[Any]) -> list[Any]:
    """Run the NumPy text of a program on flat arguments; return its results as a list."""
    made = replace(function, name="program", signature=[], result=())
    made.signature = [Parameter(f"value_{k}", p) for k, p in enumerate(made.params)]
    made.result = tuple(
        Slot(k) if isinstance(r, Var) else r for k, r in enumerate(made.body.results)
    )
    namespace: dict[str, Any] = {}
    exec(emit_module(made, title=""), namespace)
    with np.errstate(all="ignore"):
        return list(namespace["program"](*leaves))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", TRIED, ids=lambda p: p.id)
def test_text_is_read_back(program: Program, way: str) -> None:
    args, transformed = program.fresh(), WAYS[way](program)
    try:
        made = transformed.program(*args)
    except CalqueError:
        return  # refused for this way: no program
    traced = made.traced
    text = show(traced.function)
    again, _ = parse(text)
    assert show(again) == text

    if not traced.compiled and not traced.function.imports and not traced.function.helpers:
        leaves, places = pytrees.flatten((args, {}))[0], traced.builder.leaf_of_param
        given = [leaves[places[p]] for p in traced.function.params if p in places]
        given += made.hidden(transformed.dispatcher().root).values()
        found, wanted = (run(f, [copied(x) for x in given]) for f in (again, traced.function))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


MALFORMED = {
    "f(x: float64)": "a block has no yield",
    "f(x: float64)\n    y = np.add(x, x)\n  yield y": "y has no type",
    "f(x: float64)\n    y: float64 = np.add(x, x)\n  yield y": "not where it belongs",
    "f(x: float64)\n    y: float64 = np.ad(x, x)\n    yield y": "no primitive np.ad",
    "f(x: float64)\n    yield z": "no earlier value, and no constant: z",
    "f(x: float64)\n    x: float64 = np.add(x, x)\n    yield x": "x is defined twice",
    "f(x: float64)\n    y: float64 = if True:\n        yield x\n    yield y": "needs its else",
    "f(x: float64)\n    while carrying :\n            yield True\n    yield x": "needs its body",
    "f(x: float64)\n    nothing\n    yield x": "no statement",
    "x: float64": "no head",
    "f(x: float64)\n    y: float64 = if True:\n        z: float64 = np.add(x, x)\n        yield z\n"
    "    else:\n        yield x\n    yield z": "z:float64 is read outside its scope",
    "f(x: float64)\n    y: int = if True:\n        yield x\n    else:\n        yield x\n"
    "    yield y": "if: x:float64 given to y:int",
    "f(x: float64, n: int)\n    y: float64 = for i in range(0, n, 1) carrying y.1: float64 = n:\n"
    "        yield y.1\n    yield y": "for, at entry: n:int given to y:float64",
    "f(x: float64)\n    y: float64 = while carrying y.1: float64 = x:\n            yield True\n"
    "    do:\n        k: int = np.negative(1)\n        yield k\n"
    "    yield y": "while, next iteration: k:int given to y:float64",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_no_program_is_refused_by_line(text: str) -> None:
    with pytest.raises(CoreError, match=MALFORMED[text]):
        parse(text)
