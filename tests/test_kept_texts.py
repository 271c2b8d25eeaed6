"""Texts with kernels are cached on disk by all that they depend on; damaged files are replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sampling import sampled

import calque
from battery import oracle
from battery.registry import load
from calque.runtime.call import disk_cache, fingerprints, kept_texts
from calque.transpiler.errors import AliasUndecided
from calque.transpiler.ir import core, debug
from calque.transpiler.ir.builder import Builder

PROGRAMS = sampled([p for p in load() if p.refused is None], 40)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CALQUE_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(debug, "verifying", False)  # else passes run each time
    return tmp_path / "kept"


def programs(fn: Any) -> list[Any]:
    return [p for plan in fn._dispatcher.plans.values() for p in plan.programs.values()]


def texts(folder: Any) -> list[Any]:
    return sorted(folder.glob("*.text")) if folder.exists() else []


def as_in_another_process(fn: Any) -> None:
    """Forget what was made of a function; what is on disk stays."""
    fn.cache_clear()


def running(x, w):
    total = 0.0
    for i in range(1, x.size):
        x[i] = np.tanh(w * x[i] + x[i - 1])
        total += x[i]
    return total


def test_a_text_is_found_again(folder):
    fn = calque.jit(running)
    x = np.linspace(0.0, 1.0, 20)
    want = running(x.copy(), 0.5)
    given = x.copy()
    np.testing.assert_allclose(fn(given, 0.5), want)
    assert [p.abridged for p in programs(fn)] == [False]
    assert len(texts(folder)) == 1
    text = calque.source(fn, x, 0.5)
    as_in_another_process(fn)
    again = x.copy()
    np.testing.assert_allclose(fn(again, 0.5), want)
    np.testing.assert_array_equal(again, given)
    assert [p.abridged for p in programs(fn)] == [True]
    assert programs(fn)[0].stored == {0: (1,)}
    assert calque.source(fn, x, 0.5) == text  # which reads it, and so makes it anew
    assert [p.abridged for p in programs(fn)] == [False]
    np.testing.assert_allclose(fn(x.copy(), 0.5), want)


def test_arguments_that_share_memory_are_refused_as_ever(folder):
    def shift(x, y):
        for i in range(x.size):
            x[i] += y[i]

    fn = calque.jit(shift)
    fn(np.ones(4), np.ones(4))
    as_in_another_process(fn)
    fn(np.ones(4), np.ones(4))
    assert [p.abridged for p in programs(fn)] == [True]
    x = np.ones(8)
    with pytest.raises(AliasUndecided):
        fn(x[:4], x[2:6])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.id)
def test_programs_of_the_battery(program, folder):
    fn = calque.jit(calque.value_and_grad(program.scalar(), argnums=program.diff))
    first = fn(*program.fresh())
    made = len(programs(fn))
    as_in_another_process(fn)
    second = fn(*program.fresh())
    assert oracle.structure(first) == oracle.structure(second)
    np.testing.assert_array_equal(oracle.flat(first), oracle.flat(second))
    assert len(programs(fn)) == made


def test_constants_are_part_of_the_key(folder):
    """Also those in the middle of an array that is shown with dots."""
    found = []
    for place in (None, 700):
        table = np.ones(2000)
        if place is not None:
            table[place] = 3.0
        frozen = tuple(table.tolist())

        def weighted(x, frozen=frozen):
            return np.sum(x * np.array(frozen))

        fn = calque.jit(weighted)
        found.append(float(fn(np.ones(2000))))
    assert found == [2000.0, 2002.0]


def test_options_and_types_are_part_of_the_key(folder):
    def squares(x):
        y = np.zeros(x.size, x.dtype)
        for i in range(x.size):
            y[i] = x[i] * x[i]
        return y

    calque.jit(squares)(np.ones(4))
    calque.jit(squares, parallel=False)(np.ones(4))
    assert calque.jit(squares)(np.ones(4, "f4")).dtype == np.float32
    assert len(texts(folder)) == 3


def product_in_a_loop(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        c = a[i] @ b
        total += c[0, 0] * c[-1, -1]
    return total


def test_what_sizes_chose_is_chosen_again(folder):
    """A small product is loops within the kernel; a large one is BLAS's."""
    rng = np.random.default_rng(0)
    small, large = (rng.normal(size=(3, n, n)) for n in (4, 64))
    fn = calque.jit(product_in_a_loop)
    for a in (small, large):
        np.testing.assert_allclose(fn(a, a[0]), product_in_a_loop(a, a[0]))
    chosen = [(p.traced.choices, p.text) for p in programs(fn)]
    made = [list(choices.values()) for choices, _ in chosen]
    assert made == [[True, False, True, True], [False, False]]
    for first, second in ((large, small), (small, large)):
        as_in_another_process(fn)
        for a in (first, second, first, second):
            np.testing.assert_allclose(fn(a, a[0]), product_in_a_loop(a, a[0]))
        made = [(p.traced.choices, p.text) for p in programs(fn)]
        assert sorted(map(repr, made)) == sorted(map(repr, chosen))


def steps_of_a_filter(F, seen):
    x, total = np.zeros(F.shape[0]), 0.0
    for t in range(seen.shape[0]):
        off = seen[t] - F @ x
        x = x + 0.5 * off
        total += off @ off
    return total


def filter_arguments(n, steps=500):
    rng = np.random.default_rng(n)
    return 0.1 * rng.normal(size=(n, n)), rng.normal(size=(steps, n))


def test_a_text_with_small_sizes_in_it_is_found_again(folder):
    gradient = calque.grad(steps_of_a_filter)
    fn = calque.jit(gradient)
    sizes = (3, 40, 5)
    want = {n: gradient(*filter_arguments(n)) for n in sizes}
    fn(*filter_arguments(3))
    (first,) = programs(fn)
    assert first.known_symbols and not first.abridged  # its sizes are written into it
    for order in ((3, 5, 40), (40, 3, 5), (5, 3, 40), (3,)):
        as_in_another_process(fn)
        for n in order:
            np.testing.assert_allclose(fn(*filter_arguments(n)), want[n], rtol=1e-10)
            np.testing.assert_allclose(fn(*filter_arguments(n)), want[n], rtol=1e-10)
    assert [p.abridged for p in programs(fn)] == [True]
    assert programs(fn)[0].known_symbols == first.known_symbols
    assert programs(fn)[0].text == first.text


def third(x):
    total = 0.0
    for i in range(3, x.size):
        total += x[i] * x[i - 3]
    return total


def test_assumed_sizes_are_asked_again(folder):
    fn = calque.jit(calque.grad(third))
    want = [calque.grad(third)(np.arange(float(n))) for n in (10, 2, 3)]
    for _ in range(2):
        for n, gradient in zip((10, 2, 3), want, strict=True):
            np.testing.assert_allclose(fn(np.arange(float(n))), gradient)
        as_in_another_process(fn)


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_what_is_damaged_is_written_anew(folder, damage):
    fn = calque.jit(running)
    x = np.ones(5)
    want = fn(x.copy(), 0.5)
    (file,) = texts(folder)
    whole = file.read_bytes()
    file.write_bytes(whole[:-9] + b"\0" * 9 if damage is None else damage)
    as_in_another_process(fn)
    assert fn(x.copy(), 0.5) == want
    assert [p.abridged for p in programs(fn)] == [False]
    assert texts(folder)[0].read_bytes() == whole


def test_a_text_that_others_may_write_is_not_run(folder):
    fn = calque.jit(running)
    fn(np.ones(5), 0.5)
    (file,) = texts(folder)
    file.chmod(0o666)
    as_in_another_process(fn)
    fn(np.ones(5), 0.5)
    assert [p.abridged for p in programs(fn)] == [False]


def test_other_files_of_calque_write_other_texts(folder, monkeypatch):
    fn = calque.jit(running)
    fn(np.ones(5), 0.5)
    as_in_another_process(fn)
    monkeypatch.setattr(kept_texts, "_own_files", lambda: "changed")
    fn(np.ones(5), 0.5)
    assert [p.abridged for p in programs(fn)] == [False]
    assert len(texts(folder)) == 2


def unknown(x):
    return x * 2.0


def test_functions_of_the_user_have_no_key(folder):
    declared = calque.opaque(unknown, result=lambda x: x, name=f"{__name__}.unknown")
    fn = calque.jit(lambda x: np.sum(declared(x) * x))
    assert fn(np.ones(3)) == 6.0
    assert not texts(folder)


def test_without_a_folder_nothing_is_kept(monkeypatch):
    monkeypatch.setenv("CALQUE_CACHE", "0")
    fn = calque.jit(running)
    fn(np.ones(5), 0.5)
    as_in_another_process(fn)
    fn(np.ones(5), 0.5)
    assert [p.abridged for p in programs(fn)] == [False]
    assert disk_cache.folder() is None


def test_all_that_a_builder_knows_is_in_the_key():
    """Every attribute of a builder is part of the key: add new ones to the digest."""
    known = {*fingerprints._BUILDER, *fingerprints._ABSENT}
    reading = {"linked", "unmasked", "remarks", "read_only"}  # of no use once a program is read, or found again
    reading |= {"whole_batches", "lanes_taken"}
    assert vars(Builder()).keys() - known == {"blocks", "origin", "machine", "_sizes"} | reading
    memos = {"_found", "_unknown", "_pending", "_visits", "_reaches"}
    told = {"dims", "definitions", "dim_values", "arguments", *fingerprints._MAGNITUDES}
    assert vars(Builder().magnitudes).keys() == told | memos
    assert {*core.Var.__slots__} == {"__weakref__", "name", "origin", "type", "word"}


SCRIPT = """
import numpy as np
import calque

def model(params, x):
    h = x
    for w, b in zip(params["w"], params["b"]):
        h = np.tanh(h @ w + b)
    s = 0.0
    for i in range(h.shape[0]):
        s += h[i, 0] * h[i, -1]
    return s

rng = np.random.default_rng(0)
params = {"w": [rng.normal(size=(3, 3)) for _ in range(2)], "b": [np.ones(3), np.zeros(3)]}
fn = calque.jit(calque.grad(model))
g = fn(params, rng.normal(size=(5, 3)))
print(repr(g["w"][0].tolist()))
print([p.abridged for plan in fn._dispatcher.plans.values() for p in plan.programs.values()])
"""


def test_processes_with_other_hashes_find_it(tmp_path, folder):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    found = [
        subprocess.run(
            [sys.executable, file],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    assert found[0][0] == found[1][0]
    assert [lines[1] for lines in found] == ["[False]", "[True]"]


def test_a_text_for_other_sizes_is_not_taken(folder):
    fn = calque.jit(product_in_a_loop)
    a = np.random.default_rng(0).normal(size=(3, 64, 64))
    fn(a, a[0])
    (program,) = programs(fn)
    kept = kept_texts.KeptText.of(program.traced, program.text)
    sizes = {f"d{k}_{axis}": 64 for k in (0, 1) for axis in (0, 1, 2)}
    assert kept.holds(sizes)
    assert not kept.holds(dict.fromkeys(sizes, 4))
