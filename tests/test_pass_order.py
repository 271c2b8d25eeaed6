"""The order of passes that is not declared is free, and so are optional passes: numbers stay.

Each pair of neighbours that may be swapped is, and each pass that may be left out is, one at a time;
value and gradient of programs are compared with those of plain NumPy code, stepped through.
"""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from random_loops import Nest
from random_nests import Nests
from sampling import EVERYTHING, sampled
from test_access_programs import any_order

import calque
from battery import oracle
from battery.registry import load
from calque.transpiler import kernel_passes, pipeline
from calque.transpiler.autodiff import reverse
from calque.transpiler.codegen.numba.numba_target import NUMBA
from calque.transpiler.codegen.printing_passes import Printing
from calque.transpiler.ir import core
from calque.transpiler.ir.pass_manager import Pass, Work, violations
from calque.transpiler.memory.printed_program import PrintedProgram

PASSES = kernel_passes.KERNEL_PASSES
SAMPLE = 2  # programs for each other order, but with CALQUE_TESTS=all
Passes = Sequence[Pass]


def orders() -> dict[str, Passes]:
    """Every list that the declarations allow, one swap or one pass away from the present one."""
    found: dict[str, Passes] = {}
    for k, each in enumerate(PASSES):
        if each.optional:
            found[f"without {each.name} {k}"] = (*PASSES[:k], *PASSES[k + 1 :])
        if k + 1 < len(PASSES):
            after = PASSES[k + 1]
            found[f"{after.name} before {each.name} {k}"] = (
                *(*PASSES[:k], after, each),
                *PASSES[k + 2 :],
            )
    return {name: order for name, order in found.items() if not list(violations(order))}


ORDERS = orders()


def executed(text: str, name: str) -> Callable[..., Any]:
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]


@functools.cache
def programs() -> list[tuple[str, Callable[..., Any], tuple[Any, ...], tuple[int, ...]]]:
    """Sixty programs, with arguments and those to differentiate by."""
    accepted = [p for p in load() if p.refused is None and not p.name.startswith("printing")]
    found = [(p.id, p.scalar(), p.fresh(), p.diff) for p in accepted[:: len(accepted) // 36][:36]]
    rng = np.random.default_rng(3)
    for seed in range(12):
        args = tuple(rng.normal(size=s) for s in ((4, 4), (4, 4), 4))
        found.append((f"nests {seed}", executed(Nests(seed).text(), f"<n {seed}>"), args, (0, 1, 2)))
        args = (*(rng.normal(size=s) for s in (13, 13, (13, 13))), 2.0)
        found.append((f"loops {seed}", executed(Nest(seed).text(), f"<l {seed}>"), args, (0, 1, 2)))
    return found


@functools.cache
def wanted(k: int) -> np.ndarray:
    """Value and gradient as NumPy source."""
    _, fn, args, moving = programs()[k]
    return oracle.flat(calque.value_and_grad(fn, argnums=moving)(*oracle.copied(args)))


def run(k: int) -> np.ndarray:
    _, fn, args, moving = programs()[k]
    compiled = calque.jit(calque.value_and_grad(fn, argnums=moving))
    compiled.cache_clear()
    names = getattr(compiled.program(*oracle.copied(args)).call, "__globals__", {})
    if "prange" in names:
        names["prange"] = any_order  # iterations that threads may share
    return oracle.flat(compiled(*oracle.copied(args)))


def test_the_declared_order_holds() -> None:
    core_passes, of_reverse = pipeline.CORE_PASSES, (reverse.BEFORE_SWEEP, reverse.AFTER_SWEEP)
    for passes in (core_passes, core_passes + pipeline.CHECKED, PASSES, *of_reverse):
        assert list(violations(passes)) == []


def test_the_declared_order_of_printing_holds() -> None:
    empty = PrintedProgram(core.Function("f", [], core.Block(), None), core.Block())
    assert list(violations(Printing(empty, NUMBA).passes())) == []


def test_many_orders_are_free() -> None:
    assert len(programs()) == 60
    assert len(ORDERS) > 30
    assert {name.split()[0] for name in ORDERS} > {"without"}


@pytest.mark.parametrize("name", sampled(list(ORDERS), 2))
def test_numbers_do_not_depend_on_the_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(kernel_passes, "KERNEL_PASSES", ORDERS[name])
    chosen = np.random.default_rng(list(name.encode())).permutation(60)
    for k in chosen if EVERYTHING else chosen[:SAMPLE]:
        with np.errstate(all="ignore"):
            found, expected = run(int(k)), wanted(int(k))
        scale = np.max(np.abs(expected), initial=1.0)
        np.testing.assert_allclose(
            found, expected, rtol=1e-9, atol=1e-10 * scale, err_msg=programs()[k][0]
        )


def test_what_needs_a_fact_cannot_come_first() -> None:
    names = [each.name for each in PASSES]
    k = names.index("mark_in_bounds")
    without = (*PASSES[:k], *PASSES[k + 1 :])
    assert any(said.startswith("check_indices needs indices") for said in violations(without))


def test_a_wrong_pass_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that takes all iterations to be independent changes the numbers of some programs."""

    def mark_all(work: Work) -> None:
        for s in core.walk(work.function.body):
            if isinstance(s, core.For):
                s.parallel = True

    monkeypatch.setenv("CALQUE_JIT", "0")
    monkeypatch.setattr(kernel_passes, "KERNEL_PASSES", (*PASSES, Pass("mark_all", mark_all)))
    seen = [k for k in range(36, 46) if not np.allclose(run(k), wanted(k), rtol=1e-9)]
    assert len(seen) >= 3
