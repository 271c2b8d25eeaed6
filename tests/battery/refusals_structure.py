"""Refused for what they are: Python that is not translated, no gradient, arms that do not fit."""

from __future__ import annotations

import itertools
import zlib
from fractions import Fraction
from typing import Any

import numpy as np

from battery.refusals import refused
from battery.registry import vector


class _Indexed:
    """Iterated by ``__getitem__``, until an index is out of range."""

    def __init__(self, items):
        self.items = items

    def __getitem__(self, k):
        return self.items[k]

    def __len__(self):
        return 3


# Python that is not translated


@refused("NeedsKnownValue")
def items_that_end_by_an_error(x):
    total = 0.0
    for value in _Indexed(x):  # <- here
        total += value
    return total


@refused("NeedsKnownValue")
def list_of_items_that_end_by_an_error(x):
    return sum(list(_Indexed(x)))  # <- here


@refused("NeedsKnownValue")
def array_of_items_that_end_by_an_error(x):
    return np.sum(np.array(_Indexed(x)))  # <- here


@refused("UnsupportedSyntax")
def count_without_end(x):
    total = 0.0
    for k in itertools.count():  # <- here
        total += x[k]
        if k == 2:
            break
    return total


@refused("UnsupportedSyntax")
def count_that_was_walked(x):
    numbers = itertools.count()
    total = sum([k * value for k, value in zip(numbers, x)])
    return total * next(numbers)  # <- here


NUMBERS = itertools.count()


@refused("UnsupportedSyntax")
def count_from_outside(x):
    total = 0.0
    for k, value in zip(NUMBERS, x):  # <- here
        total += k * value
    return total


@refused("UnsupportedSyntax")
def try_around_run_time_code(x):
    try:  # <- here
        y = np.sum(np.linalg.eigvalsh(np.outer(x, x)))  # <- here
    except np.linalg.LinAlgError:
        y = 0.0
    return y


@refused("UnsupportedSyntax")
def a_finally_that_prints(x):
    try:  # <- here
        y = np.sum(x)
    finally:
        print("done")
    return y


@refused("UnsupportedSyntax")
def a_finally_that_hides_errors(x):
    try:
        if x[0] > 0.0:
            raise ValueError("hidden")
        return np.sum(x)
    finally:
        return x[0]  # <- here


@refused("UnsupportedSyntax")
def generator_escapes(x):
    squares = (v * v for v in x)  # <- here
    return squares  # <- here


@refused("UnsupportedSyntax")
def yields(x):
    yield np.sum(x)  # <- here


@refused("UnsupportedSyntax")
async def is_a_coroutine(x):  # <- here
    return np.sum(x)


@refused("UnsupportedSyntax")
def evaluates_text(x):
    return eval("np.sum(x)")  # <- here


@refused("UnsupportedSyntax")
def recursion_on_run_time_value(x):
    def factorial(n):
        if n < 1.0:
            return 1.0
        return n * factorial(n - 1.0)  # <- here

    return factorial(x[0] + 3.0)  # <- here


# No source and no rule


@refused("UnsupportedFunction")
def builtin_without_rule(x):
    return np.sum(x) * zlib.crc32(x)  # <- here


@refused("UnsupportedFunction")
def buffer_protocol(x):
    return np.sum(np.asarray(memoryview(x)))  # <- here


scope: dict[str, Any] = {}
exec("def hidden(z):\n    return z * z\n", scope)
hidden = scope["hidden"]


@refused("UnsupportedFunction")
def callee_without_source(x):
    return np.sum(hidden(x))  # <- here


@refused("UnsupportedFunction")
def pairs_of_a_library_class(x):
    return sum(a * b for a, b in np.broadcast(x, x[::-1]))  # <- here


@refused("UnsupportedFunction")
def class_of_the_standard_library(x):
    return Fraction(x[0]) * x[1]  # <- here


@refused("UnsupportedFunction")
def vectorized_python(x):
    return np.sum(np.vectorize(zlib.crc32)(x))  # <- here


# What has no gradient


@refused("NotDifferentiable", np.array([1, 2, 3]))
def integer_array_input(x):  # <- here
    return np.sum(x * 2.0)


@refused("NotDifferentiable", 3)
def integer_scalar_input(x):  # <- here
    return x * 2.0


@refused("NotDifferentiable", np.array([True, False]))
def boolean_input(x):  # <- here
    return np.sum(x * 2.0)


@refused("NotDifferentiable", {"a": vector(2), "n": 3})
def integer_leaf_of_input(params):  # <- here
    return np.sum(params["a"]) * params["n"]


@refused("NotDifferentiable")
def vector_output(x):
    return x * 2.0  # <- here


@refused("NotDifferentiable")
def size_one_output(x):
    return x[:1]  # <- here


@refused("NotDifferentiable")
def tuple_output(x):
    return x[0], x[1]  # <- here


@refused("NotDifferentiable")
def no_output(x):  # <- here
    y = np.sum(x)  # noqa: F841


@refused("NotDifferentiable")
def integer_output(x):
    return np.argmax(x)  # <- here


@refused("NotDifferentiable")
def boolean_output(x):
    return np.sum(x) > 0.0  # <- here


@refused("NotDifferentiable")
def complex_output_without_holomorphic(x):
    return np.sum(x * 1j)  # <- here


@refused("NotDifferentiable", holomorphic=True)
def real_input_with_holomorphic(x):  # <- here
    return np.sum(x)


@refused("NotDifferentiable", has_aux=True)
def aux_expected(x):
    return np.sum(x)  # <- here


# Arms and iterations that do not fit together


@refused("BranchMismatch")
def arms_give_list_and_scalar(x):
    if x[0] > 0.0:  # <- here
        y = [x[0], x[1]]
    else:
        y = x[2]
    return np.sum(y)


@refused("BranchMismatch")
def arms_return_array_and_scalar(x):
    if x[0] > 0.0:  # <- here
        return x  # <- here
    return x[0]  # <- here


@refused("BranchMismatch")
def arms_with_different_keys(x):
    table = {"a": x[0]}
    if x[0] > 0.0:  # <- here
        table["b"] = x[1]
    return sum(table.values())


@refused("BranchMismatch")
def arms_with_lists_of_different_length(x):
    values = [x[0]]
    if x[1] > 0.0:  # <- here
        values.append(x[2])
    return sum(values)


@refused("BranchMismatch")
def result_is_none_on_one_path(x):
    y = None
    if x[0] > 0.0:
        y = x[1]
    return y  # <- here


@refused("BranchMismatch")
def arms_return_different_strings(x):
    if x[0] > 0.0:  # <- here
        kind = "sin"
    else:
        kind = "cos"
    return kind  # <- here


@refused("BranchMismatch")
def rounds_nest_deeper(x):
    y = x[0]
    for i in range(int(np.sum(x > 0.0))):  # <- here
        y = (y, x[i])  # <- here
    return np.sum(x)


@refused("BranchMismatch")
def rounds_change_the_rank(x):
    y = x[0]
    while np.sum(y) < 10.0:  # <- here
        y = x * 2.0 + np.sum(y) + 5.0  # <- here
    return np.sum(y)


@refused("UndefinedVariable")
def name_after_del(x):
    y = x * x
    del y
    return np.sum(y)  # <- here


@refused("UndefinedVariable")
def name_never_bound(x):
    return np.sum(x) * undefined_name  # noqa: F821  # <- here


# Values that must be known


@refused("NeedsKnownValue")
def list_index_from_data(x):
    rows = [[x[1]], [x[1], x[2]]]
    return sum(rows[int(x[0] * 2.0)])  # <- here


@refused("NeedsKnownValue")
def axis_from_data(x):
    return np.sum(np.sum(x.reshape(3, 1), axis=int(x[0])))  # <- here


@refused("NeedsKnownValue")
def dict_key_from_data(x):
    table = {}
    table[int(x[0] > 0.0)] = x[1]  # <- here
    return sum(table.values())


# Aliases that cannot be decided


@refused("AliasUndecided")
def store_into_one_of_two_buffers(x):
    a, b = x * 1.0, x * 2.0
    c = a if x[0] > 0.0 else b  # <- here
    c[0] = 5.0  # <- here
    return np.sum(a * b)


@refused("AliasUndecided")
def store_into_view_chosen_by_branch(x):
    a = x * 1.0
    if x[0] > 0.0:  # <- here
        part = a[:2]
    else:
        part = a[1:]
    part[0] = x[2]  # <- here
    return np.sum(a * a)


@refused("AliasUndecided")
def fresh_or_alias(x):
    a = x * 1.0
    b = a
    if x[0] > 0.0:  # <- here
        b = a.copy()
    b[0] = x[1] ** 2  # <- here
    return np.sum(a * b)


@refused("AliasUndecided", np.ones((3, 3)))
def ravel_of_unknown_layout(x):
    a = x * x
    a.ravel()[::4] = x[0, 0]  # <- here
    return np.sum(a @ x)
