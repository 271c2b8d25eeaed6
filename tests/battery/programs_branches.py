"""Branches on values: if, ternaries, boolean operators, chained comparisons, None."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, vector


@program(0.7)
def absolute_value(x):
    if x > 0:
        return x
    return -x


@program(-0.7, name="absolute_value_negative")
def absolute_value_else(x):
    if x > 0:
        y = x * 2.0
    else:
        y = -x * x
    return y


@program(vector(3), vector(3, 1), 1.0)
def hinge(w, x, y):
    margin = y * (x @ w)
    if margin > 1.0:
        return 0.0
    return (1.0 - margin) ** 2


@program(0.4)
def elif_chain(x):
    if x < -1.0:
        y = -x
    elif x < 0.0:
        y = x * x
    elif x < 1.0:
        y = np.sin(x)
    else:
        y = x
    return y * x


@program(vector(3))
def branch_joins_several_names(x):
    total, scale = 0.0, 1.0
    if x[0] * x[1] > -2.0:
        total = total + x[0]
        scale = x[1] ** 2
        extra = x[2]
    else:
        extra = 0.0
    return total * scale + extra * extra


@program(vector(3))
def branch_of_arrays(x):
    if np.sum(x) > 0.0:
        y = x * 2.0
    else:
        y = np.sin(x)
    return np.sum(y * y)


@program(vector(3))
def branch_joins_scalar_kinds(x):
    k = 0
    if x[0] > 10.0:
        k = 2
    else:
        k = x[1]
    return k * x[2]


@program(vector(4))
def nested_branches(x):
    if x[0] > -2.0:
        if x[1] > 5.0:
            y = x[0]
        else:
            y = x[1] * x[2]
            if x[2] < 9.0:
                y *= x[3]
    else:
        y = 0.0
    return y + x[0]


@program(-0.3)
def ternary(x):
    y = x if x > 0.0 else 0.1 * x
    return y * (2.0 if y < 0.0 else 3.0)


@program(vector(3))
def ternary_with_unsafe_arm(x):
    total = 0.0
    for k in range(3):
        total += np.log(x[k]) if x[k] > 0.0 else x[k] ** 2
    return total


@program(0.3, 0.9, diff=(0, 1))
def boolean_operators(x, y):
    total = 0.0
    if x > 0.0 and y > 0.5:
        total += x * y
    if x > 1.0 or y > 0.5:
        total += x**2
    if not (x > y):
        total += y**3
    if not x > 0.0 or (y < 2.0 and x < 0.5):
        total *= 2.0
    return total


@program(vector(3))
def short_circuit_guards(x):
    if np.sum(x) > 100.0 and np.log(-1.0 - x[0]) > 0.0:
        return x[0]
    if np.sum(x) < 100.0 or np.sqrt(-1.0 - x[0]) > 0.0:
        return x[1] ** 2
    return x[2]


@program(0.6, None, diff=(0,))
def or_and_give_values(x, y):
    scale = y or 2.0
    shift = x and 3.0
    return scale * x**2 + shift * x


@program(0.6)
def chained_comparison(x):
    y = x * 2.0
    if 0.0 < x < 1.0 <= y < 3.0:
        return x * y
    return x + y


@program(vector(3))
def chained_comparison_evaluates_once(x):
    calls = []

    def middle():
        calls.append(1)
        return np.sum(x)

    if -10.0 < middle() < 10.0:
        return np.sum(x**2) * len(calls)
    return 0.0


@program(vector(3), None, 0.5, diff=(0, 2))
def is_none(x, weight=None, bias=None):
    y = x if weight is None else weight * x
    if bias is not None:
        y = y + bias
    return np.sum(y**2)


@program(vector(3))
def equality_on_values(x):
    rounded = np.round(x[0])
    if rounded == 0.0:
        return x[1]
    if rounded != 0.0:
        return x[2] ** 2
    return x[0]


@program(vector(3))
def boolean_variable_carried(x):
    positive = x[0] > 0.0
    big = positive and x[1] > 3.0
    y = x[2]
    if positive:
        y *= 2.0
    if big:
        y *= 3.0
    if not big:
        y += x[1]
    return y * (1.0 + float(positive))


@program(vector(3))
def array_any_all_condition(x):
    if (x > 0.99).any() or np.all(x < 2.0):
        return np.sum(x) ** 2
    return np.sum(x)


@program(vector(4))
def branch_only_one_arm_returns(x):
    scale = 1.0
    if x[0] < -5.0:
        return x[1]
    elif x[0] < 5.0:
        scale = x[2]
    else:
        return x[3]
    return scale * x[0]


@program(vector(3))
def branch_in_helper(x):
    def relu(v):
        if v > 0.0:
            return v
        return 0.05 * v

    return relu(x[0]) + relu(x[1]) * relu(x[2])


@program(vector(3))
def branch_on_known_and_run_time(x):
    deep = x.shape[0] > 2
    if deep and x[0] > -3.0:
        return x[0] * x[1]
    if x.ndim == 1 or x[5] > 0.0:
        return x[2]
    return 0.0


@program(vector(3))
def containers_joined_after_branch(x):
    state = {"a": x[0], "list": [x[1], 1.0]}
    if x[2] > -3.0:
        state["a"] = state["a"] * x[2]
        state["list"][1] = x[0]
    else:
        state["list"][0] = 0.0
    return state["a"] + state["list"][0] * state["list"][1]


@program(vector(3))
def functions_chosen_by_value(x):
    y = np.sin(x[0]) if x[0] > x[1] else np.cos(x[0])
    z = (np.tanh if x.size == 3 else np.exp)(x[2])
    return y * z


@program(vector(6), diff=(0,))
def sign_and_where_mixture(x):
    y = np.where(x > 0.0, np.sqrt(np.where(x > 0.0, x, 1.0)), x * x)
    return np.sum(y * np.sign(x))


@program(vector(6))
def leaky_relu_by_loop(x):
    total = 0.0
    for value in x:
        if value > 0.0:
            total += value
        else:
            total += 0.01 * value
    return total * total


@program(matrix(3, 3))
def branch_on_matrix_property(a):
    trace = np.trace(a)
    if trace < 0.0:
        a = a - np.eye(3)
    else:
        a = a + 2.0 * np.eye(3)
    return np.sum(a @ a)


@program(0.4, 2)
def branch_on_run_time_integer(x, n):
    if n % 2 == 0:
        return x**2
    return x**3


@program(0.3, True, diff=(0,))
def boolean_argument(x, flag):
    y = x * x
    if flag:
        y = np.sin(y)
    return y + flag * x


@program(vector(4))
def piecewise_nested_functions(x):
    def left(t):
        return t * t

    def right(t):
        return 2.0 * t - 1.0 if t > 1.0 else t

    total = 0.0
    for k in range(4):
        total += left(x[k]) if x[k] < 0.0 else right(x[k] * 3.0)
    return total


@program(vector(4))
def sort_by_comparison(x):
    a, b = x[0], x[1]
    if a > b:
        a, b = b, a
    c = x[2]
    if b > c:
        b, c = c, b
        if a > b:
            a, b = b, a
    return a + 2.0 * b + 4.0 * c * x[3]


@program(0.9)
def zero_gradient_arm(x):
    if x > 0.5:
        y = 1.0
    else:
        y = x
    return y * 2.0


@program(vector(3))
def argmax_as_index(x):
    k = np.argmax(x)
    return x[k] ** 2 + x[(k + 1) % 3] * k
