"""Calls of functions on trees, devices and keys that work, to be malformed."""

import contextlib

import numpy as np

import calque
from calque import random
from calque.tests.malformed_values import Subject

KEY = random.key(0)
PAIR = {"a": 1.0, "b": (2.0, 3.0)}
DEVICE = calque.devices()[0]


def plain(space, name, words=None, **parameters):
    """A call by name of a function, whose result is all that it does."""
    public = getattr(space, name)
    spelled = name if space is calque else f"{space.__name__.rpartition('.')[2]}.{name}"
    words = {n: tuple((words or {}).get(n, ())) for n in parameters}
    return Subject(spelled, lambda **given: public(**given), lambda made: made, parameters, words)


def by_position(name, words=None, **parameters):
    """A call by position, of what takes any number of arguments."""
    public = getattr(calque, name)
    call = lambda **given: public(*given.values())
    return Subject(name, call, lambda made: made, parameters, words or {})


def draw(name, words=None, **parameters):
    """A draw with a key, of a few numbers."""
    return plain(random, name, words, key=(KEY, "never"), **parameters)


def numbers(**values):
    return {name: (value, "parameter") for name, value in values.items()}


LEAF = {"is_leaf": (None, "function or none")}
STRUCTURE = {"treedef": (calque.tree_structure(PAIR), "never")}
SHAPE, DTYPE = {"shape": ((2,), "shape")}, {"dtype": (None, "dtype")}
OWN_SHAPE = {"shape": (None, "shape or none")}
MODE = {"mode": (None, "stage")}
FREE = {**SHAPE, **DTYPE}
OWN = {**OWN_SHAPE, **DTYPE}

TREES = [
    *(
        plain(calque, name, {"tree": ("truth value",)}, tree=(PAIR, "tree"), **LEAF)
        for name in (
            *("tree_flatten", "tree_leaves", "tree_structure", "tree_all"),
            *("tree_flatten_with_path", "tree_leaves_with_path"),
        )
    ),
    plain(calque, "tree_unflatten", **STRUCTURE, leaves=([1.0, 2.0, 3.0], "three")),
    by_position(
        "tree_reduce",
        function=(lambda total, x: total, "function"),
        tree=(PAIR, "tree"),
        initializer=(0.0, "anything"),
    ),
    plain(
        calque,
        "tree_reduce",
        function=(lambda total, x: x, "function"),
        tree=(PAIR, "two leaves"),
        **LEAF,
    ),
    plain(
        calque,
        "tree_transpose",
        outer_treedef=(calque.tree_structure((0, 0)), "never"),
        inner_treedef=(calque.tree_structure({"a": 0, "b": 0}), "never"),
        pytree_to_transpose=(({"a": 1, "b": 2}, {"a": 3, "b": 4}), "never"),
    ),
    plain(
        calque,
        "tree_map_with_path",
        {"f": ("operand type(s)",)},
        f=(lambda path, x: x, "function"),
        tree=(PAIR, "tree"),
        **LEAF,
    ),
    by_position(
        "tree_map_with_path",
        {"f": ("return arrays",)},
        f=(lambda path, x, y: x, "function"),
        tree=([1.0], "tree"),
        rest=([1.0], "tree"),
    ),
    plain(calque, "ravel_pytree", {"pytree": ("tree",)}, pytree=(PAIR, "numbers tree")),
    Subject(
        "ravel_pytree(t)[1]",
        lambda flat: calque.ravel_pytree(PAIR)[1](flat),
        lambda made: made,
        {"flat": (np.ones(3), "flat")},
        {"flat": ("unravel", "array element")},
    ),
    plain(calque, "keystr", path=(calque.tree_leaves_with_path(PAIR)[1][0], "path of keys")),
]
DEVICES = [
    plain(
        calque,
        "Device",
        platform=("cpu", "platform"),
        id=(0, "count"),
        process_index=(0, "count"),
    ),
    plain(calque, "devices", {"backend": ("platform",)}, backend=(None, "stage")),
    plain(
        calque,
        "local_devices",
        {"backend": ("platform",)},
        process_index=(None, "process"),
        backend=(None, "stage"),
    ),
    *(
        Subject(name, getattr(calque, name), lambda made: made, {})
        for name in ("device_count", "local_device_count", "process_count", "process_index")
    ),
    plain(
        calque,
        "make_mesh",
        {"axis_shapes": ("devices",)},
        axis_shapes=((1,), "one size"),
        axis_names=(("x",), "one name"),
        devices=(None, "devices"),
    ),
    plain(
        calque,
        "Mesh",
        {"axis_names": ("devices",)},
        devices=(np.array([DEVICE]), "row of devices"),
        axis_names=(("x",), "one name"),
    ),
    by_position("P", entries=("x", "entry")),
    plain(
        calque,
        "NamedSharding",
        mesh=(calque.make_mesh((1,), ("x",)), "never"),
        spec=(calque.P("x"), "never"),
    ),
    plain(calque, "device_put", x=(PAIR, "numbers tree"), device=(None, "stage")),
    plain(calque, "device_get", {"x": ("container",)}, x=(PAIR, "tree")),
    plain(calque, "block_until_ready", x=(PAIR, "any tree")),
    Subject(
        "default_device",
        calque.default_device,
        lambda made: contextlib.ExitStack().enter_context(made),
        {"device": (None, "stage")},
    ),
    plain(calque, "shard", tree_of_arrays=(PAIR, "any tree")),
    plain(calque, "unshard", tree_of_arrays=(PAIR, "any tree")),
    plain(calque, "debug_keys", enabled=(True, "flag")),
]
KEYS = [
    plain(random, "key", seed=(0, "seed of key"), impl=(None, "stage"), dtype=(None, "stage")),
    plain(random, "PRNGKey", seed=(0, "seed of key"), impl=(None, "stage")),
    plain(random, "key_data", {"keys": ("key",)}, keys=(KEY, "never")),
    plain(
        random,
        "wrap_key_data",
        {"key_bits_array": ("key",)},
        key_bits_array=(KEY, "never"),
        impl=(None, "stage"),
        dtype=(None, "stage"),
    ),
    draw("clone"),
    draw("split", num=(2, "sizes")),
    draw("fold_in", data=(1, "integers")),
    draw("bits", **FREE),
]
DRAWS = [
    *(draw(n, **FREE) for n in ("cauchy", "exponential", "laplace", "logistic", "maxwell")),
    *(draw(n, **FREE) for n in ("normal", "rademacher")),
    draw("gumbel", **FREE, **MODE),
    draw("uniform", **FREE, **numbers(minval=0.0, maxval=1.0)),
    draw("randint", **FREE, **numbers(minval=0, maxval=9)),
    draw("bernoulli", {"p": ("probability",)}, p=(0.5, "parameter"), **OWN_SHAPE, mode=("low", "never")),
    draw("order", shape=((3,), "shape"), axis=(0, "place")),
    draw("permutation", x=(np.arange(4), "shuffled"), axis=(0, "place"), independent=(False, "flag")),
    draw(
        "choice",
        a=(np.arange(4), "shuffled"),
        shape=((2,), "shape"),
        replace=(True, "flag"),
        p=(None, "probabilities"),
        axis=(0, "place"),
        **MODE,
    ),
    draw(
        "categorical",
        logits=(np.zeros(3), "parameter"),
        axis=(-1, "place"),
        **OWN_SHAPE,
        replace=(True, "flag"),
        **MODE,
    ),
    draw("orthogonal", n=(2, "count"), **FREE, m=(None, "count or none")),
    draw("ball", d=(2, "count"), p=(2, "parameter"), **FREE),
    draw("multinomial", **numbers(n=4, p=np.array([0.5, 0.5])), **OWN),
    draw("multivariate_normal", mean=(np.zeros(2), "parameter"), cov=(np.eye(2), "parameter"), **OWN, method=("svd", "never")),
    *(
        draw(name, **numbers(**parameters), **(FREE if name in ("weibull_min", "double_sided_maxwell", "generalized_normal") else OWN))
        for name, parameters in {
            "beta": {"a": 2.0, "b": 3.0},
            "binomial": {"n": 5, "p": 0.5},
            "chisquare": {"df": 3.0},
            "dirichlet": {"alpha": np.ones(2)},
            "double_sided_maxwell": {"loc": 0.0, "scale": 1.0},
            "f": {"dfnum": 2.0, "dfden": 3.0},
            "gamma": {"a": 2.0},
            "generalized_normal": {"p": 2.0},
            "geometric": {"p": 0.5},
            "loggamma": {"a": 2.0},
            "lognormal": {"sigma": 1.0},
            "pareto": {"b": 2.0},
            "poisson": {"lam": 3.0},
            "rayleigh": {"scale": 1.0},
            "t": {"df": 3.0},
            "triangular": {"left": 0.0, "mode": 1.0, "right": 2.0},
            "truncated_normal": {"lower": -1.0, "upper": 1.0},
            "wald": {"mean": 2.0},
            "weibull_min": {"scale": 1.0, "concentration": 2.0},
        }.items()
    ),
    *(plain(random, name, x=(0.5, "parameter")) for name in ("erf", "erfinv")),
    plain(random, "between", **numbers(u=0.5, minval=0.0, maxval=2.0)),
    plain(random, "gamma_slope", **numbers(a=2.0, x=1.0)),
    plain(random, "log_gamma_slope", **numbers(a=2.0, y=0.5)),
]  # fmt: skip
SUBJECTS = [*TREES, *DEVICES, *KEYS, *DRAWS]
