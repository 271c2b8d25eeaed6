"""Kernels of selu.

From tests/cuda_programs.py, line 8. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:selu --transform "jit(f)" --stage cuda --args "f4[n,m]"
Types: x float32[n, m].
Defaults: alpha=1.67, scale=1.05.
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel


def selu_jit(x):
    n, m = x.shape
    x_flat = x.reshape(-1)
    out = cp.empty(x_flat.size, dtype=np.float32)
    selu_kernel(blocks(x_flat.size), 256, x_flat, out, x_flat.size)
    return out.reshape(n, m)


code = r"""
extern "C" __global__ __launch_bounds__(256)
void selu_kernel(const float* __restrict__ x_flat, float* __restrict__ out, Index x_flat_size)
{
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < x_flat_size; i += (Index)gridDim.x * 256) {
        // return scale * np.where(x > 0, x, alpha * np.exp(x) - alpha)
        float x_flat_i = x_flat[i];
        out[i] = 1.05f * (x_flat_i > 0.0f ? x_flat_i : 1.67f * expf(x_flat_i) - 1.67f);
    }
}
"""

selu_kernel = kernel(code, "selu_kernel")
