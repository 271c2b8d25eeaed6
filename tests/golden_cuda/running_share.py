"""Kernels of running_share.

From tests/cuda_programs.py, line 53. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:running_share --transform "jit(f)" --stage cuda --args "f8[n]"
Types: x float64[n].
"""
import cupy as cp
from calque.runtime.cuda import blocks, kernel


def running_share_jit(x):
    n = x.size
    if n < 1:
        raise ValueError('running_share_jit needs x.shape[0] >= 1')
    x_squared = cp.empty(n)
    running_share_kernel(blocks(n), 256, x, x_squared, n)
    total = cp.cumsum(x_squared)
    total_last = cp.empty((), 'float64')
    running_share_kernel_2(1, 1, total, total_last, n)
    out = x_squared  # x_squared is not read again
    running_share_kernel_3(blocks(n), 256, total, total_last, out, n)
    return out


code = r"""
extern "C" __global__ __launch_bounds__(256)
void running_share_kernel(const double* __restrict__ x, double* __restrict__ x_squared, Index n)
{
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        // total = np.cumsum(x * x)
        double x_i = x[i];
        x_squared[i] = x_i * x_i;
    }
}

extern "C" __global__ __launch_bounds__(1)
void running_share_kernel_2(
    const double* __restrict__ total, double* __restrict__ total_last_out, Index n)
{
    double total_last = total[n - 1];
    total_last_out[0] = total_last;
}

extern "C" __global__ __launch_bounds__(256)
void running_share_kernel_3(
    const double* __restrict__ total, const double* __restrict__ total_last,
    double* __restrict__ out, Index n)
{
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        // return total / total[-1]
        out[i] = total[i] / total_last[0];
    }
}
"""

running_share_kernel = kernel(code, "running_share_kernel")
running_share_kernel_2 = kernel(code, "running_share_kernel_2")
running_share_kernel_3 = kernel(code, "running_share_kernel_3")
