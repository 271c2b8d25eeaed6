"""Kernels of the gradient of embedding_loss with respect to table.

From tests/cuda_programs.py, line 41. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:embedding_loss --transform "jit(grad(f), deterministic=True)" --stage cuda --args "f4[v,d], i8[n], f4[n,d]"
Types: table float32[v, d], tokens int64[n], targets float32[n, d].
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel, outside, raise_if_outside, tiles


def embedding_loss_grad_jit(table, tokens, targets):
    v, d = table.shape
    n = tokens.size
    if n != targets.shape[0]:
        raise ValueError('embedding_loss_grad_jit needs tokens.shape[0] == targets.shape[0]')
    if d != targets.shape[1]:
        raise ValueError('embedding_loss_grad_jit needs table.shape[1] == targets.shape[1]')
    raise_if_outside()
    # reverse
    table_bar = cp.zeros_like(table)
    cells = cp.empty(n, dtype=np.int64)
    embedding_loss_grad_kernel(
        blocks(n), 256, tokens, cells, v, n,
        *outside('cuda_programs.py, line 42: rows = table[tokens]'),
    )
    order = cp.argsort(cells, kind='stable')
    sorted_cells = cells[order]
    embedding_loss_grad_kernel_2(
        tiles(v, d), (32, 8), table, targets, table_bar, order, sorted_cells, v, d, n
    )
    return table_bar


code = r"""
// counted from the start; outside: -1, and the host is told (by number: where, and which index)
__device__ __forceinline__ Index checked_index(
    long long index, Index size, volatile long long* outside, long long place)
{
    if (-(long long)size <= index && index < size)
        return (Index)(index < 0 ? index + size : index);
    const long long far = 1LL << 39;
    long long told = index < -far ? -far : index >= far ? far - 1 : index;
    if (*outside == 0)  // others may come of the first
        *outside = place * (2 * far) + told + far;
    return -1;
}

template <class T>
__device__ __forceinline__ bool comes_before(T a, T b)  // NaN is the largest number
{
    return a < b || (b != b && a == a);
}

template <class Array, class T>
__device__ Index searchsorted_left(Array sorted, Index size, T value)  // by halving
{
    Index begin = 0;
    while (size > 0) {
        Index half = size / 2, middle = begin + half;
        bool later = comes_before<T>(sorted[middle], value);
        begin = later ? middle + 1 : begin;
        size = later ? size - half - 1 : half;
    }
    return begin;
}

template <class Array, class T>
__device__ Index searchsorted_right(Array sorted, Index size, T value)  // by halving
{
    Index begin = 0;
    while (size > 0) {
        Index half = size / 2, middle = begin + half;
        bool later = !comes_before<T>(value, sorted[middle]);
        begin = later ? middle + 1 : begin;
        size = later ? size - half - 1 : half;
    }
    return begin;
}

extern "C" __global__ __launch_bounds__(256)
void embedding_loss_grad_kernel(
    const long long* __restrict__ tokens, long long* __restrict__ cells, Index v, Index n,
    volatile long long* outside, long long place)
{
    // reverse
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < n; i += (Index)gridDim.x * 256) {
        // rows = table[tokens]
        Index tokens_checked = checked_index(tokens[i], v, outside, place);
        cells[i] = tokens_checked;
    }
}

extern "C" __global__ __launch_bounds__(256)
void embedding_loss_grad_kernel_2(
    const float* __restrict__ table, const float* __restrict__ targets,
    float* __restrict__ table_bar, const long long* __restrict__ order,
    const long long* __restrict__ sorted_cells, Index v, Index d, Index n)
{
    // reverse
    for (Index cell = blockIdx.y * 8 + threadIdx.y; cell < v; cell += gridDim.y * 8) {
        // rows = table[tokens]
        long long first = searchsorted_left(sorted_cells, n, cell);
        long long last = searchsorted_right(sorted_cells, n, cell);
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < d; j += gridDim.x * 32) {
            for (long long p = first; p < last; p++) {
                // rows = table[tokens]
                long long i = order[p];
                float rows = table[cell * d + j];
                // error = rows - targets
                float error = rows - targets[i * d + j];
                // return np.sum(error * error)
                float error_bar = 2.0f * error;
                // rows = table[tokens]
                table_bar[cell * d + j] += error_bar;
            }
        }
    }
}
"""

embedding_loss_grad_kernel = kernel(code, "embedding_loss_grad_kernel")
embedding_loss_grad_kernel_2 = kernel(code, "embedding_loss_grad_kernel_2")
