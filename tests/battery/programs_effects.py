"""f-strings, print, assert, raise, match, errstate, warnings-free domains."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, vector


@program(vector(3))
def printing(x):
    print("norm", np.sum(x * x), f"first={x[0]:.3f}", sep=" | ")
    y = np.sin(x)
    print(f"{len(x)} entries", end="\n")
    return np.sum(y)


@program(vector(4))
def printing_in_loop_and_branch(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] ** 2
        if total > 0.5:
            print(i, f"{total:8.3f}")
    return total


@program(vector(3))
def f_strings_known(x):
    key = f"w{len(x)}_{x.ndim!r}"
    table = {"w3_1": 2.0}
    return np.sum(x**2) * table[key]


@program(vector(3))
def asserts(x):
    assert x.shape == (3,), "three numbers"
    assert np.all(x < 2.0)
    norm = np.sum(x * x)
    assert norm > 0.0, f"norm is {norm}"
    return np.sqrt(norm)


@program(vector(4))
def asserts_in_loop(x):
    total = 1.0
    for i in range(x.shape[0]):
        total *= 1.0 + x[i] ** 2
        assert total >= 1.0, i
    return total


@program(vector(3, low=0.5, high=2.0))
def raise_on_value(x):
    if np.any(x <= 0.0):
        raise ValueError(f"log of {x}")
    return np.sum(np.log(x))


@program(vector(4))
def raise_in_loop(x):
    total = 0.0
    for value in x:
        if value > 3.0:
            raise OverflowError("too big")
        elif value > 2.0:
            raise ArithmeticError
        total += value * value
    return total


@program(vector(3))
def raise_in_helper(x):
    def checked_sqrt(value):
        if value < 0.0:
            raise ValueError("negative")
        return np.sqrt(value)

    return checked_sqrt(np.sum(x * x)) * checked_sqrt(2.0)


@program("cos", vector(3), diff=(1,))
def match_on_string(kind, x):
    match kind:
        case "sin":
            y = np.sin(x)
        case "cos" | "cosine":
            y = np.cos(x)
        case _:
            raise ValueError(kind)
    return np.sum(y * x)


@program(("scale", 2.0), vector(3), diff=(1,))
def match_on_structure(command, x):
    match command:
        case ("shift", amount):
            y = x + amount
        case ("scale", amount) if amount > 0.0:
            y = x * amount
        case (name, *_):
            raise ValueError(name)
    return np.sum(y**2)


@program(matrix(2, 3))
def match_on_rank(a):
    match a.ndim, a.shape[0]:
        case 1, _:
            return np.sum(a)
        case 2, 2:
            return np.sum(a[0] * a[1])
        case _:
            return 0.0


@program({"kind": "l2", "weight": 0.5}, vector(3), diff=(1,))
def match_on_mapping(options, x):
    match options:
        case {"kind": "l1", "weight": w}:
            return w * np.sum(np.abs(x))
        case {"kind": "l2", "weight": w}:
            return w * np.sum(x**2)
    return 0.0


@program(vector(3))
def errstate(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.where(x == 0.0, 1.0, np.sin(x) / x)
    return np.sum(y)


@program(vector(3))
def errstate_around_loop_and_return(x):
    with np.errstate(all="ignore"):
        total = 0.0
        for value in x:
            total += np.exp(value) / (1.0 + np.exp(value))
        return total * total


@program(vector(3, low=0.5, high=2.0))
def type_hints_and_string_methods(x: np.ndarray, label: str = "a,b") -> float:
    names: list[str] = label.split(",")
    weights: dict[str, float] = {name: float(k + 1) for k, name in enumerate(names)}
    return sum(weights[name] * np.sum(x) ** 2 for name in names)


@program(vector(3))
def import_inside_function(x):
    import math
    from functools import partial

    shifted = partial(np.add, 1.0)
    return np.sum(shifted(x) ** 2) * math.pi


@program(vector(3))
def global_constant_through_module(x):
    return np.sum(np.sin(np.pi * x)) * np.e + np.float64(2.0) * x[0]


@program(vector(3))
def try_around_known_code(x):
    table = {"a": 2.0}
    try:
        scale = table["b"]
    except KeyError:
        scale = table["a"]
    return scale * np.sum(x**2)


@program(vector(3))
def try_finally(x):
    try:
        y = np.sum(x)
    finally:
        z = np.sum(x * x)
    return y * z


@program(vector(3))
def keys_that_a_table_lacks(x):
    table, total = {"a": x[0] ** 2}, x[2] ** 2
    for key in "abc":
        try:
            total = total + table[key] * x[1]
        except KeyError:
            table[key] = total * 2
        else:
            total = total * 3
        finally:
            total = total + 1
    return total + table["c"]


@program(vector(3))
def with_errstate_in_helper(x):
    def safe_divide(a, b):
        with np.errstate(divide="ignore"):
            return a / b

    return np.sum(safe_divide(x, 2.0 + x))


@program(vector(4))
def finite_check(x):
    y = np.log1p(np.exp(x))
    if not np.all(np.isfinite(y)):
        raise FloatingPointError("overflow")
    return np.sum(y)
