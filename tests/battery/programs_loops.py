"""for over every kind of range and array, and while, with carried values."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, tensor, vector


@program(vector(5))
def run_time_range(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] ** 2 * i
    return total


@program(vector(6))
def run_time_range_with_step(x):
    n = len(x)
    value = 1.0
    for i in range(n - 1, 0, -2):
        value = value * x[i] + x[i - 1]
    for i in range(1, n - 1):
        value += x[i - 1] * x[i + 1]
    return value


@program(0.3, 7, diff=(0,))
def range_of_integer_argument(x, n):
    y = x
    for _ in range(n):
        y = np.sin(y) + x
    return y


@program(vector(3))
def empty_range(x):
    y = x[0]
    for i in range(x.shape[0], 0):
        y = y * x[i]
    for i in range(0):
        y = y * i
    return y * y


@program(0.9)
def known_range_carried(x):
    a, b = x, 1.0
    for k in range(5):
        a, b = a * b, a + b / (k + 1)
    return a * b


@program(vector(4))
def array_rows_scalars(x):
    value = 0.5
    for c in x:
        value = np.tanh(value + c)
    return value


@program(matrix(4, 3), vector(3))
def array_rows_vectors(a, x):
    state = x
    for row in a:
        state = np.tanh(row + state * np.sum(row * x))
    return np.sum(state)


@program(tensor(3, 2, 2))
def array_rows_matrices(a):
    product = np.eye(2)
    for block in a:
        product = product @ block + 0.1
    return np.trace(product)


@program(vector(5))
def over_arange(x):
    total = 0.0
    for i in np.arange(x.shape[0]):
        total += x[i] * (i + 1)
    for t in np.arange(0.0, 1.0, 0.25):
        total += np.sin(t * x[0])
    return total * total


@program(vector(2))
def over_linspace(x):
    total = 0.0
    for t in np.linspace(0.0, 1.0, 5):
        total += np.exp(-x[0] * t) * x[1]
    return total


@program(matrix(3, 4))
def over_ndindex(a):
    total = 0.0
    for i, j in np.ndindex(a.shape):
        total += a[i, j] ** 2 * (i + 1) / (j + 1)
    for index in np.ndindex(2, 2):
        total += a[index]
    return total


@program(matrix(3, 4))
def over_ndenumerate_and_flat(a):
    total = 0.0
    for (i, j), value in np.ndenumerate(a):
        total += value * (i - j)
    for value in a.flat:
        total += np.sin(value)
    return total * total


@program(vector(4))
def over_known_tuple(x):
    total = 0.0
    for k, factor in ((0, 2.0), (3, -1.0), (1, 0.5)):
        total += factor * x[k] ** 2
    return total


@program(matrix(3, 4))
def double_loop(a):
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += np.sin(a[i, j]) * (i + 2 * j)
    return total


@program(matrix(4, 4))
def triangular_loop(a):
    total = 1.0
    for i in range(a.shape[0]):
        row = 0.0
        for j in range(i + 1):
            row += a[i, j] * a[j, i]
        total *= 1.0 + 0.2 * row
    return total


@program(matrix(4, 4))
def inner_bound_depends_on_outer(a):
    n = a.shape[0]
    total = 0.0
    for i in range(n):
        for j in range(i, n):
            for k in range(j, n):
                total += a[i, j] * a[j, k] * a[k, i]
    return total


@program(vector(6))
def two_loops_in_sequence(x):
    mean = 0.0
    for i in range(x.shape[0]):
        mean += x[i] / x.shape[0]
    spread = 0.0
    for i in range(x.shape[0]):
        spread += (x[i] - mean) ** 2
    return np.sqrt(spread)


@program(vector(5))
def nonlinear_scalar_recurrence(x):
    s = 0.3
    for i in range(x.shape[0]):
        s = s * s + np.sin(s * x[i])
    return s


@program(vector(5), 0.4, diff=(0, 1))
def two_carried_scalars_nonlinear(x, rate):
    a, b = 1.0, 0.5
    for i in range(x.shape[0]):
        c = a * b
        a = np.tanh(c + x[i] * rate)
        b = b * rate + c * c
    return a * b


@program(vector(4))
def carried_array_nonlinear(x):
    y = x
    for _ in range(x.shape[0]):
        y = np.sin(y) * y + x
    return np.sum(y)


@program(vector(4))
def index_used_as_value(x):
    total = 0.0
    for i in range(x.shape[0]):
        weight = 1.0 / (i + 1) ** 2
        total += weight * x[i] ** i
    return total


@program(vector(6))
def gather_by_computed_index(x):
    n = x.shape[0]
    total = 0.0
    for i in range(n):
        total += x[(3 * i + 1) % n] * x[n - 1 - i] * x[i // 2]
    return total


@program(vector(5))
def branch_inside_loop(x):
    total = 0.0
    low = 0.0
    for i in range(x.shape[0]):
        if x[i] > 0.0:
            total += x[i] ** 2
        elif i % 2 == 0:
            low = low + x[i] * total
        else:
            low = low - 1.0
    return total * low


@program(vector(5))
def loop_inside_branch(x):
    if np.sum(x) > -100.0:
        y = 1.0
        for i in range(x.shape[0]):
            y *= 1.0 + x[i] * 0.3
    else:
        y = 0.0
        for i in range(x.shape[0]):
            y += x[i]
    return y


@program(2.0)
def while_newton_square_root(x):
    y = x
    while abs(y * y - x) > 1e-12:
        y = 0.5 * (y + x / y)
    return y


@program(0.4)
def while_with_counter(x):
    i, y = 0, x
    while i < 6:
        y = y * (1.0 + 0.1 * i) + np.sin(y)
        i += 1
    return y


@program(0.7)
def while_on_value(x):
    y, steps = x, 0
    while y < 20.0:
        y = y * y + 1.0 + x
        steps += 1
    return y / (1.0 + steps)


@program(0.7)
def while_never_entered(x):
    y = x * x
    while y > 100.0:
        y = y / 2.0
    return y


@program(vector(4))
def while_over_array(x):
    i = 0
    y = 1.0
    while i < x.shape[0] and y > -50.0:
        y = y * (2.0 + x[i])
        i += 1
    return y * i


@program(matrix(3, 3), vector(3))
def while_carries_array(a, x):
    y = x
    count = 0
    while np.sum(y * y) < 50.0:
        y = a @ y + 2.0 * y
        count += 1
    return np.sum(y) / count


@program(0.6)
def nested_whiles(x):
    total, i = 0.0, 0
    while i < 3:
        y = x + i
        while y < 5.0:
            y = y * 1.5
            total += np.sin(y)
        i += 1
    return total


@program(vector(5))
def for_inside_while(x):
    y = np.sum(x**2) + 0.5
    rounds = 0
    while y < 30.0:
        for i in range(x.shape[0]):
            y += y * x[i] ** 2 * 0.3
        rounds += 1
    return y + rounds


@program(vector(6))
def while_inside_for(x):
    total = 0.0
    for i in range(x.shape[0]):
        y = abs(x[i]) + 0.1
        while y < 1.0:
            y = y * 1.7
        total += y * y
    return total


@program(vector(4))
def helper_with_loop_called_in_loop(x):
    def poly(t):
        value = 0.0
        for k in range(x.shape[0]):
            value = value * t + x[k]
        return value

    total = 0.0
    for i in range(3):
        total += poly(0.5 * i + x[0])
    return total


@program(vector(4))
def known_loop_over_functions(x):
    for f in (np.sin, np.cos, lambda t: t * t):
        for scale in [1.0, 0.5]:
            x = f(x * scale) + x
    return np.sum(x)


@program(vector(3))
def loop_invariant_array(x):
    kernel = np.exp(-x)
    total = 0.0
    for i in range(4):
        total += np.sum(kernel * x) * (i + 1)
    return total


@program(vector(5))
def definition_inside_loop(x):
    total = 0.0
    for i in range(x.shape[0]):

        def f(t, i=i):
            return t ** (i + 1)

        total += f(x[i])
    return total


@program(vector(6))
def sliding_window(x):
    n = x.shape[0]
    total = 0.0
    for i in range(n - 2):
        window = x[i : i + 3]
        total += np.sum(window) * np.prod(window)
    return total


@program(vector(6))
def growing_prefix_slices(x):
    total = 0.0
    for i in range(1, x.shape[0]):
        total += np.dot(x[:i], x[:i]) * x[i]
    return total


@program(vector(8))
def transform_in_place(x):
    """The step of the inner range is the outer counter: its trip count follows from the size."""
    n = x.size
    a = x.astype(complex)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j ^= bit
        if i < j:
            a[i], a[j] = a[j], a[i]
    width = 2
    while width <= n:
        for start in range(0, n, width):
            for k in range(width // 2):
                factor = np.exp(-2j * np.pi * k / width)
                u, v = a[start + k], a[start + k + width // 2] * factor
                a[start + k], a[start + k + width // 2] = u + v, u - v
        width *= 2
    return np.sum(np.abs(a) ** 2 * np.arange(n))


@program(vector(6))
def functions_by_a_doubling_count(x):
    steps = [np.sin, np.cos, np.tanh]
    k, width = 0, 1
    while width < x.size:
        x = steps[k](x) * width
        k += 1
        width *= 2
    return np.sum(x**2)
