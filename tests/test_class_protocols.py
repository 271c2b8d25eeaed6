"""Hooks of classes: setters, descriptors, private names, ``__setattr__``, dicts, signatures."""

import functools
import inspect
import numbers
import typing

import numpy as np
import pytest

import calque


class Held:
    __factor = 3.0

    def __init__(self, v):
        self.__v = v

    @property
    def x(self):
        return self.__v

    @x.setter
    def x(self, v):
        if v > 0.5:
            v = v * 2
        self.__v = v

    def __twice(self):
        return 2 * self.__v * self.__factor

    def run(self):
        return self.__twice()

    def other(self, held):
        return held.__twice()


OUTSIDE = Held(2.0)


def by_a_setter(x):
    held = Held(x)
    held.x = x * 3
    return held.run() + held.other(Held(x)) + OUTSIDE.run() * x + OUTSIDE.other(held)


class Shifted:
    """A data descriptor whose ``__set__`` tests the value."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, cls=None):
        return self if obj is None else getattr(obj, self.name) * 2

    def __set__(self, obj, v):
        setattr(obj, self.name, v + 1.0 if v > 0.2 else v)


class WithDescriptor:
    p = Shifted()

    def __init__(self, v):
        self.p = v


class Explicit:
    def __init__(self, v):
        self.__setattr__("v", v)
        object.__setattr__(self, "w", v * 2)

    def __getattr__(self, name):
        if name == "z":
            return self.v * 3 if self.v > 0.2 else self.v
        raise AttributeError(name)

    def run(self):
        return self.v * self.w * self.__getattribute__("v") * self.z + hasattr(self, "y")


class Checked:
    def __init__(self, v):
        self.v = v

    def __setattr__(self, name, value):
        if value > 0.2:
            value = 2 * value
        super().__setattr__(name, value)


class Base:
    registry: dict = {}

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Base.registry[cls.__name__] = cls


class Squares(Base):
    def run(self, x):
        return x * x


@functools.singledispatch
def by_class(x):
    return x * 1.0


@by_class.register(list)
def _(x):
    return x[0] * 3


@by_class.register
def _(x: float):
    return x * 7


def doubling(function):
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if name == "x":
                bound.arguments[name] = value * 2
        return function(*bound.args, **bound.kwargs)

    return wrapper


def naming(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        signature = inspect.signature(function)
        given = signature.bind_partial(*args, **kwargs).arguments
        every = [given.get(n, p.default) for n, p in signature.parameters.items()]
        return function(*every) if "x" in inspect.getfullargspec(function).args else None

    return wrapper


@doubling
def product(x, y=2.0, *, z=1.5):
    return x * y * z


def with_defaults_of(function):
    """As the package ``decorator`` makes wrappers."""

    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    wrapper.__defaults__ = function.__defaults__
    wrapper.__kwdefaults__ = function.__kwdefaults__
    return wrapper


@with_defaults_of
def with_many_defaults(x, y=2.0, z=3.0, *, w=4.0):
    return x * y * z * w


@naming
def other_product(x, y=2.0):
    return x * y


def of_a_local_function(x):
    def local(a, b=x, *rest, c=3.0, **more):
        return a * b * c

    names = list(inspect.signature(local).parameters)
    given = inspect.signature(local).bind(x, c=2.0).arguments
    return local(**given) * len(names) * len(inspect.getfullargspec(local).args)


class Named(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


CONSTANTS = Named(c_1=2.0)


def by_names(x):
    d = Named(a=x)
    d.b = 2 * x
    return d.a * d.b * d["b"] + d.get("a") + sum(d.values()) + len(d) + CONSTANTS.c_1 * x


class Plain:
    def __init__(self, v):
        self.a, self.b = v, 2 * v


def by_dicts(x):
    k = Plain(x)
    k.__dict__.update(c=3 * x)
    k.__dict__["d"] = x
    return k.c * k.d + k.a + sum(Plain(x).__dict__.values()) + sum(vars(Plain(x)).values())


PROGRAMS = {
    "setter": by_a_setter,
    "descriptor": lambda x: WithDescriptor(x).p * x,
    "explicit": lambda x: Explicit(x).run(),
    "checked": lambda x: Checked(x).v * x,
    "subclasses": lambda x: Base.registry["Squares"]().run(x),
    "singledispatch": lambda x: by_class(x) + by_class([x]),
    "bind": lambda x: product(x) + product(x, y=3.0) + product(x, z=x),
    "signature": lambda x: other_product(x) + other_product(x, y=3.0),
    "defaults": lambda x: with_many_defaults(x) * with_many_defaults(x, x, w=x),
    "local": of_a_local_function,
    "names": by_names,
    "dicts": by_dicts,
    "numbers": lambda x: x * 2 if isinstance(x, numbers.Real) else x,
    "cast": lambda x: typing.cast(float, x) * 2,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("x", [0.1, 0.3])
def test_as_python(name, x):
    f = PROGRAMS[name]
    np.testing.assert_allclose(calque.jit(f)(x), f(x), rtol=1e-14)
    np.testing.assert_allclose(calque.value_and_grad(f)(x)[0], f(x), rtol=1e-14)
    calque.check_grads(f, (x,), order=1)
    rows = np.array([0.1, 0.3])
    np.testing.assert_allclose(calque.vmap(f)(rows), [f(v) for v in rows.tolist()], rtol=1e-13)


def test_a_method_that_is_replaced_is_read_again(monkeypatch):
    f = calque.jit(lambda x: Checked(x).v)
    assert f(0.3) == 0.6
    monkeypatch.setattr(Checked, "__setattr__", object.__setattr__)
    assert f(0.3) == 0.3
