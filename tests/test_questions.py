"""Questions about types get plain Python's answers, for a float, a NumPy scalar, arrays."""

import collections.abc
import numbers

import numpy as np
import pytest

import calque
from calque.transpiler.errors import UnsupportedFunction

VALUES = (1.5, np.float64(1.5), np.float32(1.5), np.array(1.5), np.array([1.5, 2.5]))
CLASSES = (
    *(float, int, complex, np.ndarray, np.generic, np.floating, np.float64, np.inexact),
    *(numbers.Number, numbers.Real, numbers.Integral, collections.abc.Iterable),
    *(collections.abc.Sized, collections.abc.Callable, collections.abc.Hashable),
    (float, np.ndarray),
)
NAMES = (
    *("__len__", "__iter__", "__call__", "__array__", "__float__", "__dict__", "shape", "dtype"),
    *("T", "item", "is_integer", "real", "fill", "hex", "nothing", "__class__", "setflags"),
)
MADE = {
    "itself": lambda x: x,
    "asarray": lambda x: np.asarray(x),
    "array": lambda x: np.array(x),
    "copy": lambda x: np.copy(x),
    "product": lambda x: x * 1.0,
    "negative": lambda x: -x,
    "sum": lambda x: np.sum(x),
    "element": lambda x: np.ravel(x)[0],
    "ellipsis": lambda x: np.ravel(x)[0, ...],
    "reshaped": lambda x: np.ravel(x)[:1].reshape(()),
    "squeezed": lambda x: np.squeeze(np.ravel(x)[:1]),
    "where": lambda x: np.where(True, np.ravel(x)[0], 0.0),
    "method": lambda x: np.ravel(x).sum(),
    "atleast": lambda x: np.atleast_1d(x),
    "multiplied": lambda x: np.multiply(x, 2.0),
    "dot": lambda x: np.dot(np.ravel(x), np.ravel(x)),
    "operator": lambda x: np.ravel(x) @ np.ravel(x),
    "max": lambda x: np.max(x),
    "float": lambda x: float(np.ravel(x)[0]),
    "item": lambda x: np.ravel(x)[0].item(),
    "of both": lambda x: np.asarray(np.sum(x)) if np.sum(x) < 100.0 else np.array(2.0),
}


def answers(value):
    return [
        *[isinstance(value, kind) for kind in CLASSES],
        *[hasattr(value, name) for name in NAMES],
        *[getattr(value, name, None) is None for name in NAMES],
        callable(value),
        np.isscalar(value),
        np.iterable(value),
        type(value) is float,
        type(value) is np.ndarray,
        issubclass(type(value), np.generic),
        value.__class__ is type(value),
        value.__class__ is np.float64,
    ]


def transformed(kind, function):
    return {
        "value": lambda x: calque.value_and_grad(function)(x)[0],
        "jit": lambda x: calque.jit(function)(x),
        "jit of grad": lambda x: calque.jit(calque.value_and_grad(function))(x)[0],
    }[kind]


@pytest.mark.parametrize("kind", ["value", "jit", "jit of grad"])
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__}{np.shape(v)}")
def test_answers(value, made, kind):
    def weighed(x):
        found, total = answers(MADE[made](x)), 0.0
        for k in range(len(found)):
            total = total + (k + 1.0) ** 2 * found[k]
        return np.sum(x) * total

    expected = np.float64(weighed(value))
    assert np.isclose(transformed(kind, weighed)(value), expected, rtol=1e-6)


def which(x):
    if isinstance(x, float):
        return x * 2.0
    return np.sum(x) * 3.0 if isinstance(x, np.ndarray) else x * 5.0


def test_one_function_called_with_each_kind():
    gradient, compiled = calque.grad(which), calque.jit(which)
    for value in (*VALUES, *reversed(VALUES), np.float32(1.0), np.array(1.0, "f4")):
        assert np.allclose(compiled(value), which(value))
        assert np.allclose(gradient(value), which(value) / np.sum(value))


captured = np.array(2.0)


def asks_captured(x):
    return x * 2.0 if isinstance(captured, np.ndarray) else x * 3.0


def test_captured_array_without_axes():
    assert calque.grad(asks_captured)(1.0) == 2.0


def test_examples_of_vmap_are_scalars():
    rows = np.array([1.0, 2.0])
    assert np.allclose(calque.vmap(which)(rows), [which(r) for r in rows])


def either(x, y):
    z = np.asarray(x) if y > 0.0 else x
    return x * 2.0 if isinstance(z, np.ndarray) else x * 3.0


def test_what_only_a_run_can_know_is_refused():
    with pytest.raises(UnsupportedFunction, match="only a run can know"):
        calque.grad(either)(np.float64(1.5), 2.0)
    assert calque.grad(either)(np.array(1.5), 2.0) == 2.0


def total(values):
    return sum(values) if hasattr(values, "__len__") else values * 3.0


def test_number_or_list():
    assert calque.grad(total)(1.5) == 3.0
    assert np.allclose(calque.grad(total)(np.array([1.5, 2.5])), 1.0)
