"""Kernels of column_mean.

From tests/cuda_programs.py, line 22. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:column_mean --transform "jit(f)" --stage cuda --args "f8[n,m]"
Types: x float64[n, m].
"""
import cupy as cp
from calque.runtime.cuda import blocks, kernel


def column_mean_jit(x):
    n, m = x.shape
    out = cp.empty(m)
    column_mean_kernel(blocks(m), 256, x, out, n, m)
    return out


code = r"""
extern "C" __global__ __launch_bounds__(256)
void column_mean_kernel(const double* __restrict__ x, double* __restrict__ out, Index n, Index m)
{
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < m; i += gridDim.x * 256) {
        double total = 0.0;
        for (Index j = 0; j < n; j++) {
            // return np.mean(x, axis=0)
            total += x[j * m + i];
        }
        // return np.mean(x, axis=0)
        out[i] = total / n;
    }
}
"""

column_mean_kernel = kernel(code, "column_mean_kernel")
