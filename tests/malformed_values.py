"""The malformed values of parameters, and for some parameters those among them that are legal."""

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import calque


class Plain:
    def __init__(self, w=1.0):
        self.w = w


class Unhashable:
    __hash__ = None

    def __eq__(self, other):
        return self is other


class Rude:
    """Nothing may be asked of it."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __bool__(self):
        raise RuntimeError("no truth")


def cyclic_list():
    made: list = [1.0]
    made.append(made)
    return made


def cyclic_dict():
    made: dict = {"a": 1.0}
    made["b"] = made
    return made


def cyclic_tuple():
    inner: list = []
    made = (1.0, inner)
    inner.append(made)
    return made


def deep():
    made: Any = 1.0
    for _ in range(3000):
        made = [made]
    return made


# makers, so that no call sees what another one did
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "np.False_": lambda: np.False_,
    "0": lambda: 0,
    "1": lambda: 1,
    "-1": lambda: -1,
    "7": lambda: 7,
    "-7": lambda: -7,
    "10**30": lambda: 10**30,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "1j": lambda: 1j,
    "np.float64": lambda: np.float64(2.0),
    "text": lambda: "words",
    "empty text": lambda: "",
    "bytes": lambda: b"words",
    "[]": list,
    "()": tuple,
    "{}": dict,
    "set": lambda: {0, 1},
    "[0, 0]": lambda: [0, 0],
    "(0, None)": lambda: (0, None),
    "[[0]]": lambda: [[0]],
    "[1.5]": lambda: [1.5],
    "['x', 3]": lambda: ["x", 3],
    "('z',)": lambda: ("z",),
    "{'a': 'b'}": lambda: {"a": "b"},
    "object()": object,
    "instance": Plain,
    "unhashable": Unhashable,
    "rude": Rude,
    "class": lambda: type("Plain", (Plain,), {}),  # a class that is declared stays declared
    "builtin": lambda: len,
    "lambda": lambda: lambda: 0.0,
    "module": lambda: types,
    "ufunc": lambda: np.add,
    "generator": lambda: (k for k in (0, 0.5)),
    "iterator": lambda: iter(["x"]),
    "slice": lambda: slice(0, 1),
    "Ellipsis": lambda: ...,
    "range": lambda: range(3),
    "array": lambda: np.ones(3),
    "ints": lambda: np.arange(4),
    "2-d": lambda: np.ones((2, 3)),
    "0-d": lambda: np.array(0.5),
    "empty array": lambda: np.zeros(0),
    "complex array": lambda: np.ones(3, complex),
    "f4": lambda: np.ones(3, np.float32),
    "texts": lambda: np.array(["a", "b"]),
    "byte array": lambda: np.array([b"a"]),
    "objects": lambda: np.array([1, "a", None], object),
    "dates": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "date": lambda: np.datetime64("2020-01-01"),
    "spans": lambda: np.array([1], "timedelta64[s]"),
    "records": lambda: np.zeros(2, [("a", float)]),
    "matrix": lambda: np.matrix([[1.0, 2.0]]),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], [0, 1]),
    "cyclic list": cyclic_list,
    "cyclic dict": cyclic_dict,
    "cyclic tuple": cyclic_tuple,
    "deep": deep,
    "spec": lambda: calque.spec("f8[3]"),
}

# kinds of parameters: the values that may be legal there; all others must be refused
CALLABLE = {"class", "builtin", "lambda", "ufunc"}
FLAGS = {"None", "True", "np.False_", "0", "1", "-1", "7", "-7", "10**30"}
COMPLEX = {"1j", "complex array"}
NOTHING = {"()", "[]", "{}", "set", "empty array"}
NUMBERS = {
    "0",
    "1",
    "-1",
    "7",
    "-7",
    "10**30",
    "True",
    "np.False_",
    "1.5",
    "nan",
    "np.float64",
    "0-d",
    "1j",
}
ARRAYS = {"array", "2-d", "empty array", "f4", "ints", "complex array", "deep"}
TREES = {"None", *NOTHING, "[0, 0]", "(0, None)", "[[0]]", "[1.5]", "range"}
TEXTS = {"text", "empty text", "['x', 3]", "('z',)", "{'a': 'b'}", "bytes"}
CYCLES = {"cyclic list", "cyclic dict", "cyclic tuple"}
HASHLESS = {"unhashable", "[]", "{}", "set", "[0, 0]", "[[0]]", "[1.5]", "['x', 3]", "{'a': 'b'}"}
LEGAL: dict[str, set[str]] = {
    "function": CALLABLE,
    "argnums": {"0", "1", "-1", "set"},
    "single argnums": {"0", "-1"},
    "numbers": {"0", "-1", "1", "None", "[0, 0]", *NOTHING},
    "static": {"0", "1", "-1", "None", "[0, 0]", *NOTHING},
    "names": {"None", "iterator", *NOTHING},
    "words": {"None", "iterator", *NOTHING},
    "dropped": {"None", "iterator", *NOTHING, *TEXTS, *CYCLES} - {"['x', 3]", "bytes"},
    "flag": FLAGS,
    "axes": {"0", "-1", "1", "None", "(0, None)", "[0, 0]"},
    "out_axes": {"0", "-1", "1", "None"},
    "axis_name": {*VALUES} - HASHLESS - ARRAYS - CYCLES,
    "size": {"None", "1"},
    "chunk": {"None", "1", "7", "10**30"},
    "parallel": {"True", "np.False_", "0", "1"},
    "boundscheck": {"None", "True", "np.False_", "0", "1"},
    "deterministic": {"True", "np.False_", "0", "1"},
    "first": set(),
    "every": {"None", "1", "7", "10**30"},
    "policy": {"None"},
    "value": {*VALUES} - CYCLES,
    "differentiated": NUMBERS | ARRAYS | TREES | {"spec"},
    "anything": {*VALUES},
    "path": {"text", "bytes"},
    "page": {"text", "bytes", "None"},
    "pair": {"[0, 0]", "(0, None)", "[1.5]", *NOTHING},
    "like ones": {"array"},
    "mapped": {*VALUES} - CYCLES,
    "no": {"None", "np.False_", "0"},
    "seed": {"0", "1", "7", "10**30"},
    "order": {"0", "1"},
    "modes": {"None", *NOTHING},
    "tolerance": {"None", "0", "1", "7", "10**30", "1.5", "np.float64", "0-d"},
    "step": {"None", "1", "7", "10**30", "1.5", "np.float64", "0-d"},
    "steps": {"0", "1", "7", "10**30"},
    "function or none": {"None", *CALLABLE},
    "rule": CALLABLE,
    "rule or none": {"None", *CALLABLE},
    "dtype": {"None", "text", "np.False_", "np.float64", "spec", "lambda", *ARRAYS, *NUMBERS},
    "import name": {"None", "text"},
    "batch": {"text", *CALLABLE},
    "never": set(),
    "stage": {"None"},
    "devices": {"None", "()", "[]", "empty array"},
    "specs": {"()", "[]"},
    "tree": {*VALUES} - CYCLES,
    "class": {"class"},
    "fields": {"{'a': 'b'}", *NOTHING},
    "axis": {*VALUES},
    "place": {"0", "1", "-1"},
    "pairs": {"empty text", "iterator", *NOTHING},
    "three": {"range", "array", "f4", "complex array", "objects"},
    "two leaves": {*VALUES} - CYCLES,
    "numbers tree": NUMBERS | ARRAYS | TREES | {"masked", "matrix"},
    "path of keys": {"()", "[]"},
    "flat": {"array", "f4", "range"},
    "platform": {"text", "empty text"},
    "count": {"0", "1", "7", "10**30"},
    "count or none": {"None", "0", "1", "7"},
    "process": {"None", "0", "1", "7", "10**30"},
    "row of devices": {"()", "[]", "empty array"},
    "any tree": {*VALUES},
    "one size": {"[1]"},
    "one name": ({*VALUES} - HASHLESS - ARRAYS - CYCLES) | {"[1.5]"},
    "entry": {*VALUES} - {"{}", "set", "[[0]]", "{'a': 'b'}", "unhashable"} - ARRAYS - CYCLES,
    "seed of key": {"0", "1", "-1", "7", "-7", "ints", "[0, 0]", "[[0]]", "range", "True"},
    "integers": {"0", "1", "7", "ints", "[0, 0]", "[[0]]", "range", "True", "np.False_"},
    "sizes": {"0", "1", "7", "[0, 0]", "()", "[]", "range", "ints", "empty array"},
    "shape": {"[0, 0]", "()", "[]", "range", "ints", "empty array"},
    "shape or none": {"None", "[0, 0]", "()", "[]", "range", "ints", "empty array"},
    "parameter": (NUMBERS | ARRAYS | {"[0, 0]", "[[0]]", "[1.5]", "()", "[]", "range", "matrix", "masked"}) - COMPLEX,
    "shuffled": NUMBERS
    | ARRAYS
    | NOTHING
    | {"[0, 0]", "[[0]]", "[1.5]", "range", "matrix", "masked", "texts", "byte array", "dates"}
    | {"spans", "['x', 3]", "('z',)"},
    "probabilities": {"None", "ints"},
}


OMIT: Any = object()  # a parameter that the call does not give


@dataclasses.dataclass
class Subject:
    """A call that works: what is made, what is done with it, and the kind of each parameter."""

    name: str
    make: Callable[..., Any]
    use: Callable[[Any], Any]
    parameters: dict[str, tuple[Any, str]]
    words: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
