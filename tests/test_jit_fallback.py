"""Functions that run as NumPy source under ``jit`` say so: once, with the line and the reason."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque import grad, jit, pmap, vmap
from calque.runtime.call import fallback
from calque.transpiler.codegen.numba import scalar_text

X = np.linspace(0.0, 2.0, 7)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is a process of its own in what has been told."""
    monkeypatch.setattr(fallback, "_given", set())


def signs(x: Any) -> Any:
    total = 0.0
    for k in range(x.size):
        t = 2.0 * x[k]
        total += np.sign(t) * t
    return total


def printed(x: Any) -> Any:
    v = 0.0
    for k in range(x.size):
        v = 0.5 * v + x[k]
        if v > 1e9:
            print("large", v)
    return v


def warned(x: Any) -> Any:
    v = 0.0
    for k in range(x.size):
        v = 0.5 * v + x[k]
        if v > 1e9:
            warnings.warn(f"large {v:.1f}", stacklevel=1)
    return v


def elements(x: Any) -> Any:
    return np.sum(2.0 * x + np.exp(x))


def recurrence(x: Any) -> Any:
    v = x[0]
    for k in range(1, x.size):
        v = v * x[k] + x[k - 1]
    return v


def spread(x: Any, y: Any) -> Any:
    total = 0.0
    for k in range(1, x.size + 1, x.size - 1):
        total = total + np.sum(x[:k] * y)
    return total


def trained(x: Any) -> Any:
    w = np.zeros(3)
    for epoch in range(4):
        w = w - 0.1 * (w - x[:3])
        print(epoch, np.sum(w))
    return np.sum(w)


def factored(x: Any) -> Any:
    a = np.outer(x, x) + np.eye(x.size)
    for _ in range(3):
        q, r = np.linalg.qr(a)
        a = r @ q
    return a[0, 0] * 1.0


def told_of(function: Any, *args: Any) -> str:
    """The one warning that three calls give."""
    with pytest.warns(calque.JitFallback) as caught:
        found = [function(*args) for _ in range(3)]
    assert len(caught) == 1
    np.testing.assert_array_equal(found[0], found[2])
    return str(caught[0].message)


SLOW = {
    "print": (printed, X, "print", 5),
    "warn": (warned, X, "warn", 5),
    "elements of float16": (elements, X.astype(np.float16), "numbers of float16", 1),
    "a loop of float16": (recurrence, X.astype(np.float16), "numbers of float16", 3),
    "elements of longdouble": (elements, X.astype(np.longdouble), "numbers of", 1),
}


@pytest.mark.parametrize("case", SLOW)
def test_what_no_kernel_has_is_told(case: str) -> None:
    function, x, reason, line = SLOW[case]
    fast = jit(function)
    before = calque.explain(fast, x)
    message = told_of(fast, x)
    assert f"No kernel has {reason}" in message and "Instead: " in message
    assert f"line {function.__code__.co_firstlineno + line}, in {function.__name__}" in message
    assert message in before
    assert calque.explain(fast, x) == before


def test_the_warning_stands_at_the_users_line() -> None:
    with pytest.warns(calque.JitFallback) as caught:
        jit(lambda x: printed(x))(X)
    assert caught[0].filename == __file__
    assert caught[0].lineno == printed.__code__.co_firstlineno + 5


def test_it_can_be_raised_or_silenced() -> None:
    fast = jit(lambda x: printed(2.0 * x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", calque.JitFallback)
        with pytest.raises(calque.JitFallback, match="No kernel has print"):
            fast(X)
    assert fast(X) == printed(2.0 * X)  # it has been told
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calque.JitFallback)
        jit(lambda x: printed(3.0 * x))(X)


@pytest.mark.parametrize("function", [trained, factored, elements])
def test_loops_around_work_on_arrays_are_none(function: Any) -> None:
    jit(function)(X)  # a warning is an error here


class Refused:
    """Spellings that Numba does not take."""

    attribute = "{0}.no_such_attribute"
    function = "np.no_such_function({0})"
    syntax = "float(f'{{0}:+.0f}')"


@pytest.fixture
def refused(request: Any, monkeypatch: Any) -> str:
    """Let Numba refuse what stands for ``np.sign``."""
    monkeypatch.setitem(scalar_text._SPELLINGS, "sign", getattr(Refused, request.param))
    monkeypatch.setenv("CALQUE_CACHE", "0")
    return str(request.param)


@pytest.mark.parametrize("refused", ["attribute", "function", "syntax"], indirect=True)
def test_what_numba_refuses_runs_as_numpy_source(refused: str) -> None:
    fast = jit(lambda x: signs(x))
    fast.cache_clear()  # of what the same lambda has told before
    x = X.copy()
    message = told_of(fast, x)
    assert "runs as NumPy source." in message and "Numba refuses a kernel: " in message
    if refused != "function":
        assert f"line {signs.__code__.co_firstlineno + 4}, in signs" in message
    assert {"attribute": "Unknown attribute", "function": "no attribute", "syntax": "format spec"}[
        refused
    ] in message
    assert fast(x) == signs(x)
    assert fast.cache_info().compiled == 0
    assert message in calque.explain(fast, x)


@pytest.mark.parametrize("refused", ["attribute"], indirect=True)
@pytest.mark.parametrize("first", ["kernels", "numpy"])
def test_explain_says_so_before_the_call(refused: str, first: str) -> None:
    fast = jit(grad(lambda x: signs(x) * x[0]), first=first)
    fast.cache_clear()
    before = calque.explain(fast, X)
    assert "runs as NumPy source" in before and "Numba refuses a kernel" in before
    with pytest.warns(calque.JitFallback) as caught:
        fast(X)
        fast.wait()
        fast(X)
    assert len(caught) == 1 and str(caught[0].message) in before
    assert calque.explain(fast, X) == before
    specified = jit(grad(lambda x: signs(x) * x[1]), first=first)
    specified.cache_clear()
    assert "Numba refuses a kernel" in calque.explain(specified, calque.spec("f8[n]"))


@pytest.mark.parametrize("refused", ["attribute"], indirect=True)
def test_a_refusal_is_told_where_the_text_was_on_disk(
    refused: str, monkeypatch: Any, tmp_path: Path
) -> None:
    text = """
import sys, warnings
import numpy as np
import calque
from calque.transpiler.codegen.numba import scalar_text
import program_of_signs

scalar_text._SPELLINGS["sign"] = "{0}.no_such_attribute"
fast = calque.jit(program_of_signs.signs)
for _ in range(2):
    fast.cache_clear()  # the text is on disk
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        print(fast(np.ones(3)))
    print([str(c.message).splitlines()[1].rpartition(",")[0][-7:] for c in caught])
"""
    monkeypatch.setenv("CALQUE_CACHE", str(tmp_path / "cache"))
    lines = Path(__file__).read_text().splitlines()
    start = signs.__code__.co_firstlineno - 1
    body = "\n".join(lines[start : start + 6])
    (tmp_path / "program_of_signs.py").write_text(f"import numpy as np\nfrom typing import Any\n{body}\n")
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split("\n")[:4] == 2 * ["6.0", "[' line 7']"], done.stderr


def test_sizes_that_differ_are_told() -> None:
    fast = jit(lambda x, y: spread(x, y))
    message = told_of(fast, np.ones(3), np.ones(3))
    assert "Sizes differ here, and NumPy spreads them" in message
    assert f"line {spread.__code__.co_firstlineno + 3}: " in message


def test_explain_says_that_kernels_run_uncompiled(monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    fast = jit(lambda x: signs(x))
    before = calque.explain(fast, X)
    assert before.startswith("CALQUE_JIT=0: kernels run uncompiled")
    fast(X)
    assert calque.explain(fast, X) == before


def test_each_function_tells_for_itself_also_under_vmap() -> None:
    many = jit(vmap(lambda x: printed(x)))
    assert "No kernel has print" in told_of(many, np.stack([X, X]))
    assert "No kernel has print" in told_of(jit(grad(lambda x: printed(x))), X)


class Filter:
    """Its jitted method belongs to each instance."""

    @jit
    def run(self, x: Any) -> Any:
        return printed(x)


def test_a_method_tells_once_for_all_instances() -> None:
    with pytest.warns(calque.JitFallback) as caught:
        for _ in range(3):
            Filter().run(X)
    assert len(caught) == 1


def test_devices_tell_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "2")
    mapped = jit(pmap(lambda x: printed(x)))
    assert "No kernel has print" in told_of(mapped, np.stack([X, X]))


@pytest.mark.parametrize("refused", ["attribute"], indirect=True)
def test_what_numba_refuses_runs_on_devices_too(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "2")
    mapped = jit(pmap(lambda x: signs(x)))
    x = np.stack([X, 2.0 * X])
    assert "Numba refuses a kernel" in told_of(mapped, x)
    np.testing.assert_array_equal(mapped(x), [signs(row) for row in x])
