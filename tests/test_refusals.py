"""Everything that is refused says where, what, and what to write instead."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from battery import refusals, refusals_structure  # noqa: F401  (fills the register)
from battery.refusals import MARK, REFUSALS, Refusal
from calque.transpiler import errors
from calque.transpiler.ir.arrays import function_name

each = pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)


def marked_lines(refusal: Refusal) -> dict[int, str]:
    """The lines that the error may point at: number and code, without the mark."""
    lines, start = inspect.getsourcelines(refusal.where)
    found = {
        start + offset: line.split("#")[0].strip()
        for offset, line in enumerate(lines)
        if MARK in line
    }
    assert found, f"{refusal.name} marks no line"
    return found


def error_of(refusal: Refusal) -> errors.CalqueError:
    with pytest.raises(errors.CalqueError) as caught:
        refusal.run()
    return caught.value


@each
def test_kind_of_error(refusal: Refusal) -> None:
    assert isinstance(error_of(refusal), getattr(errors, refusal.error))


@each
def test_message_shows_the_line(refusal: Refusal) -> None:
    error = error_of(refusal)
    text = str(error)
    lines = text.splitlines()
    pointed = [number for number in marked_lines(refusal) if f"line {number}," in text]
    assert Path(inspect.getsourcefile(refusal.where) or "").name in text
    assert pointed, text
    code = marked_lines(refusal)[pointed[0]]
    shown = next((index for index, line in enumerate(lines) if code in line), None)
    assert shown is not None, text
    caret = lines[shown + 1]
    assert caret.strip() and set(caret.strip()) == {"^"}, text
    first = len(caret) - len(caret.lstrip())
    left = lines[shown].index(code)
    assert left <= first and len(caret) <= left + len(code), text


@each
def test_message_says_what_to_write_instead(refusal: Refusal) -> None:
    error = error_of(refusal)
    assert error.message
    assert error.hint
    assert error.hint in str(error)


def test_nothing_was_changed_while_refusing() -> None:
    for refusal in REFUSALS:
        with pytest.raises(errors.CalqueError):
            refusal.run()
    assert refusals.TOTAL == 0.0
    assert refusals.LOG == []
    assert refusals.CACHE == {}
    assert not refusals.BUFFER.any()
    assert refusals.MODEL.calls == 0
    assert np.array_equal(refusals.MODEL.weight, np.ones(3))
    assert next(refusals.STREAM) == 0


def test_function_without_source() -> None:
    scope: dict[str, Any] = {"np": np}
    exec("def f(x):\n    return np.sum(x)\n", scope)
    with pytest.raises(errors.CalqueError, match="source"):
        calque.grad(scope["f"])(np.ones(2))


def test_lambda_without_source() -> None:
    with pytest.raises(errors.CalqueError, match="source"):
        calque.grad(eval("lambda x: x * x"))(2.0)


@pytest.mark.parametrize("argnums", [2, -3, (0, 5)])
def test_argnums_out_of_range(argnums: Any) -> None:
    with pytest.raises((ValueError, TypeError, errors.CalqueError)):
        calque.grad(lambda x, y: x * y, argnums=argnums)(1.0, 2.0)


def test_errors_keep_the_type_that_jax_raises() -> None:
    """JAX raises TypeError for what has no gradient; so does calque, through its own class."""
    with pytest.raises(TypeError):
        calque.grad(lambda x: x * 2)(3)
    with pytest.raises(TypeError):
        calque.grad(lambda x: x * 2.0)(np.ones(3))


def test_functions_are_named_as_users_write_them() -> None:
    special, linalg = pytest.importorskip("scipy.special"), pytest.importorskip("scipy.linalg")
    names = {
        np.linalg.norm: "np.linalg.norm",
        np.ma.masked_where: "np.ma.masked_where",
        np.hypot: "np.hypot",
        special.betainc: "scipy.special.betainc",
        linalg.solve: "scipy.linalg.solve",
    }
    assert [function_name(f) for f in names] == list(names.values())
