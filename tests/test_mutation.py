"""The mutation oracle: a rule broken on purpose is noticed by the checks of test_primitives.

For every record with derivatives each mutant below replaces its jvp or its vjp, and the checks that
hold that rule, run on the same samples, must fail. A check that cannot fail would be found here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import test_primitives as table

from calque.transpiler.errors import NotDifferentiable
from calque.transpiler.ir.builder import Array
from calque.transpiler.primitives.base import Primitive
from calque.transpiler.primitives.record import PRIMITIVES, Scatter

Change = Callable[[Any], Any]


def has_derivatives(primitive: Primitive) -> bool:
    if primitive.nondifferentiable or primitive.samples is None:
        return False
    return primitive.jvp is not None and primitive.vjp is not None and bool(
        table.derivatives(primitive.name)
    )




def changed(change: Change, value: Any) -> Any:
    """`change` on a tangent or cotangent; a Scatter adds what it would have added, changed."""
    if value is None or isinstance(value, Exception):  # a refusal stays one
        return value
    if not isinstance(value, Scatter):
        return change(value)
    scatter = value

    def add(x_bar: Array) -> None:
        fresh = np.zeros_like(x_bar)
        scatter.add(fresh)
        x_bar[...] += change(fresh)

    return Scatter(add)


def negated(value: Any) -> Any:
    return -value


def scaled(value: Any) -> Any:
    """A factor that is slightly off."""
    return value * 1.001


def lost(value: Any) -> Any:
    """A contribution that was never added."""
    return value * 0.0


def flipped(value: Any) -> Any:
    """All axes back to front: what a wrong transpose or a wrong index order gives."""
    return value[(slice(None, None, -1),) * value.ndim] if isinstance(value, Array) else -value


def arguments_with_cotangent(name: str) -> set[int]:
    """The positions of the arguments to whose adjoint the vjp contributes a number that is not 0."""
    rng = np.random.default_rng(5)
    found = set()
    for d in table.derivatives(name):
        bars = [table.normal(rng, out) for out in d.outs if table.is_float(out)]
        args = d.rebuild([np.float64(0.0)] * len(d.inputs))
        positions = [place for place, arg in enumerate(args) if isinstance(arg, np.float64)]
        try:
            cotangents = d.vjp(bars)
        except NotDifferentiable:
            continue
        for place, cotangent in zip(d.moving, cotangents, strict=True):
            if np.any(np.asarray(cotangent) != 0.0):
                found.add(positions[place])
    return found


def has_order(name: str) -> bool:
    """True if some sampled argument has more than one element, so that a wrong order shows."""
    return any(
        np.size(d.inputs[place]) > 1 for d in table.derivatives(name) for place in d.moving
    )


WITH_RULES = [name for name in table.EVERY if has_derivatives(PRIMITIVES[name])]
COUNTED = {name: arguments_with_cotangent(name) for name in WITH_RULES}
DIFFERENTIABLE = [name for name in WITH_RULES if COUNTED[name]]
# Their derivative is zero wherever it is defined: there is nothing to break.
FLAT = {"np.sign", "np.nextafter", "np.spacing"}
# They are derivatives themselves, and those of second order are refused.
LAST = {"random.gamma_slope", "random.log_gamma_slope", "prng.betainc_by_a", "prng.betainc_by_b"}
# Their derivative is refused, by all arguments.
LAST |= {"linalg.schur", "linalg.rsf2csf", "linalg.hessenberg", "special.zeta of one", "special.zetac"}


@dataclass(frozen=True)
class Mutant:
    """A rule, its faulty replacement, and the checks of which at least one must fail."""

    rule: str
    change: Change
    noticed_by: tuple[Callable[[str], None], ...]


FORWARD = table.test_forward_against_differences
REVERSE = table.test_reverse_against_forward
MUTANTS = {
    "jvp negated": Mutant("jvp", negated, (FORWARD,)),
    "jvp scaled": Mutant("jvp", scaled, (FORWARD,)),
    "jvp lost": Mutant("jvp", lost, (FORWARD,)),
    "vjp negated": Mutant("vjp", negated, (REVERSE,)),
    "vjp scaled": Mutant("vjp", scaled, (REVERSE,)),
    "vjp lost": Mutant("vjp", lost, (REVERSE,)),
    "vjp flipped": Mutant("vjp", flipped, (REVERSE,)),
}


def notices(check: Callable[[str], None], name: str) -> bool:
    try:
        check(name)
    except AssertionError:
        return True
    return False


def replaced(
    monkeypatch: pytest.MonkeyPatch, primitive: Primitive, rule: str, change: Change, only: int | None
) -> None:
    """Replace a rule by one whose results (all, or the one at position `only`) are changed."""
    right = getattr(primitive, rule)

    def wrong(given: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
        found = tuple(right(given, outs, args, params))
        return tuple(
            changed(change, value) if only in (None, position) else value
            for position, value in enumerate(found)
        )

    monkeypatch.setattr(primitive, rule, wrong)


def test_many_rules_are_mutated() -> None:
    assert len(DIFFERENTIABLE) >= 60
    assert set(WITH_RULES) - set(DIFFERENTIABLE) <= FLAT | LAST


CASES = [
    (name, mutant)
    for name in DIFFERENTIABLE
    for mutant in MUTANTS
    if MUTANTS[mutant].change is not flipped or has_order(name)
]


@pytest.mark.parametrize(("name", "mutant"), CASES, ids=[" ".join(case) for case in CASES])
def test_broken_rule_is_noticed(name: str, mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = MUTANTS[mutant]
    replaced(monkeypatch, PRIMITIVES[name], chosen.rule, chosen.change, None)
    assert any(notices(check, name) for check in chosen.noticed_by), f"{mutant} in {name} survives"


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_each_argument_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The contribution to one argument alone is lost."""
    for position in sorted(COUNTED[name]):
        with monkeypatch.context() as patch:
            replaced(patch, PRIMITIVES[name], "vjp", lost, position)
            assert notices(REVERSE, name), f"the cotangent of argument {position} of {name} is not checked"


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_both_modes_wrong_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dot-product test passes when both modes err together; the differences must not."""
    replaced(monkeypatch, PRIMITIVES[name], "jvp", negated, None)
    replaced(monkeypatch, PRIMITIVES[name], "vjp", negated, None)
    assert not notices(REVERSE, name)
    assert notices(FORWARD, name)
