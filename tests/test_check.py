"""``calque.check``: passes where the derivative is right, else names the statement that is not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampling import sampled
from test_random_programs import REFUSED, arguments, imported

import calque
from calque.runtime.check.bisecting import find_faults
from calque.runtime.check.checking import examine
from calque.transpiler.autodiff.forward import Push
from calque.transpiler.errors import CalqueError, NotDifferentiable, WrongDerivative
from calque.transpiler.primitives.record import PRIMITIVES

WEIGHTS = np.array([0.3, -0.7, 1.1])
ROWS = np.array([[0.2, 0.5, -0.4], [1.0, -0.3, 0.8], [-0.6, 0.1, 0.9], [0.4, 0.4, 0.4]])


def program(w, x):
    y = np.tanh(x @ w)
    s = 0.0
    for i in range(y.size):
        if y[i] > 0.0:
            s = s + np.exp(y[i])
        else:
            s = s - np.sin(y[i]) * w[0]
    t = s
    while t > 1.0:
        t = np.sqrt(t) - 0.1
    z = np.zeros(3)
    for i in range(3):
        z[i] = w[i] * t
    return np.sum(np.cos(z)) + np.linalg.det(np.outer(z, w) + np.eye(3))


def line_of(mark: str) -> int:
    lines, start = inspect.getsourcelines(program)
    return start + next(k for k, line in enumerate(lines) if mark in line)


def fresh() -> Callable[..., Any]:
    """The program as a function that calque has not met: nothing generated for it is cached."""
    return lambda w, x: program(w, x)


def doubled(rule: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(given, outs, args, params):
        return tuple(None if g is None else 2.0 * g for g in rule(given, outs, args, params))

    return wrong


def test_a_right_program() -> None:
    report = calque.check(program, WEIGHTS, ROWS)
    assert report.agrees and not report.faults
    lines = str(report).splitlines()
    assert lines[0].split() == ["argument", "forward", "reverse", "differences", "agree"]
    assert [line.split()[0] for line in lines[1:]] == ["w", "x"]
    assert all(line.split()[-1] == "yes" for line in lines[1:])


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("np.matmul", "x @ w"),
        ("np.tanh", "np.tanh"),
        ("np.exp", "np.exp"),
        ("np.sin", "np.sin"),
        ("np.sqrt", "np.sqrt"),
        ("np.cos", "np.cos"),
        ("np.linalg.det", "np.linalg.det"),
    ],
)
def test_a_wrong_rule_is_named(name: str, mark: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    primitive = PRIMITIVES[name]
    monkeypatch.setattr(primitive, mode, doubled(getattr(primitive, mode)))
    with pytest.raises(WrongDerivative) as caught:
        calque.check(fresh(), WEIGHTS, ROWS)
    origin = caught.value.origin
    assert origin is not None and Path(origin.file).name == Path(__file__).name
    assert origin.line == line_of(mark) and origin.function == "program"
    word, other = ("forward", "reverse") if mode == "jvp" else ("reverse", "forward")
    expected = f"The derivative of {name}: {word} mode disagrees with {other} mode and with differences ("
    assert caught.value.message.startswith(expected)


def test_wrong_in_both_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    primitive = PRIMITIVES["np.exp"]
    monkeypatch.setattr(primitive, "jvp", doubled(primitive.jvp))
    monkeypatch.setattr(primitive, "vjp", doubled(primitive.vjp))
    with pytest.raises(WrongDerivative, match="forward and reverse mode disagree with differences") as caught:
        calque.check(fresh(), WEIGHTS, ROWS)
    assert caught.value.origin is not None and caught.value.origin.line == line_of("np.exp")


def test_all_faults_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("np.exp", "np.cos"):
        monkeypatch.setattr(PRIMITIVES[name], "vjp", doubled(PRIMITIVES[name].vjp))
    report = examine(fresh(), (WEIGHTS, ROWS))
    assert [f.operation for f in report.faults] == ["np.exp", "np.cos"]
    assert report.error().message.endswith(f"So does line {line_of('np.cos')}.")


def test_whole_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PRIMITIVES["np.exp"], "vjp", doubled(PRIMITIVES["np.exp"].vjp))
    with pytest.raises(AssertionError) as caught:
        calque.check(fresh(), WEIGHTS, ROWS)
    text = str(caught.value).splitlines()
    assert text[:3] == [
        f"{__file__}, line {line_of('np.exp')}, in program",
        "    s = s + np.exp(y[i])",
        "            ^^^^^^^^^^^^",
    ]
    assert text[3].startswith("The derivative of np.exp: reverse mode disagrees with forward mode and ")
    assert len(text) == 4 and isinstance(caught.value, CalqueError)


def test_a_loop_that_is_wrong_though_its_statements_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of a pass: the innermost statement that is wrong by itself is the loop."""
    right = Push.push_loop

    def wrong(self, s, tangents):
        right(self, s, tangents)
        tangents.update({out: 2.0 * tangents[out] for out in s.outs if out in tangents})

    monkeypatch.setattr(Push, "push_loop", wrong)
    report = examine(fresh(), (WEIGHTS, ROWS))
    lines = [f.origin.line for f in report.faults if f.origin]
    assert [f.operation for f in report.faults] == ["the for loop", "the while loop", "the for loop"]
    assert lines[:2] == [line_of("for i in range(y.size)"), line_of("while t > 1.0")]


def test_no_statement_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole that is wrong though every statement is right is told as such."""
    right = calque.runtime.check.checking.vjp

    def wrong(fn, *args):
        out, pullback = right(fn, *args)
        return out, lambda seed: tuple(2.0 * bar for bar in pullback(seed))

    monkeypatch.setattr(calque.runtime.check.checking, "vjp", wrong)
    with pytest.raises(WrongDerivative, match="every statement is right by itself"):
        calque.check(program, WEIGHTS, ROWS)


def test_a_jump_is_no_slope() -> None:
    def decay(rate, end):
        y, t = 1.0, 0.0
        while t < end:
            y, t = y - 0.01 * rate * y, t + 0.01
        return y

    report = str(calque.check(decay, 0.3, 1.0))
    rate, end = report.splitlines()[1:3]
    assert rate.endswith("yes") and end.endswith("a jump")
    assert report.endswith("By end the function jumps here: try other arguments.")
    assert "jump" not in str(calque.check(lambda x: np.abs(x).sum(), np.array([0.0, 1.0])))


def test_kinks_and_symmetric_matrices() -> None:
    """A slope between those at a kink's sides is right; a factorization means symmetric steps."""
    calque.check(lambda x: np.sum(np.maximum(x, 0.0) + np.abs(x)), np.array([0.0, 1.0, -2.0]))
    matrix = ROWS.T @ ROWS + np.eye(3)
    calque.check(lambda a: np.sum(np.linalg.cholesky(a)), matrix)
    calque.check(lambda a: np.linalg.eigvalsh(a)[0], matrix)


def test_containers_integers_and_results() -> None:
    def fn(params, k, *rest):
        y = params["w"] * k + rest[0]
        return {"y": y, "n": k, "z": (np.sin(y), 2 * params["c"])}

    report = calque.check(fn, {"w": WEIGHTS, "c": 1.0 + 2.0j}, 3, WEIGHTS.astype("f4"))
    assert [name for name, _ in report.rows] == ["params", "rest"]
    calque.check(calque.grad(lambda x: np.sum(x**3)), WEIGHTS)
    with pytest.raises(NotDifferentiable, match="no argument is of a floating dtype"):
        calque.check(lambda k: k * 2, 3)


def test_captured_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x):
        return np.sum(np.arctan(x * WEIGHTS))

    calque.check(fn, WEIGHTS)
    monkeypatch.setattr(PRIMITIVES["np.arctan"], "vjp", doubled(PRIMITIVES["np.arctan"].vjp))
    with pytest.raises(WrongDerivative, match="np.arctan"):
        calque.check(lambda x: fn(x), WEIGHTS)


@pytest.mark.parametrize("seed", sampled([k for k in range(100, 115) if k not in REFUSED], 3))
def test_statements_of_right_programs_are_right(seed: int, tmp_path: Path) -> None:
    """No statement of a random program is accused."""
    fn = imported(seed, tmp_path)
    assert [f.message for f in find_faults(fn, arguments(seed), 0)] == []


@calque.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def cube_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return cube(x), 2.0 * x * x * x_dot  # 3.0 is meant


@calque.custom_vjp
def halved(x, y):
    return 0.5 * x * y


halved.defvjp(lambda x, y: (halved(x, y), (x, y)), lambda kept, bar: (0.5 * bar * kept[1], bar * kept[0]))


def wrong_tangent(x):
    y = np.sin(x)
    for i in range(3):
        y[i] = y[i] + cube(x[i])
    return np.sum(y)


FACTORS = np.array([-1.0, -2.0, -1.0])  # -1.0 everywhere is meant


@calque.opaque(result=lambda x: x, vjp=lambda bar, y, x: -2.0 * bar * np.sin(x))  # 1.0 is meant
def outside(x):
    return np.cos(x)


@calque.opaque(result=lambda x: x, vjp=lambda bar, y, x: bar * FACTORS * np.sin(x))
def captures(x):
    return np.cos(x)


def wrong_captures(x):
    y = np.exp(x)
    return np.sum(y * captures(y))


def wrong_opaque(x):
    y = np.exp(x)
    return np.sum(y * outside(y))


def wrong_cotangent(x):
    y = np.sin(x)
    z = halved(y, np.cos(x))
    return np.sum(z * z)


@pytest.mark.parametrize(
    ("fn", "text", "verdict"),
    [
        (wrong_tangent, "cube(x[i])", "cube: forward and reverse mode disagree with differences ("),
        (wrong_opaque, "outside(y)", "tests.test_check.outside: reverse mode disagrees with differences ("),
        (wrong_captures, "captures(y)", "tests.test_check.captures: reverse mode disagrees with diff"),
        (wrong_cotangent, "halved(y, np.cos(x))", "halved: reverse mode disagrees with differences ("),
    ],
)
def test_a_wrong_custom_rule_is_named(fn: Callable[..., Any], text: str, verdict: str) -> None:
    with pytest.raises(WrongDerivative) as caught:
        calque.check(fn, WEIGHTS)
    origin = caught.value.origin
    assert origin is not None and origin.text[origin.column : origin.end_column] == text
    assert caught.value.message.startswith(f"The derivative of {verdict}")


def test_functions_made_anew_are_each_checked() -> None:
    """Such functions share their programs; what each has captured is its own."""

    def scaled(weights):
        return lambda x: np.sum(weights * cube(x))

    for scale in (1.0, 2.0, 3.0):
        with pytest.raises(WrongDerivative, match="The derivative of cube"):
            calque.check(scaled(np.full(3, scale)), np.ones(3))


def test_a_right_custom_vjp() -> None:
    """Forward mode is refused there, so that reverse mode is compared with differences alone."""

    @calque.custom_vjp
    def squared(x):
        return x * x

    squared.defvjp(lambda x: (squared(x), x), lambda x, bar: (2.0 * x * bar,))
    report = calque.check(lambda x: np.sum(squared(np.cos(x))), WEIGHTS)
    assert str(report).splitlines()[1].split()[:2] == ["x", "refused"]


@calque.custom_vjp
def wrong_square(a):
    return a * a


wrong_square.defvjp(lambda a: (a * a, a), lambda a, y_bar: (3.0 * a * y_bar,))


@pytest.mark.parametrize(("value", "said"), [(np.nan, r"b\['y'\]\[1\] is nan"), (np.inf, r"b\['y'\]\[1\] is inf")])
def test_a_number_that_is_not_finite_is_named(value, said) -> None:
    def total(a, b):
        return np.sum(a * b["y"])

    with pytest.raises(calque.transpiler.errors.NonFiniteError, match=said):
        calque.check(total, np.ones(2), {"y": np.array([1.0, value])})
    with pytest.raises(WrongDerivative):  # not for the bound, which is no reason
        calque.check(lambda a, bound: np.sum(np.minimum(wrong_square(a), bound)), np.ones(2), np.inf)
    assert calque.check(lambda a, b: np.sum(np.minimum(a, b)), np.ones(2), np.array([np.inf, 2.0])).agrees
