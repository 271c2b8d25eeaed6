"""Kernels are one text: what `source` shows, `save` writes and a call compiles are the same lines."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_golden_kernels
from sampling import sampled
from saved_programs import CASES
from test_kernel_parts import arguments, long_program

import calque
from battery.registry import load
from calque.runtime.saving.reading import module_source
from calque.targets import resolve

ROOT = Path(calque.__file__).resolve().parent
DECORATORS = {"kernel", "kernel_part"}


def kernels(text: str) -> dict[str, list[str]]:
    """The lines of each kernel of a module, and of its parts, with their decorators."""
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        heads = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        named = {n.id for h in heads for n in ast.walk(h) if isinstance(n, ast.Name)}
        if named & DECORATORS:
            found[node.name] = lines[heads[0].lineno - 1 : node.end_lineno]
    return found


def assert_one_text(jitted: Any, *args: Any) -> int:
    """The same kernels, line by line; returns how many there are."""
    shown = kernels(calque.source(jitted, *args))
    saved = kernels(module_source(jitted, *args))
    compiled = kernels(str(jitted.program(*args).text))
    assert list(shown) == list(saved) == list(compiled)
    for name, lines in shown.items():
        assert saved[name] == lines
        assert compiled[name] == lines
    return len(shown)


@pytest.mark.parametrize("name", test_golden_kernels.CASES)
def test_kernels_of_golden_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    file, function, transform, *types = test_golden_kernels.CASES[name]
    fn, args = resolve(f"{file}:{function}", transform, *(types or [None]))
    shown, saved = kernels(calque.source(fn, *args)), kernels(module_source(fn, *args))
    assert shown == saved
    assert shown


@pytest.mark.parametrize("case", range(len(CASES)))
def test_complex_narrow_unsigned_and_wrapping_numbers(case: int) -> None:
    function, args = CASES[case]
    assert assert_one_text(calque.jit(function), *args)


@pytest.mark.parametrize("options", [{"parallel": True}, {"reassociate": False}, {"boundscheck": True}])
def test_options_are_spelled_alike(options: dict[str, Any]) -> None:
    for function, args in sampled(CASES, 3):
        assert assert_one_text(calque.jit(function, **options), *args)


def test_parts_of_long_kernels() -> None:
    assert assert_one_text(calque.jit(calque.grad(long_program)), *arguments()) > 1


PROGRAMS = [p for p in load() if p.diff]


@pytest.mark.parametrize("program", sampled(PROGRAMS, 8), ids=lambda p: p.id)
def test_gradients_of_the_battery(program: Any) -> None:
    gradient = calque.value_and_grad(program.scalar(), argnums=program.diff)
    assert_one_text(calque.jit(gradient), *program.fresh())


def test_sums_of_integers_say_that_they_wrap() -> None:
    def total(k: Any) -> Any:
        s = 0
        for i in range(k.size):
            s += k[i] * 3
        return s

    text = calque.source(calque.jit(total), np.arange(4))
    assert "s = wrapped_sum(s, wrapped_product(k[i], 3))" in text
    assert "for i in range(k.size)" in text  # i + 1 and its like are proven to fit
