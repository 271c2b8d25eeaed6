"""Every composition of up to three transformations, on programs with loops, branches and stores.

The oracle differentiates Taylor polynomials (``compositions/``), and is itself compared with JAX
where JAX can run the program. A plain run takes a sample, ``CALQUE_TESTS=all`` everything:

    CALQUE_TESTS=all pytest tests/test_compositions.py
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from compositions import composed, expected
from compositions.programs import JAX, PROGRAMS
from sampling import EVERYTHING, sampled

import calque
from battery.oracle import leaves, rebuilt, structure
from calque.transpiler import errors

APPLY = composed.operators(calque, np)
OPERATORS = [name for name in expected.OPERATORS if name in APPLY]
Composition = tuple[str, ...]


def of_length(length: int) -> list[Composition]:
    return list(itertools.product(OPERATORS, repeat=length))


def order(operators: Composition) -> int:
    return sum(expected.ORDERS[o] for o in operators)


def chosen() -> list[tuple[Composition, str]]:
    """All pairs of a composition and a program; else a stratified sample of them.

    Every composition of one with every program, every composition of two with some, every program
    with one of three: in an alternation with steps that share no factor, so that all come up.
    """
    names = list(PROGRAMS)
    if EVERYTHING:
        every = [c for length in (1, 2, 3) for c in of_length(length)]
        return [(c, name) for c in every for name in names]
    pairs = [(c, name) for c in of_length(1) for name in names]
    cheap = [c for c in of_length(2) if order(c) <= 3]
    places = [(k, j) for k in range(len(cheap)) for j in range(2)]
    pairs += [(cheap[k], names[(7 * k + 11 * j) % len(names)]) for k, j in places]
    third = [c for c in of_length(3) if order(c) <= 3]
    pairs += [(third[(53 * k) % len(third)], names[k % len(names)]) for k in range(len(names))]
    return list(dict.fromkeys(pairs))


def applied(api: dict[str, Any], operators: Composition, name: str, function: Any) -> Any:
    for k in reversed(range(len(operators))):
        scalar = expected.is_scalar(operators[k + 1 :], name)
        function = api[operators[k]](function, scalar)
    return function


def agree(found: Any, want: Any, operators: Composition) -> None:
    """To 1e-10 of each number, and 1e-11 of the largest: derivatives of high order cancel."""
    assert structure(found) == structure(want)
    for a, b in zip(leaves(found), leaves(want), strict=True):
        assert np.shape(a) == b.shape
        floor = 1e-11 * max(np.max(np.abs(b), initial=0.0), 1e-2)
        np.testing.assert_allclose(a, b, 1e-10, floor, err_msg=".".join(operators))


@pytest.mark.parametrize("operators, name", chosen(), ids=lambda v: v if v in PROGRAMS else ".".join(v))
def test_composition(operators: Composition, name: str) -> None:
    x, want = expected.composed(operators, name)
    if name == "in_place" and "checkpoint" in operators:
        # it stores into its argument: called plainly it does so, run again it is refused by name
        with contextlib.suppress(errors.ImpureFunction):
            agree(applied(APPLY, operators, name, PROGRAMS[name][0])(x), want, operators)
        return
    before = [np.copy(leaf) for leaf in leaves(x)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = applied(APPLY, operators, name, PROGRAMS[name][0])(x)
    agree(found, want, operators)
    for kept, leaf in zip(before, leaves(x), strict=True):
        np.testing.assert_array_equal(kept, leaf)


def test_the_battery_has_what_it_should() -> None:
    assert len(PROGRAMS) >= 40
    assert len(PROGRAMS) - len(JAX) >= 15  # with stores, loops and branches on values
    assert {c for c, _ in chosen()} >= set(of_length(1))


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("operators", [(), ("grad",)], ids=["value", "grad"])
def test_vmap_is_a_loop_and_a_stack(operators: Composition, name: str, size: int) -> None:
    function = PROGRAMS[name][0]
    one = applied(APPLY, operators, name, function)
    x, want = expected.composed(("vmap", *operators), name, (size,))
    found = calque.vmap(one)(x)
    agree(found, want, ("vmap", *operators))
    for k in range(size):
        alone = one(rebuilt(x, iter([np.array(leaf[k]) for leaf in leaves(x)])))
        for row, whole in zip(leaves(alone), leaves(found), strict=True):
            np.testing.assert_allclose(whole[k], row, 1e-13, 1e-13)


def jax_pairs() -> list[tuple[Composition, str]]:
    """Each program with some operators, and all compositions of two: JAX takes its time."""
    names = sorted(JAX)
    ones = [((o,), name) for o in expected.OPERATORS for name in names]
    pairs = [(c, n) for c in itertools.product(expected.OPERATORS, repeat=2) for n in names]
    return sampled(ones, 23) + sampled(pairs, 1186)


def test_the_oracle_agrees_with_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    api, functions = composed.operators(jax, jax.numpy), expected.twins(jax.numpy)
    for operators, name in jax_pairs():
        x, want = expected.composed(operators, name)
        x = rebuilt(x, iter([jax.numpy.asarray(leaf) for leaf in leaves(x)]))
        found = applied(api, operators, name, functions[name])(x)
        agree(rebuilt(found, map(np.asarray, leaves(found))), want, operators)
