"""Loop-invariant arrays in gradients are computed once, before the loop."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque

pytest.importorskip("numba")

A = np.array([[0.3, -0.2], [0.5, 0.1]])
X = np.array([0.4, 0.7])


def unit_and_more(A, x):
    n = x.size
    for _ in range(3):
        B = np.eye(n) + 0.01 * A
        x = B @ x
    return np.sum(x * x)


def stored(A, x):
    for t in range(3):
        B = np.sin(A) + 0.5
        B[0, 0] = x[0] * t
        x = B @ x
    return np.sum(x * x)


def given_on(A, x):
    B = np.cos(A)
    for _ in range(3):
        x = B @ x
        B = np.sin(A) * 2.0
    return np.sum(x * x)


def within_a_branch(A, x):
    for t in range(4):
        if x[0] > 0.0:
            B = A * A
            x = np.sin(B @ x) - 0.1 * t
        else:
            x = x + 1.0
    return np.sum(x * x)


def within_two_loops(A, x):
    for t in range(2):
        for k in range(3):
            x = np.tanh((A + A.T) @ x) * (k + t + 1)
    return np.sum(x * x)


def until(A, x):
    t = 0.0
    while t < 1.0:
        B = 0.5 * A
        x = B @ x + x
        t = t + 0.3
    return np.sum(x * x)


PROGRAMS = [unit_and_more, stored, given_on, within_a_branch, within_two_loops, until]


def check(program: Any, args: tuple[np.ndarray, ...]) -> None:
    gradient = calque.grad(program, argnums=tuple(range(len(args))))
    for found in (gradient(*args), calque.jit(gradient)(*args)):
        for k, (arg, slopes) in enumerate(zip(args, found, strict=True)):
            for place in np.ndindex(arg.shape):
                ends = []
                for step in (1e-6, -1e-6):
                    moved = arg.copy()
                    moved[place] += step
                    ends.append(program(*args[:k], moved, *args[k + 1 :]))
                wanted = (ends[0] - ends[1]) / 2e-6
                assert np.isclose(slopes[place], wanted, rtol=1e-5, atol=1e-7), (k, place)


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients(program: Any) -> None:
    check(program, (A, X))


@pytest.mark.parametrize("program", [unit_and_more, until, within_two_loops])
def test_they_stand_before_the_loop(program: Any) -> None:
    text = calque.source(calque.grad(program), A, X)
    made = {"unit_and_more": "np.eye(n) + ", "until": "0.5 * A", "within_two_loops": "A + A.T"}
    lines = [line for line in text.splitlines() if made[program.__name__] in line.partition("#")[0]]
    assert [len(line) - len(line.lstrip()) for line in lines] == [4]


@pytest.mark.parametrize("program", [stored, given_on, within_a_branch])
def test_what_is_stored_into_or_given_on_stays(program: Any) -> None:
    text = calque.source(calque.grad(program), A, X).partition("# reverse")[0]
    inside = [line for line in text.splitlines() if line.startswith("        ")]
    assert any(word in line for line in inside for word in (" + 0.5", " * 2.0", "A * A"))


def test_a_loop_without_iterations_warns_of_nothing() -> None:
    """The logarithm of -1 is never taken."""

    def logarithm(a, iterations):
        s = 0.0
        for _ in range(iterations):
            s = s + np.sum(np.log(a) * a)
        return s

    with np.errstate(all="raise"):
        np.testing.assert_array_equal(calque.grad(logarithm)(-np.ones(2), 0), np.zeros(2))


def random_program(seed: int) -> str:
    """Return a program of nested loops, some of whose statements are loop-invariant."""
    choose = random.Random(seed)
    lines = ["import numpy as np", "", "def program(A, x):", "    c = 0.5"]

    def value() -> str:
        forms = ("np.sin({0})", "{0} * 0.7", "np.tanh({0}) + 0.1", "c * {0}", "{0} * {0} - 0.2")
        return choose.choice(forms)

    def body(indent: str, depth: int) -> None:
        lines.append(f"{indent}x = 0.9 * x")
        for _ in range(choose.randint(2, 4)):
            kind = choose.random()
            if kind < 0.3:
                lines.append(f"{indent}M = {value().format('A')} + np.eye(2)")
                lines.append(f"{indent}x = np.tanh(M @ x)")
            elif kind < 0.45:
                lines.append(f"{indent}N = {value().format('A.T')}")
                if choose.random() < 0.4:
                    lines.append(f"{indent}N[1, 0] = x[1] * c")
                lines.append(f"{indent}x = x + 0.3 * np.sin(N @ x)")
            elif kind < 0.6:
                lines.append(f"{indent}u = {value().format('b')}")
                lines.append(f"{indent}x = 0.8 * x + u")
            elif kind < 0.7:
                lines.append(f"{indent}b = {value().format('b')}")
            elif kind < 0.85 and depth < 3:
                lines.append(f"{indent}for i{depth} in range({choose.randint(0, 3)}):")
                body(indent + "    ", depth + 1)
            elif depth < 3:
                lines.append(f"{indent}if x[0] > 0.2:")
                body(indent + "    ", depth + 1)

    lines.append(f"    b = {value().format('A[0]')}")
    lines.append("    for t in range(3):")
    body("        ", 1)
    lines.append("    return np.sum(x * x) + 3.0 * np.sum(b)")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", sampled(range(60), 6))
def test_random_programs(seed: int) -> None:
    text, name = random_program(seed), f"<random invariants {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)
    check(namespace["program"], (A, X))
