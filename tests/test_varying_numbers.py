"""A captured number that changes from call to call becomes an input of the generated code."""

import functools
import sys
import types
import warnings

import numpy as np
import pytest

import calque

X = np.linspace(0.5, 2.0, 5)
rate = 0.5
kind_of = np.float64
settings = {"rate": 0.5}
steps = [0.5]
namespace = types.SimpleNamespace(rate=0.5)


class Model:
    rate = 0.5

    def loss(self, p):
        return np.sum(np.tanh(self.rate * p) * p)


class Slots:
    __slots__ = ("rate",)

    def __call__(self, p):
        return np.sum(np.tanh(self.rate * p) * p)


def of_global(p):
    return np.sum(np.tanh(rate * p) * p)


def of_dict(p):
    return np.sum(np.tanh(settings["rate"] * p) * p)


def of_list(p):
    return np.sum(np.tanh(steps[0] * p) * p)


def of_namespace(p):
    return np.sum(np.tanh(namespace.rate * p) * p)


def scaled(p):
    return rate * p


def of_nested(p):
    return np.sum(np.tanh(scaled(p)) * p)


def in_loop(p):
    total = 0.0
    for k in range(p.shape[0]):
        total = total + np.tanh(rate * p[k]) * p[k]
    return total


def under_branch(p):
    if rate > 1.0:
        return np.sum(np.tanh(rate * p) * p)
    return np.sum(p * np.tanh(rate * p))


def of_closure():
    own = 0.5

    def f(p):
        return np.sum(np.tanh(own * p) * p)

    def change(value):
        nonlocal own
        own = value

    return f, change


def set_global(value):
    sys.modules[__name__].rate = value


def default(p, rate=0.5):
    return np.sum(np.tanh(rate * p) * p)


def change_default(value):
    default.__defaults__ = (value,)


def _places():
    model, slots, (closure, change) = Model(), Slots(), of_closure()
    return {
        "global": (of_global, set_global),
        "dict": (of_dict, functools.partial(settings.__setitem__, "rate")),
        "list": (of_list, functools.partial(steps.__setitem__, 0)),
        "namespace": (of_namespace, functools.partial(setattr, namespace, "rate")),
        "method": (model.loss, functools.partial(setattr, model, "rate")),
        "slots": (slots, functools.partial(setattr, slots, "rate")),
        "nested": (of_nested, set_global),
        "loop": (in_loop, set_global),
        "branch": (under_branch, set_global),
        "closure": (closure, change),
        "default": (default, change_default),
    }


VALUES = [0.5, 0.7, 1.1, 1.3, 0.9, -0.3, np.inf, 0.0]
TRANSFORMS = {
    "grad": calque.grad,
    "value_and_grad": lambda f: lambda p: calque.value_and_grad(f)(p)[1],
    "jit": lambda f: calque.jit(calque.grad(f)),
}


def slope(rate):
    """Of sum(tanh(rate * p) * p), by hand."""
    with np.errstate(all="ignore"):
        bend = rate * X * (1.0 - np.tanh(rate * X) ** 2)
    return np.tanh(rate * X) + np.where(np.isnan(bend), 0.0, bend)


@pytest.mark.parametrize("place", list(_places()))
@pytest.mark.parametrize("way", ["grad", "jit"])
def test_every_step_is_right_and_later_ones_make_no_program(place, way):
    f, change = _places()[place]
    change(VALUES[0])
    gradient = TRANSFORMS[way](f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (v for v in VALUES if np.isfinite(v)):
            change(value)
            np.testing.assert_allclose(gradient(X), slope(value), rtol=1e-12)
    made = gradient.cache_info().programs
    assert made == 4
    for value in np.linspace(0.1, 2.0, 20):
        change(float(value))
        np.testing.assert_allclose(gradient(X), slope(value), rtol=1e-12)
    assert gradient.cache_info().programs == made
    name = {"list": "steps_a", "closure": "own", "dict": "settings_rate"}.get(place, "rate")
    assert f", *, {name}):\n" in gradient.source(X)


def test_under_vmap_and_value_and_grad(monkeypatch):
    mapped, both = calque.vmap(of_global), calque.value_and_grad(of_global)
    batch = np.stack([X, 2 * X])
    for value in VALUES[:6]:
        monkeypatch.setitem(globals(), "rate", value)
        np.testing.assert_allclose(mapped(batch), [of_global(p) for p in batch], rtol=1e-12)
        found, gradient = both(X)
        np.testing.assert_allclose(found, of_global(X), rtol=1e-12)
        np.testing.assert_allclose(gradient, slope(value), rtol=1e-12)
    assert mapped.cache_info().programs == both.cache_info().programs == 4


def test_types_are_kept_apart(monkeypatch):
    """A Python float is weak, a NumPy float64 is not; an integer stays one."""

    def halved(p):
        return p * rate

    run = calque.jit(halved)
    single = X.astype(np.float32)
    values = [0.1, 0.2, 0.3, 0.4, np.float64(0.5), 2, True, np.float32(0.25), 1j, 0.6, 3, 1 << 40]
    for value in values * 2:
        monkeypatch.setitem(globals(), "rate", value)
        for x in (X, single, np.arange(3)):
            found, expected = run(x), halved(x)
            assert found.dtype == expected.dtype, (value, x.dtype)
            np.testing.assert_array_equal(found, expected)


def test_each_exponent_is_right_at_zero(monkeypatch):
    power = calque.grad(lambda p: np.sum(p**rate))
    x = np.array([0.0, 2.0])
    for n in (2, 3, 1, 4, 0, 2.0, 1.0, 5, 0.0, 3.0, 1, 0, 2):
        monkeypatch.setitem(globals(), "rate", n)
        np.testing.assert_allclose(power(x), [1.0 * (n == 1), n * 2.0 ** (n - 1)], rtol=1e-15)


def layers(p):
    for factor in [2.0, 3.0, 5.0, 7.0, 11.0, 13.0][: int(rate)]:
        p = factor * p
    return np.sum(p)


def keyed(p):
    return np.sum(p) * {1: 2.0, 2: 6.0, 3: 30.0, 4: 210.0, 5: 2310.0}[rate]


def structured(p):
    if rate == 2:
        found = (p, p, p)
    else:
        found = (p, p)
    return np.sum(p) * len(found)


def axis_of(p):
    return np.sum(np.sum(np.stack([p] * 2)[None, None, None, None], axis=rate) ** 2)


@pytest.mark.parametrize("f", [layers, keyed, structured, axis_of], ids=lambda f: f.__name__)
def test_what_cannot_be_an_argument_is_named_once(f, monkeypatch):
    gradient = calque.grad(f)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (1, 2, 3, 4, 5, 2, 3):
            monkeypatch.setitem(globals(), "rate", n)
            step = [f(X + 1e-6 * e) - f(X - 1e-6 * e) for e in np.eye(X.size)]
            np.testing.assert_allclose(gradient(X), np.array(step) / 2e-6, rtol=1e-6)
    (warned,) = [w for w in caught if w.category is RuntimeWarning]
    assert "for each value of rate, a captured number" in str(warned.message)
    assert "pass rate as an argument" in str(warned.message)
    assert warned.filename == __file__


def test_what_varies_beside_it_is_an_argument_all_the_same(monkeypatch):
    def loss(p):
        return layers(p) * namespace.rate

    gradient = calque.grad(loss)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (1, 2, 3, 4, 5):
            monkeypatch.setitem(globals(), "rate", n)
            monkeypatch.setattr(namespace, "rate", 0.1 * n)
            product = float(np.prod([2.0, 3.0, 5.0, 7.0, 11.0][:n]))
            np.testing.assert_allclose(gradient(X), np.full(5, 0.1 * n * product))
    assert [w.filename for w in caught] == [__file__] and "of rate," in str(caught[0].message)
    made = gradient.cache_info().programs
    for step in range(5):
        monkeypatch.setattr(namespace, "rate", 0.3 * step)
        np.testing.assert_allclose(gradient(X), np.full(5, 0.3 * step * 2310.0))
    assert gradient.cache_info().programs == made


def test_an_error_of_the_users_is_no_matter_of_what_varies(monkeypatch):
    def loss(p):
        return np.sum(rate * p + np.ones(5))

    gradient = calque.grad(loss)
    for value in VALUES[:5]:
        monkeypatch.setitem(globals(), "rate", value)
        gradient(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError):
            gradient(np.ones((2, 3)))
        monkeypatch.setitem(globals(), "rate", 0.01)
        assert np.allclose(gradient(X), 0.01)


def test_a_flag_that_goes_to_and_fro_has_two_programs(monkeypatch):
    def loss(p):
        return np.sum(p * p) if rate else np.sum(p)

    gradient = calque.grad(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(10):
            monkeypatch.setitem(globals(), "rate", step % 2 == 0)
            np.testing.assert_allclose(gradient(X), np.ones(5) if step % 2 else 2 * X)
    assert gradient.cache_info().programs == 2


def test_a_type_that_changes(monkeypatch):
    """A global that names a dtype, or a class that is defined again."""

    def f(p):
        return p.astype(kind_of)  # noqa: F821

    run = calque.jit(f)
    for kind in (np.float32, np.float64, np.float32):
        monkeypatch.setitem(globals(), "kind_of", kind)
        assert run(X).dtype == kind


def test_captured_values_named_as_a_parameter(monkeypatch):
    def f(rate, **first):
        return np.sum(scaled(rate)) * np.sum(first["X"] * captured_x())

    def captured_x():
        return X

    gradient = calque.grad(f)
    for value in VALUES[:6]:
        monkeypatch.setitem(globals(), "rate", value)
        np.testing.assert_allclose(gradient(np.ones(5), X=2.0), value * 2.0 * np.sum(X))


def test_two_names_of_one_array_or_list_may_part(monkeypatch):
    here = sys.modules[__name__]
    for value, other in ((np.ones(5), np.full(5, 3.0)), ([1.0], [3.0]), ({0: 1.0}, {0: 3.0})):
        here.first = here.second = value

        def loss(p):
            return np.sum(first[0] * p + second[0] * p * p)  # noqa: F821

        for gradient in (calque.grad(loss), calque.jit(calque.grad(loss))):
            here.second = value
            np.testing.assert_allclose(gradient(X), 1.0 + 2.0 * X)
            here.second = other
            np.testing.assert_allclose(gradient(X), 1.0 + 6.0 * X)
