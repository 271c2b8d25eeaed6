"""Classes of the user's that are numbers, ``class Metres(float)``, of run-time values too."""

import math
import numbers

import numpy as np
import pytest

import calque
from calque.transpiler.errors import CalqueError


class Named:
    _name = ""

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, name):
        self._name = name.upper()


class Quantity(float, Named):
    unit = "m"

    def __new__(cls, value, name="", limit=None):
        made = float.__new__(cls, value)
        if name:
            made.name = name
        if limit is not None and made > limit:
            raise ValueError("beyond the limit")
        return made

    @property
    def half(self):
        return self / 2

    def twice(self):
        return self * 2

    @classmethod
    def of(cls, value):
        return cls(value, "made")


class Angle(Quantity):
    def __new__(cls, value):
        degrees = Quantity(value, "angle")
        return Quantity.__new__(cls, math.radians(degrees), name=degrees.name)


class Doubling(float):
    def __add__(self, other):
        return Doubling(float(self) + 2 * other)

    def __neg__(self):
        return 7.0 * float(self)

    def __lt__(self, other):
        return float(self) > other


class WithInit(float):
    def __init__(self, value):
        self.origin = value


class Count(int):
    pass


def attributes(x):
    a, b = Quantity(x, "q"), Quantity(2.0)
    known = b.half if type(a) is Quantity and isinstance(a, float) else 0
    both = len(a.name + a.unit + Quantity.of(x).name) + a.twice() + a.half + known
    return a * b + both + abs(a) + isinstance(a, numbers.Real) + hasattr(a, "limit") + float(a) ** 2


def derived(x):
    angle = Angle(x)
    return math.sin(angle) * len(angle.name) + isinstance(angle, Quantity) * angle


def operators(x):
    return Doubling(x) + x + 3.0 * -Doubling(x) if Doubling(x) < 0.2 else Doubling(x) * x


def initialised(x):
    made = WithInit(x)
    return made * made.origin + WithInit(3.0).origin


def integers(x):
    return x * Count(math.floor(10.0 * x)) + Count(3) * x


def on_both_paths(x):
    made = Quantity(x) if x > 0.2 else Quantity(2 * x)
    return made * made if isinstance(made, Quantity) else x


def limited(x):
    return Quantity(x, "x", limit=0.5) * 2


PROGRAMS = [attributes, derived, operators, initialised, integers, on_both_paths, limited]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("x", [0.13, 0.33])
def test_as_python(f, x):
    np.testing.assert_allclose(calque.jit(f)(x), f(x), rtol=1e-14)
    np.testing.assert_allclose(calque.value_and_grad(f)(x)[0], f(x), rtol=1e-14)
    calque.check_grads(f, (x,), order=1)
    rows = np.array([0.13, 0.33])
    np.testing.assert_allclose(calque.vmap(f)(rows), [f(v) for v in rows.tolist()], rtol=1e-13)


def test_errors():
    with pytest.raises(ValueError, match="beyond the limit"):
        calque.jit(limited)(0.7)
    with pytest.raises(AttributeError, match="'Quantity' object has no attribute 'other'"):
        calque.jit(lambda x: Quantity(x).other)(0.7)

    def of_several(x):
        made = Quantity(x, "a") if x > 0.2 else Quantity(2 * x, "b")
        return made * len(made.name)

    with pytest.raises(CalqueError, match="that several paths"):
        calque.jit(of_several)(0.7)

    def renamed(x):
        made = Quantity(x)
        if x > 0.2:
            made.name = "large"
        return made * len(made.name)

    with pytest.raises(CalqueError, match="An attribute of a number is set"):
        calque.jit(renamed)(0.7)


@pytest.mark.parametrize("x", [0.3, 0.0])
def test_the_truth_of_a_number_selects(x):
    """Nested tests, the outer of which is a float."""

    def f(x):
        size = abs(x)
        if size:
            s = math.sin(x)
            if size == 0.25:
                s, c = math.copysign(0.5, s), 2.0
            elif size == 0.75:
                s, c = math.copysign(0.7, s), 3.0
            else:
                c = math.cos(x)
        else:
            s, c = 0.0, 1.0
        return math.sqrt(s * s + c) + math.hypot(s, c * c)

    calque.check_grads(f, (x,), order=1)
    assert calque.jit(calque.grad(f))(x) == calque.grad(f)(x)


@pytest.mark.parametrize("x", [2.0, 2.5, np.float64(3.0)])
def test_whole_numbers(x):
    f = lambda x: x * x if x.is_integer() else x
    assert calque.jit(f)(x) == f(x)
    assert calque.grad(f)(x) == (2.0 * x if x != 2.5 else 1.0)
