"""Kernels of clipped_products.

From tests/cuda_programs.py, line 72. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:clipped_products --transform "jit(f)" --stage cuda --args "f8[n], f8[n]"
Types: x float64[n], y float64[n].
"""
import cupy as cp
from calque.runtime.cuda import blocks, kernel


def clipped_products_jit(x, y):
    n = x.size
    if n != y.shape[0]:
        raise ValueError('clipped_products_jit needs x.shape[0] == y.shape[0]')
    out = cp.empty(n)
    clipped_products_kernel(blocks(n), 256, x, y, out, n)
    return out


code = r"""
__device__ __forceinline__ double power(double x, int n)  // x times x, n times
{
    double product = 1;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2)
            product *= x;
    return product;
}

extern "C" __global__ __launch_bounds__(256)
void clipped_products_kernel(
    const double* __restrict__ x, const double* __restrict__ y, double* __restrict__ out, Index n)
{
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        if (x[i] > 0.0)
            out[i] = x[i] * y[i];
        else
            out[i] = y[i] - power(x[i], 3);
    }
}
"""

clipped_products_kernel = kernel(code, "clipped_products_kernel")
