"""Loops of long kernels as functions of their own: where, which are shared, and the same numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gast
import numpy as np
import pytest
from sampling import sampled

import calque
from calque.runtime.call import loading, sharing
from calque.transpiler.codegen.numba.kernel_parts import MANY, in_parts
from calque.transpiler.codegen.text.layout import Notes, to_text
from calque.transpiler.codegen.text.tree_variables import LiveNames

PARTS = "@kernel_part"


def long_program(x, y, steps):
    """Diffusion and reaction, stage by stage: loops over elements that depend on neighbours."""
    total = 0.0
    for k in range(steps):
        for _ in [None] * 6:
            z = np.zeros_like(x)
            z[:, 1:-1] = x[:, 2:] - 2.0 * x[:, 1:-1] + x[:, :-2]
            z[0] = z[0] + y[k] * x[1] * x[0]
            z[1] = z[1] - x[1] * x[0]
            x = x + 0.01 * z
        total = total + np.sum(x * x)
    return total + np.sum(x)


def short_program(x, y, steps):
    total = 0.0
    for k in range(steps):
        z = np.zeros_like(x)
        z[:, 1:-1] = x[:, 2:] - 2.0 * x[:, 1:-1] + x[:, :-2]
        x = x + 0.01 * y[k] * z
        total = total + np.sum(x * x)
    return total


def arguments(n=9, dtype=float):
    rng = np.random.default_rng(3)
    return rng.random((2, n)).astype(dtype), rng.random(4).astype(dtype), 4


def test_long_kernels_are_written_in_parts():
    text = calque.source(calque.jit(calque.grad(long_program)), *arguments())
    parts = text.count(PARTS)
    assert parts >= MANY / 3
    assert text.count("set_") > parts + text.count("def set_")  # some are called more than once
    assert PARTS not in calque.source(calque.jit(calque.grad(short_program)), *arguments())


@pytest.mark.parametrize(
    ("dtype", "parallel"),
    sampled([(np.float64, True), (np.float64, "auto"), (np.float32, False)], 1),
)
def test_numbers_are_those_of_numpy(dtype, parallel):
    gradient = calque.grad(long_program)
    call, value = calque.jit(gradient, parallel=parallel), calque.jit(long_program)
    rtol = 1e-10 if dtype is np.float64 else 1e-4
    for n in (9, 31, 3):
        args = arguments(n, dtype)
        np.testing.assert_allclose(call(*args), gradient(*args), rtol=rtol, atol=rtol)
        np.testing.assert_allclose(value(*args), long_program(*args), rtol=rtol)


def test_views_of_any_strides():
    x, y, steps = arguments(18)
    gradient = calque.grad(long_program)
    call = calque.jit(gradient)
    for view in (x[:, ::2], x[:, ::-1], np.asfortranarray(x), x[::-1]):
        np.testing.assert_allclose(call(view, y, steps), gradient(view, y, steps), rtol=1e-10)


LIBRARIES = ["calque.runtime.kernels", "calque.runtime.kernels.plain_threads"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_threads_run_the_loops_of_parts(library):
    """In the version for several threads, each loop of a part is the kernel's own."""
    program = """
import numpy as np, calque, threading
from LIBRARY import kernel_part, kernel
from calque.runtime.call.machine_code import attach
from numba import prange, get_thread_id

@kernel_part
def note(x, n):
    for i in prange(n):
        x[i] = get_thread_id()

@kernel(parallel=True)
def f(x, n):
    note(x, n)

attach(globals(), "here", None)
import numba
numba.set_num_threads(2)
x = np.full(100_000, -1)
f(x, x.size)
print(sorted(map(int, set(x))))
"""
    env = {"NUMBA_NUM_THREADS": "2", "PYTHONPATH": str(Path(calque.__file__).parents[1])}
    path = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", program.replace("LIBRARY", library)],
        capture_output=True, text=True, env={**env, **path}, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "[0, 1]", done.stderr


def test_stepping_runs_the_text_as_it_is(monkeypatch):
    monkeypatch.setenv("CALQUE_JIT", "0")
    args = arguments(5)
    found = calque.jit(calque.grad(long_program))(*args)
    np.testing.assert_allclose(found, calque.grad(long_program)(*args), rtol=1e-10)


def test_saved_modules_have_the_same_parts(tmp_path):
    args = arguments()
    call = calque.jit(calque.grad(long_program))
    calque.save(call, tmp_path / "saved.py", *args)
    text = (tmp_path / "saved.py").read_text(encoding="utf-8")
    assert text.count(PARTS) == calque.source(call, *args).count(PARTS)
    module = {}
    exec(compile(text, "saved.py", "exec"), module)
    found = module[call.generated_name()](*arguments())
    np.testing.assert_allclose(found, call(*args), rtol=1e-12)


def test_checked_kernels_have_no_parts():
    args = arguments()
    checked = calque.jit(calque.grad(long_program), boundscheck=True)
    assert PARTS not in calque.source(checked, *args)


def test_code_on_disk_needs_no_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("CALQUE_CACHE", str(tmp_path))
    args = arguments()
    expected = calque.grad(long_program)(*args)
    for k in range(2):
        monkeypatch.setattr(loading, "_modules", {})
        vars(long_program).clear()
        sharing._by_code.clear()
        call = calque.jit(calque.grad(long_program))
        np.testing.assert_allclose(call(*args), expected, rtol=1e-10)
        assert all(m.from_disk == bool(k) for m in call.cache_info().kernels)


# what becomes a function


def split(body, params="x, y, n, flag"):
    """The text of a kernel's parts, and of the kernel, which has other loops enough."""
    loop = "    for i in range(n):\n        t = x[i]\n        y[{}] = t\n"
    others = "".join(map(loop.format, range(MANY)))
    text = f"@kernel\ndef f_kernel({params}):\n{body}{others}"
    trees = in_parts(gast.parse(text).body, Notes(), [])
    *parts, kernel = map(to_text, trees)
    return "\n".join(parts), kernel


def test_a_sum_is_given_and_given_back():
    parts, kernel = split(
        "    s = 0.0\n    for i in range(n):\n        t = x[i]\n        s += t\n    y[0] = s\n"
    )
    assert "def set_s(n, x, s):" in parts and "return s" in parts
    assert "s = set_s(n, x, s)" in kernel


def test_a_number_that_nobody_reads_stays_inside():
    parts, _ = split("    for i in range(n):\n        t = x[i]\n        y[i] = t + t\n")
    first = parts.split("@kernel_part")[1]
    assert "def set_y(n, x, y):" in first and "return" not in first


def test_a_number_that_may_have_no_value_keeps_its_loop():
    body = "    for i in range(n):\n        t = x[i]\n        last = t\n    y[0] = last\n"
    parts, kernel = split(body)
    assert "last" not in parts and "last = t" in kernel


def test_branches_give_what_both_arms_set():
    arm = "        for i in range(n):\n            y[i] = x[i]\n        z = {}\n"
    body = f"    if flag:\n{arm.format('1.0')}    else:\n{arm.format('2.0')}    y[0] = z\n"
    parts, kernel = split(body)
    assert "z = set_z_and_y(flag, n, x, y)" in kernel and "return z" in parts
    body = f"    if flag:\n{arm.format('1.0')}    y[0] = z\n"
    parts, kernel = split(body)
    assert "z = 1.0" in kernel


def test_loops_alike_are_one_function():
    parts, kernel = split("    a = x[0]\n")
    assert parts.count("def ") == MANY  # each has another place
    loop = "    for {0} in range(n):\n        u = x[{0}]\n        y[{0}] = u\n"
    alike = loop.format("i") + loop.format("j")
    alike += "    for i in range(n):\n        u = y[i]\n        x[i] = u\n"
    parts, kernel = split(alike)
    assert parts.count("def ") == MANY + 1
    assert "set_y(n, x, y)\n    set_y(n, x, y)\n    set_y(n, y, x)" in kernel


def test_what_leaves_a_loop_stays():
    body = "    for i in range(n):\n        if x[i] > 0.0:\n            break\n        y[i] = 1.0\n"
    parts, kernel = split(body)
    assert "break" in kernel and "break" not in parts


def test_few_loops_stay_one_function():
    text = "@kernel\ndef f(x, y, n):\n    for i in range(n):\n        t = x[i]\n        y[i] = t"
    trees = gast.parse(text).body
    assert in_parts(trees, Notes(), []) == trees


def test_what_lives_in_loops_and_branches():
    text = """
a = 1
for i in n:
    if a:
        b = a
        continue
    c = b
    a = c
d = a
"""
    body = gast.parse(text).body
    live = LiveNames(body)
    assert live.before == {"n", "b"}
    loop = body[1]
    assert live.after[id(loop.body[0])] == {"b", "n"} - {"n"} | {"b"}
    assert live.after[id(loop.body[1])] == {"c", "b"}
    assert live.after[id(loop.body[2])] == {"a", "b"}
