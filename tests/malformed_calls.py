"""Malformed calls of everything public: each parameter of a call that works, replaced by what it is not.

``calls(seed, count)`` gives the systematic ones first, then random ones: values nested in containers, and
calls made within transformed functions.
"""

import dataclasses
import os
import random
import re
import traceback
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import calque
from calque.runtime.custom import CustomJvp, CustomVjp
from calque.transpiler.errors import CalqueError

BAD, EITHER = "bad", "either"  # must be refused; may also be legal
OMIT: Any = object()  # a parameter that the call does not give


@dataclasses.dataclass
class Call:
    """One call; ``words``: what the refusal may call the argument."""

    name: str
    run: Callable[[], Any]
    words: tuple[str, ...]
    verdict: str = BAD


def product(x, y):
    return x * y


def double(x):
    return 2.0 * x


def pair(x):
    return x * x, x


def norm(x):
    return np.sqrt(np.dot(x, x))


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
    "class": lambda: Plain,
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
ARRAYS = {"array", "2-d", "empty array", "f4", "ints", "complex array", "range"}
CALLABLE = {"class", "builtin", "lambda", "ufunc"}
TRUTHS = {"None", "True", "np.False_", "0", "1", "-1", "7", "-7", "10**30"}

# kinds of parameters: the values that may be legal there; all others must be refused
CALLABLE = {"class", "builtin", "lambda", "ufunc"}
FLAGS = {"None", "True", "np.False_", "0", "1", "-1", "7", "-7", "10**30"}
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
KNOWN = {
    "module",
    "slice",
    "Ellipsis",
    "object()",
    "instance",
    "unhashable",
    "rude",
    "date",
    "byte array",
}
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
    "every": {"None", "1", "7", "10**30"},
    "policy": {"None"},
    "value": {*VALUES} - CYCLES,
    "differentiated": NUMBERS | ARRAYS | TREES | {"spec"},
    "anything": {*VALUES},
    "path": {"text", "bytes"},
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
}


@dataclasses.dataclass
class Subject:
    """A call that works: what is made, what is done with it, and the kind of each parameter."""

    name: str
    make: Callable[..., Any]
    use: Callable[[Any], Any]
    parameters: dict[str, tuple[Any, str]]
    words: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def subject(name, use, words=None, **parameters):
    made = getattr(calque, name)
    return Subject(name, lambda **given: made(**given), use, parameters, words or {})


DERIVATIVE = {"argnums": (0, "argnums"), "has_aux": (False, "flag"), "holomorphic": (False, "flag")}
ONE = np.ones(3)
SQUARE = np.ones((2, 2, 2))
MESH = calque.make_mesh((1,), ("x",))


def twin(function):
    """A function of its own: declarations stay in tables."""
    return types.FunctionType(function.__code__, function.__globals__, function.__name__)


def declared(public, /, **parameters):
    made = getattr(calque, public)
    first = double if public != "bilinear" else product

    def make(function=OMIT, **given):
        # what can be declared stays declared: no function but a new one must be
        plain = function is OMIT or callable(function)
        return made(twin(first) if plain else function, **given)

    return Subject(public, make, lambda f: f, parameters)


def collective(name, **parameters):
    """In a mapped function."""
    public = getattr(calque, name)

    def make(**given):
        x = given.pop("x", OMIT)
        return calque.vmap(lambda y: public(y if x is OMIT else x, **given), axis_name="i")(SQUARE)

    return Subject(name, make, lambda f: f, parameters)


def alone(name, **parameters):
    """In plain Python."""
    public = getattr(calque, name)
    given = {n: (1.0 if d is OMIT else d, k) for n, (d, k) in parameters.items()}
    words = dict.fromkeys(given, ("axis name", *given))
    return Subject(name, public, lambda f: f, given, words)


def custom(name, **parameters):
    public = getattr(calque, name)

    def make(rules=None, **given):
        made = public(**given)
        if not isinstance(made, (CustomJvp, CustomVjp)):
            return made
        if name == "custom_jvp":
            made.defjvp(lambda *a: (product(*a[-2]), a[-1][0]))
        else:
            made.defvjp(lambda *a: (product(*a), a), lambda *a: (a[-1],) * 2)
        return made

    return Subject(name, make, lambda f: calque.grad(f)(2.0, 3.0), parameters)


def rules_of(name, method, rest=(), **parameters):
    """The rules of a custom function."""

    def make(**given):
        made = getattr(calque, name)(twin(double))
        getattr(made, method)(*given.values())
        return made

    return Subject(f"{name}(f).{method}", make, lambda f: calque.grad(f)(2.0), parameters)


def registered(name, **parameters):
    public = getattr(calque, name)

    def make(**given):
        if "cls" not in given:
            given["cls"] = dataclasses.make_dataclass("Record", [("a", float), ("b", float)])
        return public(**given)

    return Subject(name, make, lambda cls: cls, parameters)


def calls_of(name, transformed, **parameters):
    return Subject(
        name, lambda **given: transformed(*given.values()), lambda made: made, parameters
    )


def no_use(made):
    return made


OPTIONS = {"static": ((), "words"), "name": (None, "import name")}
RESULT = {"result": (np.zeros_like, "rule"), "batch": ("sequential", "batch"), **OPTIONS}
SUBJECTS = [
    *(
        subject(kind, lambda f: f(2.0, 3.0), fun=(product, "function"), **DERIVATIVE, **more)
        for kind, more in {
            "grad": {"allow_int": (False, "flag")},
            "value_and_grad": {"allow_int": (False, "flag")},
            "jacfwd": {},
            "jacrev": {},
            "hessian": {},
        }.items()
    ),
    subject(
        "jit",
        lambda f: f(2.0, 3.0),
        fun=(product, "function"),
        static_argnums=((), "static"),
        static_argnames=((), "names"),
        parallel=("auto", "parallel"),
        boundscheck=(None, "boundscheck"),
    ),
    subject(
        "vmap",
        lambda f: f(np.ones((2, 2)), np.ones((2, 2))),
        fun=(product, "function"),
        in_axes=(0, "axes"),
        out_axes=(0, "out_axes"),
        axis_name=(None, "axis_name"),
        axis_size=(None, "size"),
    ),
    subject("vmap", lambda f: f(np.ones(3)), fun=(double, "function"), chunk_size=(2, "chunk")),
    subject(
        "jvp",
        no_use,
        fun=(product, "function"),
        primals=((2.0, 3.0), "pair"),
        tangents=((1.0, 0.0), "pair"),
        has_aux=(False, "flag"),
    ),
    subject(
        "hvp",
        no_use,
        fun=(product, "function"),
        primals=((2.0, 3.0), "pair"),
        tangents=((1.0, 0.0), "pair"),
    ),
    Subject(
        "vjp",
        lambda fun, x, has_aux: calque.vjp(fun, x, has_aux=has_aux),
        lambda made: made[1](1.0),
        {"fun": (double, "function"), "x": (2.0, "differentiated"), "has_aux": (False, "flag")},
    ),
    Subject(
        "linearize",
        lambda fun, x, has_aux: calque.linearize(fun, x, has_aux=has_aux),
        lambda made: made[1](1.0),
        {"fun": (double, "function"), "x": (2.0, "differentiated"), "has_aux": (False, "flag")},
    ),
    Subject(
        "linear_transpose",
        lambda fun, x: calque.linear_transpose(fun, x),
        lambda made: made(ONE),
        {"fun": (double, "function"), "x": (ONE, "differentiated")},
    ),
    calls_of("vjp(f, x)[1]", lambda c: calque.vjp(double, ONE)[1](c), cotangent=(ONE, "like ones")),
    calls_of(
        "linearize(f, x)[1]",
        lambda t: calque.linearize(double, ONE)[1](t),
        tangent=(ONE, "like ones"),
    ),
    calls_of(
        "linear_transpose(f, x)",
        lambda c: calque.linear_transpose(double, ONE)(c),
        cotangent=(ONE, "like ones"),
    ),
    calls_of("jvp(f)", calque.jvp(double), x=(ONE, "differentiated"), tangent=(ONE, "like ones")),
    calls_of("vjp(f)", calque.vjp(double), x=(ONE, "differentiated"), cotangent=(ONE, "like ones")),
    calls_of("hvp(f)", calque.hvp(norm), x=(ONE, "differentiated"), tangent=(ONE, "like ones")),
    *(
        calls_of(
            f"{kind}(f)",
            getattr(calque, kind)(product),
            x=(2.0, "differentiated"),
            y=(3.0, "value"),
        )
        for kind in ("grad", "value_and_grad", "jacfwd", "jacrev", "hessian")
    ),
    calls_of("jit(f)", calque.jit(product), x=(2.0, "value"), y=(ONE, "value")),
    calls_of("vmap(f)", calque.vmap(product), x=(ONE, "mapped"), y=(ONE, "mapped")),
    calls_of("checkpoint(f)", calque.grad(calque.checkpoint(product)), x=(2.0, "differentiated")),
    subject(
        "checkpoint",
        lambda f: calque.grad(f)(2.0, 3.0),
        fun=(product, "function"),
        every=(None, "every"),
        prevent_cse=(True, "flag"),
        policy=(None, "policy"),
        static_argnums=((), "static"),
    ),
    subject(
        "remat",
        lambda f: calque.grad(f)(2.0, 3.0),
        fun=(product, "function"),
        every=(None, "every"),
        prevent_cse=(True, "flag"),
        policy=(None, "policy"),
        static_argnums=((), "static"),
    ),
    custom("custom_jvp", fun=(product, "function"), nondiff_argnums=((), "numbers")),
    custom("custom_vjp", fun=(product, "function"), nondiff_argnums=((), "numbers")),
    rules_of(
        "custom_jvp",
        "defjvp",
        jvp=(lambda p, t: (2.0 * p[0], 2.0 * t[0]), "rule"),
        symbolic_zeros=(False, "no"),
    ),
    rules_of("custom_jvp", "defjvps", jvps=(lambda t, y, x: 2.0 * t, "rule or none")),
    rules_of(
        "custom_vjp",
        "defvjp",
        fwd=(lambda x: (2.0 * x, None), "rule"),
        bwd=(lambda r, g: (2.0 * g,), "rule"),
        symbolic_zeros=(False, "no"),
        optimize_remat=(False, "flag"),
    ),
    Subject(
        "check",
        lambda fn, x, seed: calque.check(fn, x, seed=seed),
        no_use,
        {"fn": (double, "function"), "x": (0.5, "differentiated"), "seed": (0, "seed")},
    ),
    subject(
        "check_grads",
        no_use,
        f=(double, "function"),
        args=((0.5,), "pair"),
        order=(1, "order"),
        modes=(("fwd",), "modes"),
        atol=(None, "tolerance"),
        rtol=(None, "tolerance"),
        eps=(None, "step"),
    ),
    Subject(
        "custom_root",
        lambda **given: calque.custom_root(**given),
        no_use,
        {
            "f": (lambda x: x - 1.0, "function"),
            "initial_guess": (1.0, "anything"),
            "solve": (lambda f, x: x, "function"),
            "tangent_solve": (None, "function or none"),
            "has_aux": (False, "flag"),
        },
    ),
    subject(
        "fixed_point",
        no_use,
        f=(lambda x: 0.5 * (x + 2.0 / x), "function"),
        x0=(1.0, "value"),
        tolerance=(1e-12, "tolerance"),
        max_steps=(1000, "steps"),
        tangent_solve=(None, "function or none"),
    ),
    Subject(
        "grad of custom_root",
        lambda **given: calque.grad(lambda a: calque.custom_root(lambda x: x - a, **given))(2.0),
        no_use,
        {
            "initial_guess": (1.0, "value"),
            "solve": (lambda f, x: x - f(x), "function"),
            "tangent_solve": (None, "function or none"),
            "has_aux": (False, "flag"),
        },
    ),
    Subject(
        "grad of fixed_point",
        lambda **given: calque.grad(
            lambda a: calque.fixed_point(lambda x: 0.5 * (x + a / x), **given)
        )(2.0),
        no_use,
        {
            "x0": (1.0, "value"),
            "tolerance": (1e-12, "tolerance"),
            "max_steps": (1000, "steps"),
            "tangent_solve": (None, "function or none"),
        },
    ),
    declared(
        "elementwise",
        function=(OMIT, "function"),
        partials=(lambda x, y: 2.0, "rule or none"),
        dtype=(None, "dtype"),
        **OPTIONS,
    ),
    declared(
        "linear",
        function=(OMIT, "function"),
        transpose=(lambda c, x: c, "rule or none"),
        wrt=(None, "numbers"),
        **RESULT,
    ),
    declared(
        "bilinear",
        function=(OMIT, "function"),
        transpose=(lambda c, a, b: (c, c), "rule or none"),
        **RESULT,
    ),
    declared(
        "reduction",
        function=(OMIT, "function"),
        slope=(lambda x, y: x, "rule or none"),
        dtype=(None, "dtype"),
        **OPTIONS,
    ),
    declared(
        "opaque",
        function=(OMIT, "function"),
        jvp=(None, "rule or none"),
        vjp=(None, "rule or none"),
        **RESULT,
    ),
    Subject("spec", calque.spec, no_use, {"text": ("f8[3]", "never")}),
    Subject(
        "source",
        lambda fn, x, stage, engine: calque.source(fn, x, stage=stage, engine=engine),
        no_use,
        {
            "fn": (double, "function"),
            "x": (1.0, "value"),
            "stage": (None, "stage"),
            "engine": (None, "stage"),
        },
    ),
    Subject(
        "explain",
        lambda fn, x: calque.explain(fn, x),
        no_use,
        {"fn": (calque.grad(double), "function"), "x": (1.0, "value")},
    ),
    Subject(
        "save",
        lambda fn, path, x, stage, engine: calque.save(fn, path, x, stage=stage, engine=engine),
        no_use,
        {
            "fn": (double, "function"),
            "path": (os.devnull, "path"),
            "x": (1.0, "value"),
            "stage": (None, "stage"),
            "engine": (None, "stage"),
        },
    ),
    subject(
        "tree_map",
        no_use,
        f=(lambda x: x, "function"),
        tree=([1.0], "tree"),
        is_leaf=(None, "function or none"),
    ),
    Subject(
        "tree_map of two",
        lambda function, tree, rest: calque.tree_map(function, tree, rest),
        no_use,
        {
            "function": (lambda x, y: x, "function"),
            "tree": ([1.0], "tree"),
            "rest": ([1.0], "tree"),
        },
    ),
    subject(
        "pmap",
        lambda f: f(np.ones((1, 2))),
        fun=(double, "function"),
        axis_name=(None, "axis_name"),
        in_axes=(0, "axes"),
        out_axes=(0, "out_axes"),
        static_broadcasted_argnums=((), "static"),
        devices=(None, "devices"),
        axis_size=(None, "size"),
        engine=(None, "stage"),
    ),
    subject(
        "shard_map",
        lambda f: f(np.ones(2)),
        f=(double, "function"),
        mesh=(MESH, "never"),
        in_specs=(calque.P("x"), "specs"),
        out_specs=(calque.P("x"), "specs"),
        check_vma=(True, "flag"),
        engine=(None, "stage"),
    ),
    subject("stop_gradient", no_use, x=(1.0, "anything")),
    Subject(
        "grad of stop_gradient",
        lambda x: calque.grad(
            lambda y: y * calque.tree_map(lambda _: 1.0, calque.stop_gradient(x))
        )(2.0),
        no_use,
        {"x": (1.0, "value")},
    ),
    Subject(
        "debug_nans",
        lambda enabled: calque.debug_nans(enabled),
        no_use,
        {"enabled": (True, "flag")},
    ),
    registered(
        "register_pytree_node",
        cls=(OMIT, "class"),
        flatten=(lambda x: ((), None), "rule"),
        unflatten=(lambda a, c: None, "rule"),
    ),
    registered("register_pytree_node_class", cls=(OMIT, "class")),
    registered(
        "register_dataclass",
        cls=(OMIT, "class"),
        data_fields=(["a"], "fields"),
        meta_fields=(["b"], "fields"),
        drop_fields=((), "dropped"),
    ),
    *(
        build(name, x=(OMIT, "value"), axis_name=("i", "axis"), axis_index_groups=(None, "no"))
        for name in ("psum", "pmean", "pmax", "pmin")
        for build in (collective, alone)
    ),
    *(
        build(
            name,
            x=(OMIT, "value"),
            axis_name=("i", "axis"),
            axis_index_groups=(None, "no"),
            **{
                "all_gather": {"axis": (0, "place")},
                "psum_scatter": {"scatter_dimension": (0, "place")},
            }.get(name, {"split_axis": (0, "place"), "concat_axis": (0, "place")}),
            tiled=(False, "flag"),
        )
        for name in ("all_gather", "psum_scatter", "all_to_all")
        for build in (collective, alone)
    ),
    *(
        build("ppermute", x=(OMIT, "value"), axis_name=("i", "axis"), perm=([(0, 1)], "pairs"))
        for build in (collective, alone)
    ),
    *(
        Subject(
            name,
            lambda axis_name, public=getattr(calque, name): calque.vmap(
                lambda x: x * public(axis_name), axis_name="i"
            )(SQUARE),
            no_use,
            {"axis_name": ("i", "axis")},
        )
        for name in ("axis_index", "axis_size")
    ),
    *(alone(name, axis_name=("i", "axis")) for name in ("axis_index", "axis_size")),
]


LEFT_OUT = {
    *(("order", "7"), ("order", "10**30")),  # right, and hours of work
    ("solve", "ufunc"),  # an error of NumPy's, as without calque
}


CALLED = {
    "class": ("Plain", "__init__"),
    "builtin": ("len", "out_specs"),
    "lambda": ("<lambda>",),
    "ufunc": ("add", "x2"),
}
DERIVED = (
    "x",
    "y",
    "x_dot",
    "y_dot",
    "tangent",
    "cotangent",
    "primals",
    "argument 0",
    "argument 1",
)
KIND_WORDS = {
    "static": ("x", "y"),
    "dropped": ("data_fields",),
    "numbers": ("y",),
    "never": ("dtype", "types"),
    "differentiated": DERIVED,
    "pair": (*DERIVED, "positional"),
    "like ones": (*DERIVED, "return_bar"),
}


def one_call(it: Subject, parameter: str, label: str, value: Callable[[], Any]) -> Call:
    """The subject's call with another value for one parameter."""
    kind = it.parameters[parameter][1]
    words = (*it.words.get(parameter, ()), parameter, *KIND_WORDS.get(kind, ()))
    words += CALLED.get(label, ())

    def run():
        ordered = {
            name: value() if name == parameter else default
            for name, (default, _) in it.parameters.items()
            if name == parameter or default is not OMIT
        }
        return it.use(it.make(**ordered))

    verdict = EITHER if label in LEGAL[kind] else BAD
    return Call(f"{it.name}, {parameter}={label}", run, words, verdict)


def systematic() -> list[Call]:
    """Every parameter with every value."""
    return [
        one_call(it, parameter, label, value)
        for it in SUBJECTS
        for parameter in it.parameters
        for label, value in VALUES.items()
        if (parameter, label) not in LEFT_OUT
    ]


KINDS = (
    "grad",
    "value_and_grad",
    "jacfwd",
    "jacrev",
    "hessian",
    "jit",
    "vmap",
    "jvp",
    "vjp",
    "hvp",
)
GIVEN: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((2.0,), {}),
    ((2.0, 3.0, 4.0, 5.0), {}),
    ((2.0, 3.0, 4.0, 5.0, 6.0), {}),
    ((2.0, 3.0), {"z": 4.0}),
    ((2.0,), {"x": 4.0}),
    ((2.0,), {"z": 4.0}),
    ((), {"y": 4.0}),
    ((), {"x": 3.0, "z": 4.0}),
    ((2.0, 3.0, 4.0), {"y": 3.0}),
]


def arities() -> list[Call]:
    """Transformed functions called with too few, too many and unknown arguments."""
    words = ("x", "y", "z", "argnums", "positional", "argument", "arguments", "primals")
    return [
        Call(
            f"{kind}(f)(*{args}, **{kwargs})",
            lambda kind=kind, args=args, kwargs=kwargs: getattr(calque, kind)(product)(
                *args, **kwargs
            ),
            words,
        )
        for kind in KINDS
        for args, kwargs in GIVEN
        if kind not in ("jvp", "hvp") or len(args) != 4  # two primals, two tangents
    ]


def at_random(seed: int, count: int) -> list[Call]:
    """Values within containers, and calls within interpreted code."""
    random_numbers = random.Random(seed)
    return [_random_call(random_numbers, number) for number in range(count)]


CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "[{}]": lambda v: [v],
    "({}, 0)": lambda v: (v, 0),
    "[0, [{}]]": lambda v: [0, [v]],
    "{{'x': {}}}": lambda v: {"x": v},
    "array of {}": lambda v: _array_of(v),
}


def _array_of(value):
    made = np.empty(1, object)
    made[0] = value
    return made


def _random_call(random_numbers: random.Random, number: int) -> Call:
    it = random_numbers.choice(SUBJECTS)
    while not it.parameters:
        it = random_numbers.choice(SUBJECTS)
    parameter = random_numbers.choice([*it.parameters])
    label = random_numbers.choice([*VALUES])
    value = VALUES[label]
    if random_numbers.random() < 0.5 and (parameter, label) not in LEFT_OUT:
        within = random_numbers.choice([*CONTAINERS])
        label, value = within.format(label), lambda: CONTAINERS[within](VALUES[inner]())
        inner = label if label in VALUES else next(v for v in VALUES if within.format(v) == label)
    made = one_call(it, parameter, label, value)
    made.verdict = EITHER
    made.name = f"{number}: {made.name}"
    if random_numbers.random() < 0.4 and not it.name.startswith("register"):
        kind = random_numbers.choice(["jit", "grad", "vmap"])
        run = made.run
        argument = np.ones(2) if kind == "vmap" else 2.0
        made.name = f"in {kind}, {made.name}"
        made.words = (*made.words, HERE)
        made.run = lambda: getattr(calque, kind)(lambda x: run() and x)(argument)
    return made


HERE = "malformed_calls.py, line"  # the place that an error of calque shows


def fault(call: Call) -> str | None:
    """What is wrong with what a call does; None where it is right."""
    try:
        call.run()
    except (CalqueError, TypeError, ValueError) as error:
        text = "\n".join([str(error), *getattr(error, "__notes__", [])])
        named = any(re.search(rf"(?<!\w){re.escape(w)}(?!\w)", text) for w in call.words)
        shown = isinstance(error, CalqueError) and HERE in text
        return None if named or shown or _is_theirs(error) else f"unnamed: {error!r}"
    except ZeroDivisionError:
        return None
    except RuntimeError as error:
        expected = ("does not converge", "no repr", "no truth")
        return None if str(error).endswith(expected) else f"from inside: {error!r}"
    except Exception as error:
        return None if _is_theirs(error) else f"from inside: {error!r}"
    return "accepted" if call.verdict == BAD else None


def _is_theirs(error: BaseException) -> bool:
    """Whether the program of the caller raised it, when Python ran it as it stands."""
    return traceback.extract_tb(error.__traceback__)[-1].filename == __file__
