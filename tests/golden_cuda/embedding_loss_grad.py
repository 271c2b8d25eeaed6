"""Kernels of the gradient of embedding_loss with respect to table.

From tests/cuda_programs.py, line 41. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:embedding_loss --transform "jit(grad(f))" --stage cuda --args "f4[v,d], i8[n], f4[n,d]"
Types: table float32[v, d], tokens int64[n], targets float32[n, d].
"""
import cupy as cp
from calque.runtime.cuda import blocks, checked_index, kernel, raise_if_outside


def embedding_loss_grad_jit(table, tokens, targets):
    v, d = table.shape
    n = tokens.size
    if targets.shape[0] != n:
        raise ValueError('embedding_loss_grad_jit needs targets.shape[0] == tokens.shape[0]')
    if targets.shape[1] != d:
        raise ValueError('embedding_loss_grad_jit needs targets.shape[1] == table.shape[1]')
    raise_if_outside()
    # reverse
    table_bar = cp.zeros_like(table)
    for i in range(n):
        tokens_checked = checked_index(
            tokens[i], v, 'cuda_programs.py, line 42: rows = table[tokens]'
        )
        embedding_loss_grad_kernel(blocks(d), 256, table, targets, table_bar, i, tokens_checked, d)
    return table_bar


code = r"""
extern "C" __global__ __launch_bounds__(256)
void embedding_loss_grad_kernel(
    const float* __restrict__ table, const float* __restrict__ targets,
    float* __restrict__ table_bar, long long i, long long tokens_checked, Index d)
{
    // reverse
    for (Index j = blockIdx.x * 256 + threadIdx.x; j < d; j += gridDim.x * 256) {
        // rows = table[tokens]
        float rows = table[tokens_checked * d + j];
        // error = rows - targets
        float error = rows - targets[i * d + j];
        // return np.sum(error * error)
        float error_bar = 2.0f * error;
        // rows = table[tokens]
        table_bar[tokens_checked * d + j] += error_bar;
    }
}
"""

embedding_loss_grad_kernel = kernel(code, "embedding_loss_grad_kernel")
