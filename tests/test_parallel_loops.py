"""``parallel(f)``: which loops run on threads, the reason that is told for each, and the numbers."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque import cli

pytest.importorskip("numba")

RNG = np.random.default_rng(3)
X, P, V = RNG.random((40, 30)), RNG.permutation(40), RNG.random(40)


def rows(x: Any) -> Any:
    y = np.zeros(x.shape)
    for i in range(x.shape[0]):  # parallel: stores y[i, j]
        for j in range(x.shape[1]):  # could be
            y[i, j] = x[i, j] ** 2
    return y


def gauss_seidel(u: Any) -> Any:
    for i in range(1, u.shape[0] - 1):  # line 3 reads u[i - 1, j], which it stored in the previous iteration (distance 1)
        for j in range(1, u.shape[1] - 1):  # line 3 reads u[i, j - 1], which it stored in the previous iteration (distance 1)
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


def prefix_sum(x: Any) -> Any:
    y = x.copy()
    for i in range(1, x.size):  # line 3 reads y[i - 1], which it stored in the previous iteration (distance 1)
        y[i] = y[i - 1] + x[i]
    return y


def third_before(x: Any) -> Any:
    y = x.copy()
    for i in range(3, x.size):  # line 3 reads y[i - 3], which it stored in the third iteration before (distance 3)
        y[i] = y[i - 3] + x[i]
    return y


def downward(x: Any) -> Any:
    y = x.copy()
    for i in range(x.size - 3, -1, -1):  # line 3 reads y[i + 2], which it stored in the second iteration before (distance 2)
        y[i] = 0.5 * y[i + 2] + x[i]
    return y


def overwritten(x: Any) -> Any:
    y = x.copy()
    for i in range(x.size - 1):  # line 3 stores y[i], which it read in the previous iteration (distance 1)
        y[i] = 2.0 * y[i + 1]
    return y


def two_statements(x: Any) -> Any:
    a, b = x.copy(), x.copy()
    for i in range(1, x.size):  # line 3 reads b[i - 1], which line 4 stored in the previous iteration (distance 1)
        a[i] = b[i - 1] + 1.0
        b[i] = 0.5 * a[i]
    return a, b


def total_of(x: Any) -> Any:
    total = 0.0
    for i in range(x.size):  # line 3 is a reduction: all iterations combine into total
        total += x[i] * x[i]
    return total


def largest(x: Any) -> Any:
    most = x[0]
    for i in range(x.size):  # line 3 is a reduction: all iterations combine into most
        most = max(most, x[i])
    return most


def decaying(x: Any) -> Any:
    s = 0.0
    for i in range(x.size):  # line 3 computes s, which the next iteration reads (distance 1)
        s = np.sin(s) + x[i]
    return s


def histogram(x: Any, bins: Any) -> Any:
    found = np.zeros(40)
    for i in range(x.size):  # line 3 may add to one element in two iterations
        found[bins[i]] += x[i]
    return found


def permuted(x: Any, p: Any) -> Any:
    y = np.zeros(x.size)
    for i in range(x.size):  # line 3 may store to one element in two iterations
        y[p[i]] = x[i]
    return y


def gathered(x: Any, p: Any) -> Any:
    y = np.zeros(p.size)
    for i in range(p.size):  # line 3 may raise
        y[i] = x[p[i]]
    return y


def stencil(u: Any) -> Any:
    v = u.copy()
    for i in range(1, u.shape[0] - 1):  # parallel: stores v[i, j]
        for j in range(1, u.shape[1] - 1):  # could be
            v[i, j] = u[i - 1, j] + u[i + 1, j] - u[i, j - 1]
    return v


def triangle(u: Any) -> Any:
    a = u[:30, :30].copy()
    for i in range(a.shape[0]):  # parallel: stores a[i, j]
        for j in range(i):  # could be
            a[i, j] = 2.0 * a[j, i]
    return a


def steps_of_rows(u: Any, steps: int) -> Any:
    v = u.copy()
    for t in range(steps):  # line 5 reads u[i, j], which line 8 stored in the previous iteration (distance 1)
        for i in range(u.shape[0]):  # parallel: stores v[i, j]
            for j in range(u.shape[1]):  # could be
                v[i, j] = 0.5 * u[i, j]
        for i in range(u.shape[0]):  # parallel: stores u[i, 0]
            for j in range(u.shape[1]):  # line 8 computes u[i, 0], whose last value is read after the loop
                u[i, 0] = v[i, j]
    return u


def own_column(u: Any) -> Any:
    for i in range(1, u.shape[0]):  # line 3 reads u[i - 1, j], which it stored in the previous iteration (distance 1)
        for j in range(u.shape[1]):  # too little work: a loop within another, and holds none
            u[i, j] += 0.5 * u[i - 1, j]
    return u


def tiny(x: Any) -> Any:
    y = x.copy()
    for i in range(8):  # too little work: 8 iterations
        y[i] = 2.0 * x[i + 1]
    return y


def asserting(x: Any) -> Any:
    y = np.zeros(x.size)
    for i in range(x.size):  # line 3 may raise
        assert x[i] >= 0.0
        y[i] = x[i]
    return y


TABLE: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    *((f, (X,)) for f in (rows, gauss_seidel, stencil, triangle, own_column)),
    *((f, (V,)) for f in (prefix_sum, third_before, downward, overwritten, two_statements)),
    *((f, (V,)) for f in (total_of, largest, decaying, tiny, asserting)),
    *((f, (V, P)) for f in (histogram, permuted, gathered)),
    (steps_of_rows, (X, 3)),
]


def expected(function: Callable[..., Any]) -> list[tuple[int, str]]:
    """The line of each loop, and the reason that its comment gives, with lines of this file."""
    start = function.__code__.co_firstlineno
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()[start - 1 :]
    found = []
    for k, line in enumerate(lines[: function_length(lines)]):
        if line.lstrip().startswith("for "):
            told = line.partition("  # ")[2]
            told = re.sub(r"\bline (\d+)", lambda m: f"line {start + int(m[1])}", told)
            found.append((start + k, told))
    return found


def function_length(lines: list[str]) -> int:
    return next(k for k, line in enumerate(lines) if k and not line.strip())


def test_each_loop_has_its_reason() -> None:
    missing = []
    for function, args in TABLE:
        text = calque.explain(function, *args, parallel=True)
        told = {int(m[1]): m[2] for m in re.finditer(r"^test_parallel_loops.py:(\d+): (.*)$", text, re.M)}
        for line, reason in expected(function):
            said, words = told.get(line, ""), reason.partition(": stores ")
            if not (words[0] in said and words[2] in said and ("is not" in said) == _is_serial(reason)):
                missing.append((function.__name__, line, reason, said))
    assert not missing


def test_a_sum_under_a_branch_and_a_number_that_is_read() -> None:
    def positive(x: Any) -> Any:
        total = 0.0
        for i in range(x.size):
            if x[i] > 0.5:
                total += x[i]
        return total

    def read_between(x: Any) -> Any:
        total = 0.0
        for i in range(x.size):
            total += x[i]
            x[i] = total
        return x

    assert "is a reduction" in calque.explain(positive, V, parallel=True)
    assert "computes total, which the next iteration reads" in calque.explain(read_between, V, parallel=True)


def _is_serial(reason: str) -> bool:
    return not reason.startswith(("parallel", "could be"))


@pytest.mark.parametrize(("function", "args"), TABLE, ids=lambda value: getattr(value, "__name__", ""))
def test_the_numbers_are_plain_pythons(function: Any, args: Any) -> None:
    plain, mine = copy.deepcopy(args), copy.deepcopy(args)
    wanted, found = function(*plain), calque.parallel(function)(*mine)
    np.testing.assert_allclose(found, wanted, rtol=1e-13)
    for one, other in zip(mine, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def several(x: Any, p: Any) -> Any:
    y = np.zeros(x.shape)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = np.sin(x[i, j])
    z = np.zeros(40)
    for i in range(p.size):
        z[p[i]] += y[i, 0]
    return y, z


def test_the_source_says_why_and_what_raises_is_apart() -> None:
    text = calque.source(calque.parallel(several), X, P)
    assert "# i is parallel: no two iterations share an element, and one stores y[i, j]\n    for i in prange(" in text
    assert "# i is not parallel: `z[p[i]] += y[i, 0]` may add to one element" in text
    threads, checked, _ = text.split("\n\n\n")
    assert threads.startswith("@kernel(parallel=True)") and "checked_index" in checked
    for one, other in zip(calque.parallel(several)(X, P), several(X, P), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    with pytest.raises(IndexError):
        calque.parallel(several)(X, P + 1)


def test_jit_says_nothing() -> None:
    assert "#" not in calque.source(calque.jit(several, parallel=True), X, P)


def test_gradients_and_compositions() -> None:
    def loss(x: Any) -> Any:
        return np.sum(rows(x))

    for made in (calque.parallel(calque.grad(loss)), calque.grad(calque.parallel(loss))):
        np.testing.assert_allclose(made(X), 2.0 * X, rtol=1e-14)
    assert "is parallel" in calque.source(calque.jit(calque.parallel(rows)), X)
    with pytest.raises(TypeError, match="parallel: fun must be"):
        calque.parallel(3)
    doubled = calque.grad(lambda x: np.sum(calque.parallel(rows)(x)))
    np.testing.assert_allclose(doubled(X), 2.0 * X, rtol=1e-14)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "loops_of_rows.py"
    body = "    for i in range(1, x.size):\n        x[i] += x[i - 1]\n    return x\n"
    file.write_text(f"def running(x):\n{body}")
    assert cli.main(["explain", f"{file}:running", "--parallel", "--args", "f8[n]"]) == 0
    told = "line 3 reads x[i - 1], which it stored in the previous iteration (distance 1)"
    assert capsys.readouterr().out.splitlines() == [
        f"loops_of_rows.py:2: i is not parallel: {told}",
        "    for i in range(1, x.size):",
        "    3: x[i] += x[i - 1]",
    ]
    saved = tmp_path / "saved.py"
    command = ["show", f"{file}:running", "--transform", "parallel(f)", "--args", "f8[n]"]
    assert cli.main([*command, "-o", str(saved)]) == 0
    assert '--transform "parallel(f)"' in saved.read_text()
    assert "# i is not parallel" in saved.read_text()
