"""Captured dicts of a user's class: their methods and attributes are those of the class."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import calque


class Structure(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def total(self):
        return self.a + self["b"]


class Linked(dict):
    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self


class Settings(dict):
    factor = 2.0

    def __init__(self, **items):
        super().__init__(**items)
        self.weights = np.array([1.0, 2.0])

    def __missing__(self, key):
        return 7.0


structure = Structure(a=1.0, b=2.0, w=np.array([1.0, 2.0]))
linked = Linked(a=3.0, b=4.0, inner=structure)
settings = Settings(a=1.0)


def by_getattr(x):
    return structure.a * x * x + np.sum(structure.w * x) + structure.total() * x


def by_dict(x):
    return linked.a * x * x + linked.inner.b * x + linked["b"]


def missing(x):
    rest = np.sum(settings.weights * x) + settings.factor * x * x
    return settings["a"] * x + settings["zz"] * x + rest + (len(settings) + ("a" in settings)) * x


def through(x):
    return isinstance(settings, Settings) * x + sum(v * x for v in settings.values())


@pytest.fixture
def changed() -> Iterator[None]:
    yield
    structure.update(a=1.0, w=np.array([1.0, 2.0]))
    linked["a"], settings["a"], settings.weights = 3.0, 1.0, np.array([1.0, 2.0])


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize("fn", [by_getattr, by_dict, missing, through])
def test_against_python(fn) -> None:
    def check() -> None:
        x, h = 1.5, 1e-6
        assert calque.jit(fn)(x) == fn(x)
        assert calque.grad(fn)(x) == pytest.approx((fn(x + h) - fn(x - h)) / (2 * h))
        assert calque.jvp(fn, (x,), (1.0,))[1] == pytest.approx(calque.grad(fn)(x))
        np.testing.assert_allclose(calque.vmap(fn)(np.array([x, 2.0])), [fn(x), fn(2.0)])

    check()
    structure["a"], structure["w"] = 9.0, np.array([5.0, 6.0])
    linked["a"], settings["a"], settings.weights = 11.0, 2.0, np.array([3.0, 3.0])
    check()
