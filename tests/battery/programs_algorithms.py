"""Dynamic programming, sorting networks, scans, graphs, strings of integers, games with indices."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, vector


def soft_min(a, b, c):
    low = min(a, b, c)
    return low - np.log(np.exp(low - a) + np.exp(low - b) + np.exp(low - c))


@program(matrix(3, 4, 0, 0.1, 1.0))
def soft_dtw(cost):
    n, m = cost.shape
    table = np.full((n + 1, m + 1), 1e3)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            table[i, j] = cost[i - 1, j - 1] + soft_min(
                table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]
            )
    return table[n, m]


@program(matrix(4, 3, 0, 0.1, 1.0))
def hard_edit_distance(cost):
    n, m = cost.shape
    table = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        table[i, 0] = 0.7 * i
    for j in range(1, m + 1):
        table[0, j] = 0.6 * j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            table[i, j] = min(
                table[i - 1, j] + 0.7, table[i, j - 1] + 0.6, table[i - 1, j - 1] + cost[i - 1, j - 1]
            )
    return table[-1, -1] ** 2


@program(vector(4), vector(4, 1), diff=(0, 1))
def edit_distance_with_two_rows(a, b):
    previous = [0.5 * j for j in range(len(b) + 1)]
    for i in range(len(a)):
        current = [0.5 * (i + 1)]
        for j in range(len(b)):
            change = previous[j] + (a[i] - b[j]) ** 2
            current.append(min(previous[j + 1] + 0.5, current[j] + 0.5, change))
        previous = current
    return previous[-1] * previous[-2]


@program(matrix(4, 3), matrix(3, 3, 1), vector(3), diff=(0, 1, 2))
def viterbi_log_sum_exp(emission, transition, start):
    alpha = start + emission[0]
    for t in range(1, emission.shape[0]):
        scores = alpha[:, None] + transition
        top = np.max(scores, axis=0)
        alpha = emission[t] + top + np.log(np.sum(np.exp(scores - top), axis=0))
    top = np.max(alpha)
    return top + np.log(np.sum(np.exp(alpha - top)))


@program(matrix(4, 3), matrix(3, 3, 1), diff=(0, 1))
def viterbi_best_path_score(emission, transition):
    score = emission[0]
    for t in range(1, emission.shape[0]):
        score = np.max(score[:, None] + transition, axis=0) + emission[t]
    return np.max(score) ** 2


@program(matrix(4, 3), matrix(3, 3, 1), diff=(0, 1))
def viterbi_with_back_pointers(emission, transition):
    n, k = emission.shape
    score = emission[0].copy()
    pointers = np.zeros((n, k), dtype=int)
    for t in range(1, n):
        new = np.zeros(k)
        for j in range(k):
            best = int(np.argmax(score + transition[:, j]))
            pointers[t, j] = best
            new[j] = score[best] + transition[best, j] + emission[t, j]
        score = new
    state = int(np.argmax(score))
    total = 0.0
    for t in range(n - 1, -1, -1):
        total += emission[t, state] ** 2
        state = pointers[t, state]
    return total + np.max(score)


@program(matrix(4, 4, 0, 0.1, 1.0))
def floyd_warshall(graph):
    path = graph.copy()
    n = path.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if path[i, k] + path[k, j] < path[i, j]:
                    path[i, j] = path[i, k] + path[k, j]
    return np.sum(path * path)


@program(matrix(4, 4, 0, 0.1, 1.0))
def floyd_warshall_by_minimum(path):
    for k in range(path.shape[0]):
        for i in range(path.shape[0]):
            path[i] = np.minimum(path[i], path[i, k] + path[k])
    return np.sum(np.sqrt(path + 1.0))


@program(vector(4, low=0.1, high=1.0), np.array([[0, 1], [0, 2], [1, 3], [2, 3]]))
def bellman_ford_edges(length, edges):
    far = np.full(4, 100.0)
    far[0] = 0.0
    for _ in range(3):
        for e in range(edges.shape[0]):
            start, end = edges[e]
            if far[start] + length[e] < far[end]:
                far[end] = far[start] + length[e]
    return far[3] ** 2 + far[1] * far[2]


@program(vector(5))
def sorting_network(x):
    a = x * 1.0
    n = a.shape[0]
    for i in range(n):
        for j in range(n - 1 - i):
            low, high = min(a[j], a[j + 1]), max(a[j], a[j + 1])
            a[j], a[j + 1] = low, high
    return np.sum(a * np.arange(1.0, n + 1.0))


@program(vector(5))
def bubble_sort_with_swaps(x):
    a = x.copy()
    n = a.shape[0]
    swapped = True
    while swapped:
        swapped = False
        for j in range(n - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
                swapped = True
    return np.sum(a * a * np.arange(n))


@program(vector(5))
def insertion_sort(x):
    a = x**2
    for i in range(1, a.shape[0]):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return np.sum(a * np.arange(1.0, 6.0))


@program(vector(6))
def prefix_sums_in_place(x):
    a = x * x
    for i in range(1, a.shape[0]):
        a[i] += a[i - 1]
    return np.sum(np.sin(a))


@program(vector(8))
def hillis_steele_scan(x):
    a = x * 1.0
    shift = 1
    while shift < a.shape[0]:
        moved = a.copy()
        moved[shift:] += a[:-shift]
        a = moved
        shift *= 2
    return np.sum(a**2)


@program(vector(8))
def blelloch_up_sweep(x):
    a = x * 1.0
    step = 1
    while step < 8:
        for i in range(2 * step - 1, 8, 2 * step):
            a[i] = a[i] + a[i - step] * a[i]
        step *= 2
    return a[7] * a[3]


@program(vector(8), vector(8, 1), diff=(0, 1))
def fast_fourier_in_place(real, imag):
    re, im = real[[0, 4, 2, 6, 1, 5, 3, 7]], imag[[0, 4, 2, 6, 1, 5, 3, 7]]
    size = 2
    while size <= 8:
        half = size // 2
        for start in range(0, 8, size):
            for k in range(half):
                angle = -2.0 * np.pi * k / size
                c, s = np.cos(angle), np.sin(angle)
                i, j = start + k, start + k + half
                tr, ti = c * re[j] - s * im[j], s * re[j] + c * im[j]
                re[j], im[j] = re[i] - tr, im[i] - ti
                re[i], im[i] = re[i] + tr, im[i] + ti
        size *= 2
    return np.sum(np.sqrt(re**2 + im**2))


@program(vector(6))
def running_maximum(x):
    best = x[0]
    total = 0.0
    for value in x:
        if value > best:
            best = value
        total += best
    return total * best


@program(vector(6))
def maximum_subarray(x):
    best, here = -10.0, 0.0
    for value in x:
        here = max(value, here + value)
        best = max(best, here)
    return best**2


@program(vector(5, low=0.2, high=1.0), np.array([2, 1, 3, 2, 1]), 5)
def knapsack_table(value, weight, capacity):
    table = np.zeros(capacity + 1)
    for i in range(value.shape[0]):
        for w in range(capacity, weight[i] - 1, -1):
            table[w] = max(table[w], table[w - weight[i]] + value[i])
    return table[capacity] * np.sum(table)


@program(vector(5, low=0.5, high=2.0))
def matrix_chain_order(p):
    n = p.shape[0] - 1
    cost = np.zeros((n, n))
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i, j] = 1e6
            for k in range(i, j):
                q = cost[i, k] + cost[k + 1, j] + p[i] * p[k + 1] * p[j + 1]
                if q < cost[i, j]:
                    cost[i, j] = q
    return cost[0, n - 1]


@program(vector(5))
def nussinov_like_recurrence(x):
    n = x.shape[0]
    table = np.zeros((n, n))
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = np.maximum(table[i, j - 1], table[i + 1, j])
            if j - i > 1:
                table[i, j] = np.maximum(table[i, j], table[i + 1, j - 1] + x[i] * x[j])
    return table[0, n - 1] + np.sum(table)


@program(vector(6), np.array([0, 1, 1, 0, 2, 2]), 3)
def segment_sums(x, segment, count):
    out = np.zeros(count)
    np.add.at(out, segment, x * x)
    return np.prod(out + 1.0)


@program(vector(4), np.array([0, 2, 3, 5]), np.array([1, 0, 2, 1, 3]), vector(5, 2), diff=(0, 3))
def sparse_matrix_vector_csr(x, row_start, column, data):
    n = row_start.shape[0] - 1
    y = np.zeros(n)
    for i in range(n):
        for k in range(row_start[i], row_start[i + 1]):
            y[i] += data[k] * x[column[k]]
    return np.sum(y * y)


@program(vector(4), [[1, 2], [3], [], [0, 1]])
def message_passing_on_adjacency_list(x, neighbours):
    for _ in range(2):
        new = x * 0.5
        for node, others in enumerate(neighbours):
            for other in others:
                new[node] += np.tanh(x[other])
        x = new
    return np.sum(x * x)


@program(0.17, 9, diff=(0,))
def collatz_driven_polynomial(x, n):
    value = x
    while n != 1:
        if n % 2 == 0:
            n //= 2
            value = value * value + x
        else:
            n = 3 * n + 1
            value = np.sin(value)
    return value


@program(0.7, 13, diff=(0,))
def power_by_squaring(x, n):
    result, base = 1.0, x
    while n > 0:
        if n & 1:
            result = result * base
        base = base * base
        n >>= 1
    return result


@program(vector(4, low=0.2, high=2.0))
def continued_fraction(x):
    value = x[-1]
    for k in range(x.shape[0] - 2, -1, -1):
        value = x[k] + 1.0 / value
    return value


@program(np.array([0.9, 0.35]))
def arithmetic_geometric_mean(x):
    a, g = x
    while abs(a - g) > 1e-13:
        a, g = (a + g) / 2.0, np.sqrt(a * g)
    return a


@program(vector(4))
def cellular_rule_on_values(x):
    state = x * 1.0
    n = state.shape[0]
    for _ in range(3):
        new = np.empty(n)
        for i in range(n):
            left, right = state[i - 1], state[(i + 1) % n]
            new[i] = state[i] * left if left > right else np.cos(right) + state[i]
        state = new
    return np.sum(state**2)


@program(vector(6))
def polynomial_coefficients_from_roots(roots):
    c = np.zeros(roots.shape[0] + 1)
    c[0] = 1.0
    for k in range(roots.shape[0]):
        c[1 : k + 2] = c[1 : k + 2] - roots[k] * c[: k + 1]
    return np.sum(c * c)


@program(matrix(2, 2, 1), matrix(2, 2), diff=(0, 1))
def de_casteljau(points, shift):
    t = 0.3
    control = [points[0], points[1], shift[0], shift[1]]
    while len(control) > 1:
        control = [(1 - t) * p + t * q for p, q in zip(control, control[1:])]
    return control[0][0] * control[0][1]


@program(matrix(3, 2), np.array([0.3, 0.2]), diff=(0, 1))
def winding_polygon_area_and_nearest(points, at):
    area = 0.0
    n = points.shape[0]
    for i in range(n):
        x0, y0 = points[i]
        x1, y1 = points[(i + 1) % n]
        area += 0.5 * (x0 * y1 - x1 * y0)
    nearest = np.min(np.sum((points - at) ** 2, axis=1))
    return area * nearest
