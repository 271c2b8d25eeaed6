"""Programs that calque must refuse, each with the offending line marked by a trailing comment.

This file holds the register and those that are refused for hidden state, input and output.

A function may mark more than one line where either is a fair place to point at.
"""

from __future__ import annotations

import io
import itertools
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import calque
from battery.registry import vector

MARK = "# <- here"


@dataclass(frozen=True)
class Refusal:
    """A function, its arguments, the error's class, the function with the mark, options of grad."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    error: str
    where: Callable[..., Any]
    options: dict[str, Any]

    def run(self) -> Any:
        """Take the gradient, which must raise the error."""
        return calque.grad(self.fn, **self.options)(*self.args)


REFUSALS: list[Refusal] = []


def refused(
    error: str,
    *args: Any,
    where: Callable[..., Any] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that must be refused; without arguments it gets a vector of three."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        values = args or (vector(3),)
        REFUSALS.append(Refusal(fn.__name__, fn, values, error, where or fn, options))
        return fn

    return register


TOTAL = 0.0
LOG: list[Any] = []
CACHE: dict[str, Any] = {}
BUFFER = np.zeros(3)
STREAM = itertools.count()
RNG = np.random.default_rng(0)


class Model:
    """Captured by the functions below."""

    def __init__(self):
        self.calls = 0
        self.weight = np.ones(3)

    def counted(self, x):
        self.calls += 1  # <- here
        return np.sum(x * x)


MODEL = Model()


# Hidden state: random numbers


@refused("ImpureFunction")
def numpy_random_normal(x):
    y = x + np.random.normal(size=3)  # <- here
    return np.sum(y)


@refused("ImpureFunction")
def numpy_random_rand_in_loop(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * np.random.rand()  # <- here
    return total


@refused("ImpureFunction")
def numpy_random_seed(x):
    np.random.seed(0)  # <- here
    return np.sum(x)


@refused("ImpureFunction")
def captured_generator(x):
    return np.sum(x * RNG.normal(size=3))  # <- here


@refused("ImpureFunction")
def random_module(x):
    return np.sum(x) * random.random()  # <- here


def noisy(y):
    return y + np.random.randn(3)  # <- here


@refused("ImpureFunction", where=noisy)
def random_in_helper(x):
    return np.sum(noisy(x))


# Hidden state: writes to what was captured


@refused("ImpureFunction")
def global_statement(x):
    global TOTAL
    TOTAL = np.sum(x)  # <- here
    return TOTAL


@refused("ImpureFunction")
def global_augmented(x):
    global TOTAL
    TOTAL += 1.0  # <- here
    return np.sum(x)


def make_counter():
    count = 0

    def counted(x):
        nonlocal count
        count += 1  # <- here
        return np.sum(x) * count

    return counted


nonlocal_of_captured_cell = refused("ImpureFunction")(make_counter())


@refused("ImpureFunction")
def attribute_of_captured_object(x):
    MODEL.weight = x  # <- here
    return np.sum(MODEL.weight**2)


refused("ImpureFunction", where=Model.counted)(MODEL.counted)


@refused("ImpureFunction")
def append_to_captured_list(x):
    LOG.append(x[0])  # <- here
    return np.sum(x)


@refused("ImpureFunction")
def store_into_captured_dict(x):
    CACHE["x"] = np.sum(x)  # <- here
    return CACHE["x"]


@refused("ImpureFunction")
def store_into_captured_array(x):
    BUFFER[0] = x[0]  # <- here
    return np.sum(BUFFER * x)


@refused("ImpureFunction")
def augmented_store_into_captured_array(x):
    BUFFER[1:] += 1.0  # <- here
    return np.sum(BUFFER * x)


@refused("ImpureFunction")
def store_through_attribute_of_captured_object(x):
    MODEL.weight[0] = x[0]  # <- here
    return np.sum(MODEL.weight)


@refused("ImpureFunction")
def out_is_captured_array(x):
    np.sin(x, out=BUFFER)  # <- here
    return np.sum(BUFFER)


@refused("ImpureFunction")
def setattr_on_captured_object(x):
    setattr(MODEL, "last", x[0])  # <- here
    return np.sum(x)


@refused("ImpureFunction")
def captured_iterator(x):
    return np.sum(x) * next(STREAM)  # <- here


@refused("ImpureFunction")
def mutable_default_argument(x, seen=[]):
    seen.append(1)  # <- here
    return np.sum(x) * len(seen)


@refused("ImpureFunction")
def reads_the_clock(x):
    return np.sum(x) * time.perf_counter()  # <- here


# Input and output


@refused("ImpureFunction")
def opens_a_file(x):
    with open("numbers.txt") as file:  # <- here
        scale = float(file.read())
    return np.sum(x) * scale


@refused("ImpureFunction")
def numpy_saves(x):
    np.save("numbers.npy", x)  # <- here
    return np.sum(x)


@refused("ImpureFunction")
def numpy_loads(x):
    return np.sum(x * np.load("numbers.npy"))  # <- here


@refused("ImpureFunction")
def asks_the_user(x):
    return np.sum(x) * float(input())  # <- here


@refused("ImpureFunction")
def writes_to_stdout(x):
    sys.stdout.write("hello")  # <- here
    return np.sum(x)


@refused("ImpureFunction")
def writes_the_environment(x):
    os.environ["CALQUE_TEST_SCALE"] = "2"  # <- here
    return np.sum(x)


@refused("ImpureFunction")
def prints_to_a_file(x):
    print(x, file=io.StringIO())  # <- here
    return np.sum(x)
