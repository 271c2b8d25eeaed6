"""Private names (``self.__x``) are a class's own, as in Python; unset slots are asked of no class."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import calque


class Rod:
    __scale = 2.0

    def __init__(self, x):
        self.__x = x
        self.y = 2.0 * x

    def get(self):
        return self.__x * self.__stretched(self.y, Rod.__scale)

    def __stretched(self, y, __by):
        def __twice(__y):
            return 2.0 * __y

        return __twice(y) * __by


class Longer(Rod):
    def __init__(self, x):
        super().__init__(x)
        self.__x = 7.0 * x  # (another attribute than the base's)

    def both(self):
        return self.get() + self.__x


class Slots:
    __slots__ = ("__x", "later")

    def __init__(self, x):
        self.__x = x

    def __getattr__(self, name):
        if name == "doubled":
            return 2.0 * self.__x
        raise AttributeError(name)

    def get(self):
        for _ in range(2):
            self.__x = self.__x * self.__x
        return self.doubled + (0.0 if hasattr(self, "later") else self.__x)


class _Shy:
    def inner(self):
        class __Inner:
            def __init__(self, x):
                self.__x = 3.0 * x

            def get(self):
                return self.__x * self._Inner__x

        return __Inner


INNER = _Shy().inner()


class Half:
    """Its attributes are known by one that is set last."""

    __slots__ = ("known", "parts")

    def __init__(self, x):
        parts = [k * x for k in (1.0, 2.0)]
        self.parts = [p * p for p in parts]
        self.known = {"area": 3.0}

    def __getattr__(self, name):
        if name in self.known:
            return self.known[name]
        raise AttributeError(name)


@dataclasses.dataclass
class Box:
    __side: Any

    def area(self):
        return self.__side**2


PROGRAMS = {
    "attribute": lambda x: Rod(x).get(),
    "of a base": lambda x: Longer(x).both(),
    "from outside": lambda x: Longer(x)._Rod__x * Longer(x)._Longer__x,
    "slots": lambda x: Slots(x).get(),
    "a class within": lambda x: INNER(x).get(),
    "half built": lambda x: Half(x).area * sum(Half(x).parts),
    "a dataclass": lambda x: Box(x).area(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_slopes(name: str) -> None:
    function, step = PROGRAMS[name], 1e-6
    slope = (function(1.3 + step) - function(1.3 - step)) / (2.0 * step)
    np.testing.assert_allclose(calque.jit(function)(1.3), function(1.3), rtol=1e-12)
    np.testing.assert_allclose(calque.grad(function)(1.3), slope, rtol=1e-7)
    np.testing.assert_allclose(calque.vmap(function)(np.array([1.3])), [function(1.3)], rtol=1e-12)


def test_an_instance_from_outside_keeps_its_own() -> None:
    rod = Longer(1.5)

    def total(x):
        return rod.both() * x

    np.testing.assert_allclose(calque.grad(total)(2.0), rod.both())
