"""Random programs: what is printed computes what Core says, and leaves the arguments alone."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any

import numpy as np
import pytest
from core_eval import evaluate
from emit_random import Maker, arguments

import calque.transpiler.primitives  # noqa: F401
from calque.transpiler.codegen.numpy.emit import emit_function
from calque.transpiler.ir import core
from calque.transpiler.ir.phases import label
from calque.transpiler.ir.text import show


def outcome(run: Any) -> tuple[Any, str]:
    """Return the result of a call, and the text that it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        result = run()
    return result, out.getvalue()


def compare(function: core.Function, seed: int) -> str:
    args = arguments(function, seed)
    label(function.body.statements, "reverse" if seed % 2 else "")
    text = emit_function(function)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, "<emitted>", "exec"), scope)
    given = copy.deepcopy(args)
    want, said = outcome(lambda: copy.deepcopy(evaluate(function, args)))
    have, shown = outcome(lambda: scope["f"](*given))
    context = f"{show(function)}\n{text}"
    for before, now in zip(args, given, strict=True):
        assert np.array_equal(before, now), f"an argument was modified\n{context}"
    for w, h in zip(want, have, strict=True):
        assert np.array_equal(w, h), f"{w} expected, {h} computed\n{context}"
    assert said == shown, context
    return text


@pytest.mark.parametrize("seed", range(150))
def test_random_program(seed: int) -> None:
    compare(Maker(seed).function(), seed)
    compare(Maker(seed + 10000, size=4).function(), seed)


def test_the_text_is_the_same_every_time() -> None:
    for seed in range(20):
        assert emit_function(Maker(seed).function()) == emit_function(Maker(seed).function())
