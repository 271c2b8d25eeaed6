"""Kernels of the gradient of heat with respect to u, kappa.

From tests/cuda_programs.py, line 33. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:heat --transform "jit(grad(f, argnums=(0, 1)))" --stage cuda --args "f8[n,m], f8[n,m], int"
Types: u float64[n, m], kappa float64[n, m], steps int.
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel, row_blocks, row_threads, tiles


def heat_grad_jit(u, kappa, steps):
    n, m = u.shape
    if not -2147483647 <= steps <= 2147483647:
        raise ValueError('heat_grad_jit needs -2147483647 <= steps <= 2147483647')
    if kappa.shape[0] != n:
        raise ValueError('heat_grad_jit needs kappa.shape[0] == u.shape[0]')
    if kappa.shape[1] != m:
        raise ValueError('heat_grad_jit needs kappa.shape[1] == u.shape[1]')
    if n < 2:
        raise ValueError('heat_grad_jit needs u.shape[0] >= 2')
    if m < 2:
        raise ValueError('heat_grad_jit needs u.shape[1] >= 2')
    if m < 4:
        raise ValueError('heat_grad_jit needs u.shape[1] >= 4')

    # forward
    u_saved = cp.empty((np.maximum(steps, 0), n - 2, m - 2))
    u = cp.copy(u)  # the argument is kept as it is
    u_saved_now = cp.copy(u_saved)
    for t in range(steps):
        inner_sum = cp.empty((n - 2, m - 2))
        heat_grad_kernel(tiles(n - 2, m - 2), (32, 8), u, kappa, u_saved_now, t, inner_sum, n, m)
        heat_grad_kernel_2(tiles(n - 2, m - 2), (32, 8), u, inner_sum, n, m)

    # reverse
    u_flat = u.reshape(-1)
    u_bar = cp.empty(u_flat.size)
    heat_grad_kernel_3(blocks(u_flat.size), 256, u_flat, u_bar, u_flat.size)
    u_bar = u_bar.reshape(n, m)
    kappa_bar = cp.zeros_like(kappa)
    for t in range(steps - 1, -1, -1):
        heat_grad_kernel_4(tiles(n - 2, m - 2), (32, 8), u, u_saved_now, t, n, m)
        u_bar_part = cp.copy(u_bar[1:-1, 1:-1])
        heat_grad_kernel_5(
            row_blocks(n - 2, m - 2), row_threads(m - 2), kappa, u_bar, u_bar_part, n, m
        )
        heat_grad_kernel_6(blocks(n), 256, kappa, u_bar, u_bar_part, n, m)
        heat_grad_kernel_7(tiles(n - 2, m - 2), (32, 8), u, kappa_bar, u_bar_part, n, m)
    return u_bar, kappa_bar


code = r"""
__device__ __forceinline__ void row_wait()  // of a row's threads, a warp or a block, for each other
{
    if (blockDim.x == 32)
        __syncwarp();
    else
        __syncthreads();
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel(
    const double* __restrict__ u, const double* __restrict__ kappa,
    double* __restrict__ u_saved_now, Index t, double* __restrict__ inner_sum, Index n, Index m)
{
    // forward
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n - 2; i += gridDim.y * 8) {
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < m - 2; j += gridDim.x * 32) {
            // inner = u[1:-1, 1:-1]
            double inner = u[(i + 1) * m + j + 1];
            // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 *
            //     inner
            double change = u[i * m + j + 1] + u[(i + 2) * m + j + 1] + u[(i + 1) * m + j]
                + u[(i + 1) * m + j + 2] - 4.0 * inner;
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            inner_sum[i * (m - 2) + j] = inner + kappa[(i + 1) * m + j + 1] * change;
            u_saved_now[(t * (n - 2) + i) * (m - 2) + j] = inner;
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_2(
    double* __restrict__ u, const double* __restrict__ inner_sum, Index n, Index m)
{
    // forward
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n - 2; i += gridDim.y * 8) {
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < m - 2; j += gridDim.x * 32) {
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            u[(i + 1) * m + j + 1] = inner_sum[i * (m - 2) + j];
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_3(
    const double* __restrict__ u_flat, double* __restrict__ u_bar, Index u_flat_size)
{
    // reverse
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < u_flat_size; i += gridDim.x * 256) {
        // return np.sum(u * u)
        u_bar[i] = 2.0 * u_flat[i];
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_4(
    double* __restrict__ u, const double* __restrict__ u_saved_now, Index t, Index n, Index m)
{
    // reverse
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n - 2; i += gridDim.y * 8) {
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < m - 2; j += gridDim.x * 32) {
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            u[(i + 1) * m + j + 1] = u_saved_now[(t * (n - 2) + i) * (m - 2) + j];
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_5(
    const double* __restrict__ kappa, double* __restrict__ u_bar,
    const double* __restrict__ u_bar_part, Index n, Index m)
{
    // reverse
    double inner_bar;
    for (Index i = blockIdx.x * blockDim.y + threadIdx.y; i < n - 2; i += gridDim.x * blockDim.y) {
        for (Index j = threadIdx.x; j < m - 2; j += blockDim.x) {
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            u_bar[(i + 1) * m + j + 1] = 0.0;
        }
        row_wait();
        for (Index j = 2 + threadIdx.x; j < m - 2; j += blockDim.x) {
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            inner_bar = u_bar_part[i * (m - 2) + j - 2];
            double inner_bar_ij = u_bar_part[i * (m - 2) + j];
            // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 *
            //     inner
            double inner_bar_ij_times_kappa = inner_bar_ij * kappa[(i + 1) * m + j + 1];
            u_bar[(i + 1) * m + j] += inner_bar * kappa[(i + 1) * m + j - 1]
                + inner_bar_ij_times_kappa;
        }
        // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
        inner_bar = u_bar_part[i * (m - 2)];
        row_wait();
        // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
        if (threadIdx.x == 0)
            u_bar[(i + 1) * m] += inner_bar * kappa[(i + 1) * m + 1];
        // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
        inner_bar = u_bar_part[i * (m - 2) + 1];
        row_wait();
        // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
        if (threadIdx.x == 0)
            u_bar[(i + 1) * m + 1] += inner_bar * kappa[(i + 1) * m + 2];
        // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
        inner_bar = u_bar_part[i * (m - 2) + m - 4];
        row_wait();
        // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
        if (threadIdx.x == 0)
            u_bar[(i + 1) * m + m - 2] += inner_bar * kappa[(i + 1) * m + m - 3];
        // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
        inner_bar = u_bar_part[i * (m - 2) + m - 3];
        row_wait();
        // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
        if (threadIdx.x == 0)
            u_bar[(i + 1) * m + m - 1] += inner_bar * kappa[(i + 1) * m + m - 2];
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_6(
    const double* __restrict__ kappa, double* __restrict__ u_bar,
    const double* __restrict__ u_bar_part, Index n, Index m)
{
    // reverse
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        if (i >= 2 && i < n - 2) {
            for (Index j = 1; j < m - 1; j++) {
                // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                double inner_bar = u_bar_part[(i - 2) * (m - 2) + j - 1];
                double inner_bar_ij = u_bar_part[i * (m - 2) + j - 1];
                double inner_bar_now = u_bar_part[(i - 1) * (m - 2) + j - 1];
                // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0
                //     * inner
                double inner_bar_now_sum = inner_bar_now + inner_bar_now * kappa[i * m + j] * -4.0;
                // the sums of several statements
                double inner_bar_sum = inner_bar * kappa[(i - 1) * m + j] + inner_bar_ij
                    * kappa[(i + 1) * m + j];
                u_bar[i * m + j] += inner_bar_sum + inner_bar_now_sum;
            }
        }
        else {
            if (i >= 2) {
                for (Index j = 1; j < m - 1; j++) {
                    // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                    double inner_bar = u_bar_part[(i - 2) * (m - 2) + j - 1];
                    // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] -
                    //     4.0 * inner
                    u_bar[i * m + j] += inner_bar * kappa[(i - 1) * m + j];
                }
            }
            if (i < n - 2) {
                for (Index j = 1; j < m - 1; j++) {
                    // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                    double inner_bar = u_bar_part[i * (m - 2) + j - 1];
                    // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] -
                    //     4.0 * inner
                    u_bar[i * m + j] += inner_bar * kappa[(i + 1) * m + j];
                }
            }
            if (i >= 1 && i < n - 1) {
                for (Index j = 1; j < m - 1; j++) {
                    // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
                    double inner_bar = u_bar_part[(i - 1) * (m - 2) + j - 1];
                    // inner = u[1:-1, 1:-1]
                    u_bar[i * m + j] += inner_bar + inner_bar * kappa[i * m + j] * -4.0;
                }
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_grad_kernel_7(
    const double* __restrict__ u, double* __restrict__ kappa_bar,
    const double* __restrict__ u_bar_part, Index n, Index m)
{
    // reverse
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n - 2; i += gridDim.y * 8) {
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < m - 2; j += gridDim.x * 32) {
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            double inner = u[(i + 1) * m + j + 1];
            double change = u[i * m + j + 1] + u[(i + 2) * m + j + 1] + u[(i + 1) * m + j]
                + u[(i + 1) * m + j + 2] - 4.0 * inner;
            double inner_bar = u_bar_part[i * (m - 2) + j];
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
heat_grad_kernel_6 = kernel(code, "heat_grad_kernel_6")
heat_grad_kernel_7 = kernel(code, "heat_grad_kernel_7")
