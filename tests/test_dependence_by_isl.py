"""The dependence tests beside isl's: Presburger sets decide whether two iterations share an element."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sampling import sampled
from test_dependence import affine

from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.types import DimLike, symbol
from calque.transpiler.loops.dependence import (
    ANYWHERE,
    Access,
    dependence_distance,
    may_alias_across_iterations,
)

isl = pytest.importorskip("islpy")

SEEDS = range(2000)
BOUNDS = [("0", "i - 1"), ("i + 1", "n - 1"), ("0", "n - 1"), ("i", "n - 1"), ("0", "n - 1 - i")]


def written(dim: DimLike, copy: int) -> str:
    """An index in isl's notation, with the counters of one of two iterations."""
    if isinstance(dim, int):
        return str(dim)
    names = {"i": f"i{copy}", "j": f"j{copy}", "n": "n"}
    return " + ".join([*(f"{c} * {names[s]}" for s, c in dim.terms), str(dim.const)])


def shared(places: list[tuple[DimLike, ...]], bounds: tuple[str, str], order: str) -> Any:
    """The pairs of iterations, in one order, whose accesses touch one element, for all sizes."""
    low, high = ([b.replace("i", f"i{k}") for k in (1, 2)] for b in bounds)
    ranges = [f"0 <= i{k + 1} < n and {low[k]} <= j{k + 1} <= {high[k]}" for k in (0, 1)]
    equal = [f"{written(a, 1)} = {written(b, 2)}" for a, b in zip(*places, strict=True)]
    conditions = " and ".join([*ranges, *equal, order])
    return isl.Set(f"[n] -> {{ [i1, j1, i2, j2] : {conditions} }}")


def of_seed(seed: int) -> tuple[Builder, list[tuple[DimLike, ...]], tuple[str, str]]:
    pick = random.Random(seed)
    builder, n, i = Builder(["n"]), symbol("n"), symbol("i")
    at = pick.randrange(len(BOUNDS))
    ranges = [(0, i - 1), (i + 1, n - 1), (0, n - 1), (i, n - 1), (0, n - 1 - i)]
    builder.dims.ranges |= {"i": (0, n - 1), "j": ranges[at]}
    places = [tuple(affine(pick, ["i", "j", "n"]) for _ in range(2)) for _ in range(2)]
    return builder, places, BOUNDS[at]


@pytest.mark.parametrize("seed", sampled(SEEDS, 200))
def test_iterations_that_share_an_element_are_seen(seed: int) -> None:
    builder, places, bounds = of_seed(seed)
    found = any(not shared(places, bounds, order).is_empty() for order in ("i1 < i2", "i2 < i1"))
    if found:
        assert may_alias_across_iterations(*places, "i", frozenset(["n"]), builder), places


def test_iterations_that_share_none_are_mostly_told_apart() -> None:
    """A rational test gives up where only integers decide: that is rare."""
    apart = told = 0
    for seed in SEEDS[:300]:
        builder, places, bounds = of_seed(seed)
        if all(shared(places, bounds, order).is_empty() for order in ("i1 < i2", "i2 < i1")):
            apart += 1
            told += not may_alias_across_iterations(*places, "i", frozenset(["n"]), builder)
    assert apart > 100
    assert told > 0.85 * apart


@pytest.mark.parametrize("seed", sampled(SEEDS, 200))
def test_a_distance_is_that_of_all_pairs(seed: int) -> None:
    """If the test names one distance, or none, isl finds no pair at another one."""
    pick = random.Random(seed)
    builder, n = Builder(["n"]), symbol("n")
    builder.dims.ranges["i"] = (0, n - 1)
    places = [tuple(affine(pick, ["i", "n"]) for _ in range(2)) for _ in range(2)]
    left, right = (Access(0, place, k, True, False) for k, place in enumerate(places))
    distance = dependence_distance(left, right, symbol("i"), builder)
    if distance == ANYWHERE:
        return
    other = "" if distance is None else f" and i2 - i1 != {distance}"
    equal = " and ".join(f"{written(a, 1)} = {written(b, 2)}" for a, b in zip(*places, strict=True))
    pairs = isl.Set(f"[n] -> {{ [i1, i2] : 0 <= i1 < n and 0 <= i2 < n and {equal}{other} }}")
    assert pairs.is_empty(), (places, distance)
