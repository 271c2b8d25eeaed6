"""An iterator reads an element when it is consumed: right, or refused with the line."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iterator_programs import consumers, over_arrays, over_containers
from programs_as_files import imported
from random_iterators import Program
from sampling import sampled

import calque
from battery import oracle
from calque.transpiler.errors import CalqueError, UnsupportedSyntax

POINTS = [np.array([0.3, -1.2, 0.7, 2.0, -0.4]), np.array([-0.3, 1.2, 0.7, -0.5, 0.4])]
SEEDS = 120
REFUSED = {  # where an iterator stands, or which object a name stands for, only the run knows
    "any_rest": "is read again that a loop",
    "deque_walk": "A deque has changed since",
    "dict_cond_grow": "Only some paths to here",
    "dict_pop_add": "Other keys are in a dict",
    "filter_named": "has neither a rule nor Python source",
    "flat_twice": "is read again that a loop",
    "grow_rev": "has another length than when",
    "left_by_break_known": "is read again that a loop",
    "iter_alias_joined": "may, or may not, be an alias",
    "iter_step_one_arm": "Where an iterator stands",
    "iters_joined": "Whether this store changes another array too",
    "list_cond_append": "different lengths on two paths",
    "many_break": "is read again that a loop",
    "map_next_idiom": "is read again that a loop",
    "cycle_break": "has no end",
    "nditer_for": "np.nditer",
    "reversed_range": "is read again that a loop",
}


def outcome(fn: Callable[..., Any]) -> Any:
    try:
        return float(fn())
    except Exception as error:
        return error


def compare(fn: Callable[..., Any], x: np.ndarray) -> None:
    """The value, the gradient and the batched value are Python's; or so is the error."""
    want = outcome(lambda: fn(x.copy()))
    if isinstance(want, Exception):
        for form in (calque.jit(fn), calque.value_and_grad(fn)):
            with pytest.raises(type(want)):
                form(x.copy())
        return
    value, gradient = calque.value_and_grad(fn)(x)
    np.testing.assert_allclose(value, want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradient, oracle.gradient(fn, (x,)), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(calque.jit(fn)(x.copy()), want, rtol=1e-10, atol=1e-12)


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run as plain Python."""
    monkeypatch.setenv("CALQUE_JIT", "0")


PROGRAMS = [*over_arrays.PROGRAMS, *over_containers.PROGRAMS, *consumers.PROGRAMS]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_as_plain_python(fn: Callable[..., Any]) -> None:
    if fn.__name__ in REFUSED:
        with pytest.raises(CalqueError, match=REFUSED[fn.__name__]) as caught:
            calque.grad(fn)(POINTS[0])
        assert caught.value.origin is not None
        return
    for x in POINTS:
        compare(fn, x)


OUTSIDE = [
    iter([1.0, 2.0]),
    zip([1.0], [2.0]),
    itertools.chain([1.0], [2.0]),
    map(abs, [1.0]),
    enumerate([1.0]),
    reversed([1.0]),
    np.arange(3.0).flat,
    (v for v in [1.0]),
]


@pytest.mark.parametrize("iterator", OUTSIDE, ids=lambda it: type(it).__name__)
def test_one_from_outside_is_not_consumed(iterator: Any) -> None:
    def looped(x):
        total = 0.0
        for v in iterator:
            total = total + x[0] * (v if np.isscalar(v) else v[0])
        return total

    def listed(x):
        return x[0] * len(list(iterator))

    def stepped(x):
        return x[0] * next(iterator)

    for fn in (looped, listed, stepped):
        with pytest.raises(CalqueError, match="changes from call to call|lives outside"):
            calque.jit(fn)(POINTS[0])
    assert len(list(iterator)) > 0  # it is as it was


@pytest.mark.parametrize("make", [iter, enumerate, reversed, lambda v: zip(v, v)])
def test_none_leaves_the_function(make: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedSyntax, match="An iterator leaves the function"):
        calque.jit(lambda x: (x, make(x)))(POINTS[0])


@pytest.mark.parametrize("seed", sampled(range(SEEDS), 3))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    fn = imported(Program(seed).text(), tmp_path / f"random_iterators_{seed}.py", "program")
    for x in POINTS:
        try:
            compare(fn, x)
        except UnsupportedSyntax as error:
            assert error.origin is not None and "is consumed a second time" in error.message
