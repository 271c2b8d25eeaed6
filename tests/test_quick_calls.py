"""Calls that find their program by the exact shapes of arguments, without flattening them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import calque
from calque.runtime.call import blas_threads, dispatch
from calque.transpiler.frontend.paths import static_member


class Peak(NamedTuple):
    height: float
    place: Any


@dataclass
class Rod:
    stiffness: float
    length: Any
    name: str = field(default="rod", metadata={"static": True})

    def energy(self, x):
        scale = 2.0 if self.name == "rod" else 3.0
        return scale * self.stiffness * np.sum((x - self.length) ** 2)


@dataclass(frozen=True)
class Frame:
    rods: tuple[Rod, ...]
    peaks: dict[str, Peak]


class Pair:
    def __init__(self, one, other, names=()):
        self.one, self.other, self.names = one, other, names


calque.register_pytree_node(
    Pair, lambda p: ((p.one, p.other), p.names), lambda names, parts: Pair(*parts, names)
)


def of_peak(peak, x):
    return np.sum(peak.height * np.exp(-((x - peak.place) ** 2)))


def of_rod(rod, x):
    return rod.energy(x)


def of_frame(frame, x):
    return sum(rod.energy(x) for rod in frame.rods) + frame.peaks["high"].height


def of_pair(pair, x):
    return pair.one * np.sum(x) + pair.other


X = np.array([0.5, 1.5, 2.5])
ROD = Rod(2.0, 0.5)
CALLS = [
    (of_peak, Peak(2.0, 1.0), Peak(3.0, 1.0)),
    (of_peak, Peak(2.0, X), Peak(3.0, X)),
    (of_rod, ROD, Rod(3.0, 0.5)),
    (of_frame, Frame((ROD,), {"high": Peak(1.0, 2.0)}), Frame((ROD,), {"high": Peak(2.0, 2.0)})),
    (of_pair, Pair(1.0, 2.0), Pair(2.0, 3.0)),
    (of_pair, [Pair(1.0, 2.0)][0], Pair(5.0, 3.0)),
]


@pytest.mark.parametrize(("function", "first", "second"), CALLS)
@pytest.mark.parametrize("compiled", [False, True])
def test_objects_are_keys_by_their_parts(
    function: Any, first: Any, second: Any, compiled: bool, monkeypatch: Any
) -> None:
    form = calque.jit(function) if compiled else calque.value_and_grad(function)

    def value(argument: Any) -> Any:
        found = form(argument, X)
        return found if compiled else found[0]

    for _ in range(2):
        np.testing.assert_allclose(value(first), function(first, X))

    def refused(*args: Any) -> Any:
        raise AssertionError("the program is looked up by its types")

    monkeypatch.setattr(dispatch.Dispatcher, "find", refused)
    np.testing.assert_allclose(value(second), function(second, X))


def test_other_parts_and_other_structure_are_other_programs() -> None:
    form = calque.jit(of_rod)
    for rod in (ROD, Rod(2.0, 0.5, "bar"), Rod(2.0, X), Rod(np.float32(2.0), 0.5), ROD) * 2:
        np.testing.assert_allclose(form(rod, X), of_rod(rod, X))
    form = calque.jit(of_pair)
    for pair in (Pair(1.0, 2.0), Pair(1.0, 2.0, ("a",)), Pair(X, 2.0), Pair(1.0, 2.0)) * 2:
        np.testing.assert_allclose(form(pair, X), of_pair(pair, X))
    form = calque.jit(lambda pair: pair.one * len(pair.names))
    for names in ("a", ("a", "b"), ("a",), ("a", "b", "c")):
        assert form(Pair(2.0, 1.0, names)) == 2.0 * len(names)


def test_a_method_that_changes_is_read_again() -> None:
    @dataclass
    class Own:
        a: float

        def twice(self):
            return 2.0 * self.a

    form = calque.jit(lambda own: own.twice())
    assert [form(Own(k)) for k in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    Own.twice = lambda self: 5.0 * self.a
    assert form(Own(2.0)) == 10.0


def test_an_integer_in_an_object_that_decides_on_a_program_is_told() -> None:
    def power(peak):
        found = 1.0
        for _ in range(peak.place):
            found = found * peak.height
        return found, np.zeros(peak.place)

    form = calque.jit(power)
    for n in (3, 3, 2, 2, 4):
        value, zeros = form(Peak(2.0, n))
        assert value == 2.0**n and zeros.shape == (n,)


def test_an_object_that_is_stored_into_is_asked_for_shared_memory() -> None:
    def shifted(peak):
        peak.place[0] += peak.height
        return np.sum(peak.place)

    form = calque.jit(shifted)
    for _ in range(3):
        place = X.copy()
        assert form(Peak(1.0, place)) == np.sum(X) + 1.0 and place[0] == 1.5


class Member:
    plain = 1.0

    def method(self):
        return 2.0

    @property
    def both(self):
        return 3.0


class Slots:
    __slots__ = ("held",)


class Meta(type):
    named = 1.0


class OfMeta(metaclass=Meta):
    pass


class Shadowed:
    __dict__ = {"plain": 2.0}  # type: ignore[assignment]


def members() -> list[tuple[Any, str]]:
    """Owners and names: found in an instance, a class, both, a metaclass, and nowhere."""
    one, other = Member(), Member()
    vars(one)["plain"] = vars(other)["own"] = 5.0
    vars(one)["both"] = vars(one)["method"] = 6.0
    slots = Slots()
    slots.held = 1.0
    owners = [one, other, slots, Member, Slots, Meta, OfMeta, OfMeta(), Shadowed(), 1.0, np, int]
    owners += [SimpleNamespace(plain=2.0), len, type]
    names = ["plain", "method", "both", "own", "held", "named", "absent", "__dict__", "__class__"]
    return [(owner, name) for owner in owners for name in names]


def test_members_are_those_that_inspect_finds() -> None:
    for owner, name in members():
        expected = inspect.getattr_static(owner, name, None)
        assert static_member(owner, name) is expected, (owner, name)


def test_small_products_beside_numbers_leave_the_threads_of_blas_alone(monkeypatch: Any) -> None:
    threads = [4]
    library = blas_threads.Library(lambda: threads[0], lambda n: threads.__setitem__(0, n))
    monkeypatch.setattr(blas_threads, "library", lambda: library)
    launch = blas_threads.on_measured_threads(lambda *args, **kwargs: threads[0])
    small, large = np.ones(10), np.ones(10_000)
    assert launch(small, 2.0) == launch(Peak(1.0, small), 3, [2.0], x=small) == 4
    assert launch(small, large) == launch(Peak(1.0, large)) == launch(small, x=large) == 1
    assert launch() == launch(100) == launch(object()) == 1


def test_numpys_own_makers_are_not_compared_at_each_call() -> None:
    def made(x: Any) -> Any:
        return np.sum(np.r_[x, x]) + np.sum(np.mgrid[0:2, 0:2] * x[np.s_[:2]])

    jitted = calque.jit(made)
    np.testing.assert_allclose(jitted(X), made(X))
    guards = jitted.program(X).guards
    assert not any(getattr(path.operation, "__name__", "") == "state" for path, _ in guards)
