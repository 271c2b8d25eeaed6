"""Kernels of the gradient of heat with respect to u, kappa.

From tests/cuda_programs.py, line 33. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:heat --transform "jit(grad(f, argnums=(0, 1)))" --stage cuda --args "f8[n,m], f8[n,m], int"
Types: u float64[n, m], kappa float64[n, m], steps int.
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel, tiles


def heat_grad_jit(u, kappa, steps):
    n, m = u.shape
    if not -2147483647 <= steps <= 2147483647:
        raise ValueError('heat_grad_jit needs -2147483647 <= steps <= 2147483647')
    if n != kappa.shape[0]:
        raise ValueError('heat_grad_jit needs u.shape[0] == kappa.shape[0]')
    if m != kappa.shape[1]:
        raise ValueError('heat_grad_jit needs u.shape[1] == kappa.shape[1]')
    if n < 2:
        raise ValueError('heat_grad_jit needs u.shape[0] >= 2')
    if m < 2:
        raise ValueError('heat_grad_jit needs u.shape[1] >= 2')

    # forward
    u_saved = cp.empty((np.maximum(steps, 0), n - 2, m - 2))
    u_updated = cp.copy(u)  # the argument is kept as it is
    for t in range(steps):
        u_after = cp.empty((n, m))
        heat_grad_kernel(tiles(n, m), (32, 8), kappa, u_saved, u_updated, t, u_after, n, m)
        u_updated = u_after

    # reverse
    u_flat = u_updated.reshape(-1)
    u_bar = cp.empty(u_flat.size)
    heat_grad_kernel_2(blocks(u_flat.size), 256, u_flat, u_bar, u_flat.size)
    u_bar = u_bar.reshape(n, m)
    kappa_bar = cp.zeros_like(kappa)
    for t in range(steps - 1, -1, -1):
        heat_grad_kernel_3(tiles(n - 2, m - 2), (32, 8), u_saved, u_updated, t, n, m)
        u_before_bar = cp.empty((n, m))
        heat_grad_kernel_4(tiles(n, m), (32, 8), kappa, u_bar, u_before_bar, n, m)
        heat_grad_kernel_5(tiles(n - 2, m - 2), (32, 8), u_updated, u_bar, kappa_bar, n, m)
        u_bar = u_before_bar
    return u_bar, kappa_bar


code = r"""
extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel(
    const double* __restrict__ kappa, double* __restrict__ u_saved,
    const double* __restrict__ u_updated, Index t, double* __restrict__ u_after, Index n, Index m)
{
    // forward
    double inner_sum;
    for (Index j = blockIdx.x * 32 + threadIdx.x; j < m; j += gridDim.x * 32) {
        for (Index i = blockIdx.y * 8 + threadIdx.y; i < n; i += gridDim.y * 8) {
            if (i >= 1 && i < n - 1 && j >= 1 && j < m - 1) {
                // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                //     * inner
                double u_updated_sum = u_updated[(i - 1) * m + j] + u_updated[(i + 1) * m + j];
                // inner = u[1:-1, 1:-1]
                double inner = u_updated[i * m + j];
                // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                //     * inner
                double change = u_updated_sum + u_updated[i * m + j - 1] + u_updated[i * m + j + 1]
                    - 4.0 * inner;
                // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                inner_sum = inner + kappa[i * m + j] * change;
                u_saved[(t * (n - 2) + i - 1) * (m - 2) + j - 1] = inner;
            }
            else {
                // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                inner_sum = u_updated[i * m + j];
            }
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            u_after[i * m + j] = inner_sum;
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_2(
    const double* __restrict__ u_flat, double* __restrict__ u_bar, Index u_flat_size)
{
    // reverse
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < u_flat_size; i += (Index)gridDim.x * 256) {
        // return np.sum(u * u)
        u_bar[i] = 2.0 * u_flat[i];
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_3(
    const double* __restrict__ u_saved, double* __restrict__ u_updated, Index t, Index n, Index m)
{
    // reverse
    for (Index j = blockIdx.x * 32 + threadIdx.x; j < m - 2; j += gridDim.x * 32) {
        #pragma unroll 4
        for (Index i = blockIdx.y * 8 + threadIdx.y; i < n - 2; i += (Index)gridDim.y * 8) {
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            u_updated[(i + 1) * m + j + 1] = u_saved[(t * (n - 2) + i) * (m - 2) + j];
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_4(
    const double* __restrict__ kappa, const double* __restrict__ u_bar,
    double* __restrict__ u_before_bar, Index n, Index m)
{
    // reverse
    double u_bar_ij;
    double u_bar_more;
    for (Index j = blockIdx.x * 32 + threadIdx.x; j < m; j += gridDim.x * 32) {
        for (Index i = blockIdx.y * 8 + threadIdx.y; i < n; i += gridDim.y * 8) {
            if (i >= 1 && i < n - 1 && j >= 1 && j < m - 1)
                u_bar_ij = 0.0;
            else {
                // the sums of several statements
                u_bar_ij = u_bar[i * m + j];
            }
            if (i >= 1 && i < n - 1 && j >= 2) {
                // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                double inner_bar = u_bar[i * m + j - 1];
                // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                //     * inner
                u_bar_more = inner_bar * kappa[i * m + j - 1];
            }
            else
                u_bar_more = 0.0;
            if (i >= 1 && i < n - 1 && j < m - 2) {
                // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                double inner_bar = u_bar[i * m + j + 1];
                // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                //     * inner
                u_bar_more += inner_bar * kappa[i * m + j + 1];
            }
            if (i >= 2 && j >= 1 && j < m - 1) {
                // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                double inner_bar = u_bar[(i - 1) * m + j];
                // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                //     * inner
                u_bar_more += inner_bar * kappa[(i - 1) * m + j];
            }
            if (i < n - 2 && j >= 1 && j < m - 1) {
                // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                double inner_bar = u_bar[(i + 1) * m + j];
                // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                //     * inner
                u_bar_more += inner_bar * kappa[(i + 1) * m + j];
            }
            if (i >= 1 && i < n - 1 && j >= 1 && j < m - 1) {
                // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                double inner_bar = u_bar[i * m + j];
                // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                //     * inner
                u_bar_more += inner_bar + inner_bar * kappa[i * m + j] * -4.0;
            }
            // the sums of several statements
            u_before_bar[i * m + j] = u_bar_ij + u_bar_more;
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_5(
    const double* __restrict__ u_updated, const double* __restrict__ u_bar,
    double* __restrict__ kappa_bar, Index n, Index m)
{
    // reverse
    for (Index j = blockIdx.x * 32 + threadIdx.x; j < m - 2; j += gridDim.x * 32) {
        #pragma unroll 4
        for (Index i = blockIdx.y * 8 + threadIdx.y; i < n - 2; i += (Index)gridDim.y * 8) {
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            double inner = u_updated[(i + 1) * m + j + 1];
            double u_updated_sum = u_updated[i * m + j + 1] + u_updated[(i + 2) * m + j + 1];
            double change = u_updated_sum + u_updated[(i + 1) * m + j]
                + u_updated[(i + 1) * m + j + 2] - 4.0 * inner;
            double inner_bar = u_bar[(i + 1) * m + j + 1];
            kappa_bar[(i + 1) * m + j + 1] += inner_bar * change;
        }
    }
}
"""

heat_grad_kernel = kernel(code, "heat_grad_kernel")
heat_grad_kernel_2 = kernel(code, "heat_grad_kernel_2")
heat_grad_kernel_3 = kernel(code, "heat_grad_kernel_3")
heat_grad_kernel_4 = kernel(code, "heat_grad_kernel_4")
heat_grad_kernel_5 = kernel(code, "heat_grad_kernel_5")
