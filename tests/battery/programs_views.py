"""Views of views, reshaped, transposed, strided and diagonal views, read and written."""

from __future__ import annotations

import numpy as np

from battery.registry import matrix, program, tensor, vector


@program(vector(8))
def view_of_view(x):
    a = x * 1.0
    half = a[::2]
    pair = half[1:3]
    pair[0] = x[0] * x[1]
    half[0] += pair[1]
    return np.sum(a * a) + pair[0]


@program(vector(6))
def reshape_view_store(x):
    a = x * x
    grid = a.reshape(2, 3)
    grid[0, 1] = x[5]
    grid[:, 2] *= grid[:, 0]
    a[0] = 2.0
    return np.sum(grid * grid)


@program(vector(6))
def ravel_view_store(x):
    grid = (x * 1.0).reshape(3, 2)
    line = grid.ravel()
    line[1:4] = x[:3] ** 2
    return np.sum(grid * np.arange(6.0).reshape(3, 2))


@program(vector(6))
def flatten_is_a_copy(x):
    grid = (x * 1.0).reshape(3, 2)
    line = grid.flatten()
    line[0] = 100.0
    grid[2, 1] = x[0]
    return np.sum(grid**2) + np.sum(line[1:] * x[1:])


@program(matrix(2, 3))
def transposed_view_store(x):
    a = x * 1.0
    b = a.T
    b[0, 1] = x[0, 2] ** 2
    b[2] *= 3.0
    a[1, 1] = b[0, 1] * b[2, 0]
    return np.sum(a * a)


@program(matrix(3, 3))
def transpose_of_itself_stored(x):
    a = x * 1.0
    a[:] = a.T
    a += a.T
    return np.sum(a * np.arange(9.0).reshape(3, 3)) + np.sum(a * a * x)


@program(tensor(2, 3, 2))
def swapaxes_and_moveaxis_views(x):
    a = x * 1.0
    b = np.swapaxes(a, 0, 2)
    b[1, :, 0] = x[0, :, 0] ** 2
    c = np.moveaxis(a, 1, 0)
    c[0] += c[1]
    return np.sum(a * a)


@program(vector(4))
def expand_dims_view(x):
    a = x * 1.0
    column = a[:, None]
    column[2, 0] = x[0] * x[1]
    row = np.expand_dims(a, 0)
    row[0, 3] *= 2.0
    squeezed = np.squeeze(column)
    squeezed[0] = x[3]
    return np.sum(a * a)


@program(vector(5))
def negative_stride_view(x):
    a = x * 1.0
    back = a[::-1]
    back[1:3] = a[:2] * 2.0
    back[0] += x[2]
    flipped = np.flip(a)
    flipped[4] = x[1]
    return np.sum(a * np.arange(5.0)) + np.sum(back * x)


@program(matrix(3, 3))
def row_and_column_views(x):
    a = x * 1.0
    row, column = a[1], a[:, 1]
    row[1] = x[0, 0]
    column[0] = row[2] * 2.0
    row += column
    return np.sum(a * a)


@program(matrix(3, 3))
def fill_diagonal_by_strided_view(x):
    a = (x * x).copy()
    a.ravel()[:: a.shape[1] + 1] = x[0]
    for i in range(3):
        a[i, i] += 1.0
    return np.sum(a @ x)


@program(matrix(3, 3))
def row_view_updated_in_loop(x):
    a = x * 1.0
    for i in range(1, a.shape[0]):
        row = a[i]
        row -= a[i - 1] * row[0]
        row[i] += 1.0
    return np.sum(a * a)


@program(vector(6))
def moving_view_in_loop(x):
    a = x * 1.0
    for i in range(a.shape[0] - 2):
        window = a[i : i + 3]
        window[1] = window[0] * window[2]
        window += 0.1
    return np.sum(a * a)


@program(vector(6))
def view_chosen_by_branch_is_read(x):
    a = x * 2.0
    part = a[:3] if x[0] > -2.0 else a[3:]
    return np.sum(part * part) + a[0]


@program(matrix(4, 2))
def rows_of_array_written_by_loop(x):
    a = x * 1.0
    for row in a:
        row[0] = row[1] ** 2
        row *= 1.5
    return np.sum(a * a)


@program(matrix(3, 3))
def zip_of_row_views(x):
    a, b = x * 1.0, np.zeros((3, 3))
    for source, target in zip(a, b):
        target[:] = source * source
        target[0] = source[2]
    return np.sum(a * b)


@program(vector(6))
def views_unpacked(x):
    a = x * 1.0
    left, right = a[:3], a[3:]
    left[:], right[:] = right * 2.0, left + 1.0
    first, second, _ = left
    left[0] = 0.0
    return np.sum(a * a) + first * second


@program(vector(6))
def split_gives_views(x):
    a = x * 1.0
    first, second = np.split(a, 2)
    first[:] = second * second
    second[0] = first[1]
    return np.sum(a * a)


@program(vector(4))
def reverse_sweep_shadow_is_a_view(x):
    """In the sweep the adjoint of the slice is itself a view that the next line changes."""
    a = np.zeros((3, 4))
    a[0] = x
    for i in range(1, 3):
        a[i, 1:-1] = a[i - 1, 2:] * 2.0 + a[i - 1, :-2]
        a[i, 2:] += a[i, 1:-1]
        a[i, 1:-1] += a[i, 2:] * a[i, 2:]
    return np.sum(a * a)


@program(matrix(3, 4))
def broadcast_store(x):
    a = np.zeros((3, 4))
    a[:] = x[0]
    a[:, 1:3] += x[:, :1]
    a[1] = x[2, 2]
    a[..., -1] *= x[:, 0]
    return np.sum(a * x)


@program(tensor(2, 3, 4))
def ellipsis_and_none_store(x):
    a = x * 1.0
    a[..., 0] = a[..., 1] * 2.0
    a[0, ..., 2:] += x[1, :, :2]
    a[1, None, 0, :] *= 2.0
    return np.sum(a**2)


@program(matrix(3, 4))
def mixed_fancy_and_slice(x):
    a = x * 1.0
    a[[0, 2], 1:3] = x[[1, 1], :2] ** 2
    a[1:, [0, 3]] += x[:2, [2, 2]]
    return np.sum(a * a) + np.sum(a[[2, 0, 2], [1, 1, 3]] ** 2)


@program(vector(5))
def argument_view_written(x):
    view = x[1:4]
    view[0] = x[4] ** 2
    view *= x[0]
    return np.sum(x * x)


@program(vector(6))
def diagonal_read_of_buffer(x):
    a = np.zeros((3, 3))
    a[0] = x[:3]
    a[1, 1:] = x[3:5]
    before = np.sum(np.diagonal(a) * np.diag(a))
    a[2, 2] = x[5]
    return before * np.trace(a)


@program(vector(6))
def view_as_carried_value(x):
    a = x * 1.0
    part = a[:2]
    for i in range(3):
        part[0] += x[i] * part[1]
        part = a[i + 1 : i + 3]
    return np.sum(a * a) + np.sum(part)


@program(vector(4))
def attribute_shape_and_real_of_view(x):
    a = x * 1.0
    view = a[1:]
    view[view.shape[0] - 1] = x[0] ** 2
    view[-view.size] += 1.0
    return np.sum(a * a) / len(view)


@program(vector(4))
def swapped_by_branch_then_stored(x):
    a, b = x * 1.0, x * 2.0
    if x[0] > x[1]:
        a, b = b, a
    a[0] = 7.0
    return np.sum(a) + np.sum(b * b)


@program(vector(3))
def alias_decided_by_loop_count(x):
    a, b = x * 1.0, x * 2.0
    for i in range(x.shape[0]):
        a, b = b, a
    a[0] = x[1]
    return np.sum(a * a) + np.sum(b)
