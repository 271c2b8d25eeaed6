"""Refusals say what to write instead: they name the user's thing, and the way works."""

from __future__ import annotations

import decimal
import math
from typing import Any, cast

import numpy as np
import pytest

import calque
from calque import grad
from calque.transpiler.errors import CalqueError

X = np.array([1.0, 2.0, 3.0])


def grown(x: Any) -> Any:
    table, k = {}, 0
    while x[0] > 0.1:
        table[k] = x[0]
        x, k = x / 2.0, k + 1
    return sum(table.values())


def said(x: Any) -> Any:
    return f"{x[0]:.1f}"


def nothing(x: Any) -> Any:
    np.sum(x)


HINTS = {
    "a key": (lambda x: {x[0]: 1.0}[x[0]], "make the values an array, and the key an index into it"),
    "a key that is stored": (grown, "append the values to a list, or store them into an array"),
    "an element of a set": (lambda x: sum({v for v in x}), "keep a list, or take np.unique"),
    "an order": (lambda x: sorted([(x[0], "a"), (x[1], "b")])[0][0], "sort an array of numbers"),
    "math of an array": (lambda x: math.sinh(x), "write np.sinh"),
    "a float index": (lambda x: x[1.0], "write int(...)"),
    "a text": (said, "return the number"),
    "nothing": (nothing, "return the number"),
    "masked arrays": (lambda x: np.ma.masked_less(x, 2.0).sum(), "np.where(mask, x, 0.0)"),
    "strides": (
        lambda x: np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8)).sum(),
        "np.lib.stride_tricks.sliding_window_view",
    ),
    "nditer": (lambda x: sum(v for v in np.nditer(x)), "loop over x.ravel()"),
    "matrices": (lambda x: (np.asmatrix(np.eye(3)) @ x).sum(), "compute with plain arrays"),
    "decimals": (lambda x: float(decimal.Decimal(x[0])), "compute with floats"),
    "locals": (lambda x: sum(locals()["x"]), "write the name"),
    "globals": (lambda x: np.sum(x) * len(globals()), "write the name"),
}


@pytest.mark.parametrize("case", HINTS)
def test_hints(case: str) -> None:
    function, hint = HINTS[case]
    with pytest.raises(CalqueError) as caught:
        grad(function)(X)
    assert hint in str(caught.value.hint), str(caught.value)
    assert caught.value.origin is not None and caught.value.origin.file == __file__


def test_progress_bars() -> None:
    tqdm = pytest.importorskip("tqdm").tqdm

    def total(x: Any) -> Any:
        s = 0.0
        for i in tqdm(range(3), disable=True):
            s += x[i]
        return s

    with pytest.raises(CalqueError, match="tqdm draws a progress bar") as caught:
        grad(total)(X)
    assert caught.value.origin is not None and caught.value.origin.file == __file__


CONTAINERS = {
    "a power": (lambda x: np.sum(x**2), [1.0, 2.0], "list"),
    "a product": (lambda x: sum(x * 2.0), [1.0, 2.0], "list"),
    "a method": (lambda x: x.sum(), [1.0, 2.0], "list"),
    "a tuple": (lambda x: np.sum(x - 1.0), (1.0, 2.0), "tuple"),
    "a dict": (lambda x: x * 2.0, {"a": 1.0}, "dict"),
}


@pytest.mark.parametrize("case", CONTAINERS)
def test_a_list_where_an_array_is_meant(case: str) -> None:
    function, given, kind = CONTAINERS[case]
    with pytest.raises((TypeError, AttributeError)) as caught:
        grad(function)(given)
    notes = "\n".join(caught.value.__notes__)
    assert __file__ in notes and f"argument 0 (x) is a {kind}" in notes
    assert ("np.array(...)" in notes) != (kind == "dict")
    assert grad(lambda x: x[0] ** 2 + 3.0 * x[1])([1.0, 2.0]) == [2.0, 3.0]  # lists are taken


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (np.array([1.0, None], dtype=object), "pass x.astype(float)"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "np.timedelta64"),
    ],
)
def test_arrays_without_numbers(given: Any, hint: str) -> None:
    with pytest.raises(CalqueError, match=r"argument 0 \(x\)") as caught:
        grad(lambda x: np.sum(x))(given)
    assert hint in str(caught.value.hint)


def test_what_must_be_known_is_told_with_what_it_depends_on() -> None:
    def padded(x: Any, y: Any) -> Any:
        return np.sum(np.pad(x, int(y[0] * x[1])))

    with pytest.raises(CalqueError, match="run-time data: the elements of [xy], the elements of [xy]"):
        grad(padded)(X, X)


def test_casts_for_type_checkers_are_taken() -> None:
    np.testing.assert_array_equal(grad(lambda x: cast(float, x[0]) * 2.0)(X), [2.0, 0.0, 0.0])
    assert calque.jit(lambda x: cast(float, x[0]) * 2.0)(X) == 2.0
