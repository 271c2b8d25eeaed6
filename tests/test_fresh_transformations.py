"""A fresh ``grad(f)`` reuses the code of an earlier one, with the same checks."""

import copy
import functools
import gc
import pickle
import weakref

import numpy as np
import pytest

import calque

scale = 2.0


def loss(p):
    return np.sum(scale * p * p)


TRANSFORMATIONS = {
    "grad": calque.grad,
    "jit": calque.jit,
    "jit of grad": lambda f: calque.jit(calque.grad(f)),
    "vmap of grad": lambda f: calque.vmap(calque.grad(f)),
    "jvp": lambda f: lambda x: calque.jvp(f, (x,), (x,))[1],
    "hessian": calque.hessian,
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_it_generates_once(name, monkeypatch):
    from calque.transpiler import pipeline

    def fresh_loss(p):
        return np.sum(p**3)

    made = []
    original = pipeline.to_core
    monkeypatch.setattr(pipeline, "to_core", lambda *a: made.append(a) or original(*a))
    x = np.ones((2, 3)) if "vmap" in name else np.ones(3)
    first = TRANSFORMATIONS[name](fresh_loss)(x)
    count = len(made)
    assert count
    for _ in range(3):
        assert np.array_equal(TRANSFORMATIONS[name](fresh_loss)(x), first)
    assert len(made) == count


def test_options_are_apart():
    def product(x, y):
        return x * y * y

    assert calque.grad(product)(2.0, 3.0) == 9.0
    assert calque.grad(product, argnums=1)(2.0, 3.0) == 12.0
    assert calque.grad(product, argnums=(0, 1))(2.0, 3.0) == (9.0, 12.0)
    assert calque.grad(calque.grad(product, argnums=1), argnums=0)(2.0, 3.0) == 6.0
    assert calque.grad(calque.grad(product, argnums=0), argnums=1)(2.0, 3.0) == 6.0
    x = np.ones((2, 3))
    assert calque.vmap(np.sum, in_axes=0)(x).shape == (2,)

    def total(v):
        return np.sum(v)

    assert calque.vmap(total, in_axes=0)(x).shape == (2,)
    assert calque.vmap(total, in_axes=1)(x).shape == (3,)


def test_captures_are_checked(monkeypatch):
    x = np.ones(3)
    for transform, factor in ((calque.grad, 2.0), (lambda f: calque.jit(calque.grad(f)), 2.0)):
        for value in (2.0, 5.0, -1.0):
            monkeypatch.setitem(globals(), "scale", value)
            assert np.array_equal(transform(loss)(x), np.full(3, factor * value))


def test_code_and_defaults_are_checked():
    def f(x, k=2.0):
        return k * x

    def g(x, k=2.0):
        return k * x * x

    assert calque.grad(f)(3.0) == 2.0
    f.__defaults__ = (7.0,)
    assert calque.grad(f)(3.0) == 7.0
    f.__code__ = g.__code__
    assert calque.grad(f)(3.0) == 42.0


def test_functions_that_take_over_attributes_have_programs_of_their_own():
    def f(x):
        return x * x

    assert calque.grad(f)(3.0) == 6.0

    @functools.wraps(f)
    def wrapped(x):
        return 10.0 * f(x)

    assert calque.grad(wrapped)(3.0) == 60.0
    assert calque.grad(f)(3.0) == 6.0


def test_closures_are_apart():
    def make(k):
        def f(x):
            return k * x

        return f

    assert [calque.grad(make(k))(1.0) for k in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]


def test_rules_that_are_given_anew_are_used():
    @calque.custom_vjp
    def half(x):
        return 0.5 * x

    half.defvjp(lambda x: (0.5 * x, None), lambda saved, bar: (bar,))

    def f(x):
        return half(x)

    assert calque.grad(f)(1.0) == 1.0
    half.defvjp(lambda x: (0.5 * x, None), lambda saved, bar: (3.0 * bar,))
    assert calque.grad(f)(1.0) == 3.0


def test_programs_go_with_their_function_and_not_with_its_copies():
    def f(x):
        return x * x

    calque.grad(f)(1.0)
    gone = weakref.ref(f)
    attributes = copy.deepcopy(vars(f)), pickle.loads(pickle.dumps(vars(f)))
    assert not any(d["_calque_programs"] for d in attributes)
    del f
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("transform", [calque.grad, calque.jit], ids=["grad", "jit"])
def test_a_captured_number_that_keeps_changing_becomes_an_argument(transform, recwarn):
    temperature = 1.0

    def energy(x):
        return np.sum(x * x) / temperature

    transformed = transform(energy)
    for step in range(6):
        temperature = 1.0 + step
        expected = 2.0 / temperature if transform is calque.grad else 3.0 / temperature
        assert np.allclose(transformed(np.ones(3)), expected)
    assert not recwarn and transformed.cache_info().programs == 4
