"""Kernels of the gradient of embedding_loss with respect to table.

From tests/cuda_programs.py, line 41. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:embedding_loss --transform "jit(grad(f))" --stage cuda --args "f4[v,d], i8[n], f4[n,d]"
Types: table float32[v, d], tokens int64[n], targets float32[n, d].
"""
import cupy as cp
from calque.runtime.cuda import kernel, outside, raise_if_outside, tiles


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
    embedding_loss_grad_kernel(
        tiles(n, d), (32, 8), table, tokens, targets, table_bar, v, d, n,
        *outside('cuda_programs.py, line 42: rows = table[tokens]'),
    )
    return table_bar


code = r"""
#define NaN __int_as_float(0x7fc00000)

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

extern "C" __global__ __launch_bounds__(256)
void embedding_loss_grad_kernel(
    const float* __restrict__ table, const long long* __restrict__ tokens,
    const float* __restrict__ targets, float* __restrict__ table_bar, Index v, Index d, Index n,
    volatile long long* outside, long long place)
{
    // reverse
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n; i += gridDim.y * 8) {
        // rows = table[tokens]
        Index tokens_checked = checked_index(tokens[i], v, outside, place);
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < d; j += gridDim.x * 32) {
            // rows = table[tokens]
            float rows = tokens_checked >= 0 ? table[tokens_checked * d + j] : NaN;
            // error = rows - targets
            float error = rows - targets[i * d + j];
            // return np.sum(error * error)
            float error_bar = 2.0f * error;
            // rows = table[tokens]
            if (tokens_checked >= 0)
                atomicAdd(&table_bar[tokens_checked * d + j], error_bar);
        }
    }
}
"""

embedding_loss_grad_kernel = kernel(code, "embedding_loss_grad_kernel")
