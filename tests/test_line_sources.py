"""Each line of a generated text knows the user's lines that it answers, and its phase."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import page_programs as programs
import pytest

import calque
from calque.runtime.saving.stage_programs import at_stage, program_at
from calque.transpiler import texts
from calque.transpiler.codegen.text.recording import recorded
from calque.transpiler.diagnostics.line_sources import (
    BLANK,
    CODE,
    COMMENT,
    HEAD,
    OTHER,
    PHASE,
    LineSource,
    line_sources,
)

FILE = Path(programs.__file__)
USERS = ["", *FILE.read_text(encoding="utf-8").splitlines()]
N, M = calque.spec("f8[n]"), calque.spec("f8[n,4]")
SETTLE = (N, 0.1, 5)
NET = (M, [calque.spec("f8[4,4]")] * 6)


def sources(fn: Callable[..., Any], *args: Any, stage: str | None = None) -> list[tuple[str, LineSource]]:
    """Each line of a text with its source."""
    transformed = at_stage(fn, stage)
    program = program_at(transformed, args, stage)
    with recorded() as written:
        text = texts.function_text(program.traced, transformed.generated_name())
    return list(zip(text.rstrip("\n").split("\n"), line_sources(text.rstrip("\n"), written), strict=True))


def answered(line: LineSource) -> list[str]:
    """The user's lines that a line answers, nearest first."""
    assert all(Path(o.file) == FILE for o in line.origins)
    return list(dict.fromkeys(USERS[o.line].strip() for o in line.origins))


def one(found: list[tuple[str, LineSource]], text: str, phase: str) -> LineSource:
    """The only line of a phase that begins with a text."""
    (line,) = [s for t, s in found if t.strip().startswith(text) and s.phase == phase and s.kind == CODE]
    return line


def test_control_flow() -> None:
    found = sources(calque.grad(programs.settle), *SETTLE, stage="numpy")
    assert answered(one(found, "for t in range(steps):", "forward")) == ["for t in range(steps):"]
    assert answered(one(found, "for t in range(steps - 1", "reverse")) == ["for t in range(steps):"]
    assert answered(one(found, "if q[0]", "reverse")) == ["if q[0] > 1.0:"]
    assert answered(one(found, "q_bar[1:] +=", "reverse")) == ["u[1:-1] += np.sin(q[1:]) - q[:-1]"]
    assert answered(one(found, "u_bar[1:-1] *= 0.5", "reverse")) == ["u[1:-1] *= 0.5"]
    assert answered(one(found, "u_bar = 2.0 * u", "reverse")) == ["return np.sum(u * u)"]


def test_a_helper_and_the_call_of_it() -> None:
    found = sources(calque.grad(programs.settle), *SETTLE)
    for text, phase in (("q = k * diff_u", "forward"), ("u_bar -= np.diff", "reverse")):
        line = next(s for t, s in found if t.strip().startswith(text) and s.phase == phase)
        assert answered(line) == ["return k * np.diff(u)"]
        assert USERS[line.origins[0].statement_line].strip() == "q = flux(u, k)"


def test_a_while_and_what_stands_before_it() -> None:
    found = sources(calque.grad(programs.newton), 2.0)
    loop = "while np.abs(x * x - a) > 1e-10:"
    assert answered(one(found, "while ", "forward")) == [loop]
    assert answered(one(found, "iterations = 0", "forward")) == [loop]
    assert answered(one(found, "x_bar = 1.0", "reverse")) == [loop]
    last = [s for t, s in found if s.phase == "reverse" and "x = 0.5 * (x + a / x)" in answered(s)]
    assert len(last) >= 3


def test_functions_that_stay_functions() -> None:
    found = sources(calque.grad(programs.net), *NET)
    assert {s.function for _, s in found if s.kind == CODE} == {"layer_reverse", "net_grad"}
    inside = [s for _, s in found if s.function == "layer_reverse" and s.kind == CODE]
    assert {s.phase for s in inside} == {"reverse"}
    assert {line for s in inside for line in answered(s)} == {USERS[k].strip() for k, t in enumerate(USERS) if t.strip().startswith(("h = np.tanh", "return h /"))}
    calls = [s for t, s in found if "= layer_reverse(" in t]
    assert calls and all(s.phase == "reverse" and s.origins for s in calls)


def test_batched_code() -> None:
    batched = calque.vmap(calque.grad(programs.newton))
    found = sources(batched, N)
    assert all(s.origins for _, s in found if s.kind in (CODE, COMMENT, HEAD))
    assert "while np.abs(x * x - a) > 1e-10:" in answered(one(found, "while ", "forward"))


def test_kernels() -> None:
    found = sources(calque.jit(calque.grad(programs.settle)), *SETTLE)
    kernel = [(t, s) for t, s in found if s.function == "settle_grad_kernel"]
    assert answered(one(kernel, "u[i + 1] +=", "forward")) == ["u[1:-1] += np.sin(q[1:]) - q[:-1]"]
    assert answered(one(kernel, "q_bar[i + 1] +=", "reverse")) == ["u[1:-1] += np.sin(q[1:]) - q[:-1]"]
    (call,) = [s for t, s in found if t.strip().startswith("u_bar = settle_grad_kernel(")]
    assert call.phase == "forward and reverse" and len(answered(call)) >= 5


def test_kernels_in_c() -> None:
    found = sources(calque.jit(calque.grad(programs.settle)), *SETTLE, stage="cuda")
    lines = [s for t, s in found if re.match(r" +q_bar\[i \+ 1\] \+= .*;$", t)]
    assert [answered(s)[0] for s in lines] == ["u[1:-1] += np.sin(q[1:]) - q[:-1]"]
    assert [s.phase for s in lines] == ["reverse"]
    assert all(s.origins for t, s in found if s.function and s.kind in (CODE, COMMENT, HEAD))
    assert {t.partition(" ")[0] for t, s in found if s.kind == OTHER} <= {"code", '"""', *(s.function for _, s in found)}


def test_a_launch_answers_first_what_most_of_its_kernel_answers() -> None:
    found = sources(calque.jit(calque.grad(programs.settle)), *SETTLE, stage="cuda")
    launches = {t.strip().partition("(")[0]: s for t, s in found if re.match(r" +\w+_kernel\w*\(", t)}
    first = answered(launches["settle_grad_kernel"])
    assert first[0] == "return k * np.diff(u)" and "for t in range(steps):" in first


def test_the_size_of_an_array_is_no_place() -> None:
    """A statement that asks an array for its size alone does not answer what computed the array."""
    found = sources(calque.grad(programs.sized), N)
    filled = one(found, "y_before_bar = np.full(y.size", "reverse")
    assert answered(filled) == ["y = np.concatenate((x, np.sin(x)))"]


def test_kinds_of_lines() -> None:
    found = sources(calque.grad(programs.weighted), N, N)
    assert [s.kind for _, s in found][:2] == [HEAD, PHASE]
    for text, source in found:
        expected = {"": BLANK, "# reverse": PHASE, "# forward": PHASE}.get(text.strip())
        assert source.kind == (expected or (HEAD if text.startswith("def") else COMMENT if text.strip().startswith("#") else CODE))
        if source.kind == COMMENT:
            assert source.statement >= 0 and source.origins


def test_a_statement_on_several_lines_has_one_number() -> None:
    found = sources(calque.jit(calque.grad(programs.net)), *NET)
    start = next(k for k, (t, _) in enumerate(found) if t.endswith("net_grad_kernel("))
    numbers = {s.statement for _, s in found[start : start + 3]}
    assert len(numbers) == 1 and found[start + 2][0].strip() == ")"
    assert found[start + 3][1].statement not in numbers


def test_the_head_of_a_function_answers_the_users() -> None:
    found = sources(calque.grad(programs.spring.energy), N)
    assert USERS[found[0][1].origins[0].line].strip() == 'def energy(self, x: "f8[n]"):'
    assert found[-1][0].startswith("    return ") and found[-1][1].phase == "reverse"


def test_the_head_of_a_partial_answers_the_first_statement() -> None:
    found = sources(calque.grad(partial(programs.weighted, w=2.0)), N)
    assert answered(found[0][1]) and found[0][1].kind == HEAD
    assert all(s.origins for _, s in found if s.kind in (CODE, COMMENT))


def test_a_text_of_another_program_answers_nothing() -> None:
    with recorded() as written:
        pass
    assert {s.kind for s in line_sources("def f(x):\n    return x", written)} == {OTHER}


def test_writing_is_not_recorded_unless_asked() -> None:
    with recorded() as written:
        calque.source(calque.grad(programs.newton), 3.0)
    count = len(written.statements)
    calque.source(calque.grad(programs.weighted), N, N)
    assert count and len(written.statements) == count


@pytest.mark.parametrize("stage", ["numpy", "kernels"])
@pytest.mark.parametrize("name", ["settle", "newton", "weighted"])
def test_every_line_of_a_text_has_a_source(name: str, stage: str) -> None:
    args = {"settle": SETTLE, "newton": (2.0,), "weighted": (N, N)}[name]
    for text, source in sources(calque.grad(getattr(programs, name)), *args, stage=stage):
        assert source.origins or source.kind in (PHASE, BLANK), text
