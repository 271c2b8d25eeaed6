"""Kernels of heat.

From tests/cuda_programs.py, line 33. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:heat --transform "jit(f)" --stage cuda --args "f8[n,m], f8[n,m], int"
Types: u float64[n, m], kappa float64[n, m], steps int.
"""
import cupy as cp
from calque.runtime.cuda import blocks, kernel, parts_of, tiles


def heat_jit(u, kappa, steps):
    n, m = u.shape
    if kappa.shape[0] != n:
        raise ValueError('heat_jit needs kappa.shape[0] == u.shape[0]')
    if kappa.shape[1] != m:
        raise ValueError('heat_jit needs kappa.shape[1] == u.shape[1]')
    if n < 2:
        raise ValueError('heat_jit needs u.shape[0] >= 2')
    if m < 2:
        raise ValueError('heat_jit needs u.shape[1] >= 2')
    u_now = u
    for t in range(steps):
        inner_sum = cp.empty((n - 2, m - 2))
        heat_kernel(tiles(n - 2, m - 2), (32, 8), kappa, u_now, inner_sum, n, m)
        heat_kernel_2(tiles(n - 2, m - 2), (32, 8), u_now, inner_sum, n, m)
    u_flat = u_now.reshape(-1)
    total_of_blocks = parts_of(blocks(u_flat.size), 'float64')
    heat_kernel_3(blocks(u_flat.size), 256, u_flat, total_of_blocks, u_flat.size)
    total = cp.empty((), 'float64')
    sum_of_parts_float64(1, 256, total_of_blocks, total, total_of_blocks.size)
    return total


code = r"""
__device__ double block_sum(double value)  // of a block's 256 threads, in the first
{
    __shared__ double values[256];
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();  // an earlier call may still be read
    values[thread] = value;
    for (int step = 128; step > 0; step /= 2) {
        __syncthreads();
        if (thread < step) {
            double other = values[thread + step];
            value = value + other;
            values[thread] = value;
        }
    }
    return value;
}

extern "C" __global__ __launch_bounds__(256)
void heat_kernel(
    const double* __restrict__ kappa, const double* __restrict__ u_now,
    double* __restrict__ inner_sum, Index n, Index m)
{
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n - 2; i += gridDim.y * 8) {
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < m - 2; j += gridDim.x * 32) {
            // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 *
            //     inner
            double u_now_sum = u_now[i * m + j + 1] + u_now[(i + 2) * m + j + 1]
                + u_now[(i + 1) * m + j];
            // inner = u[1:-1, 1:-1]
            double inner = u_now[(i + 1) * m + j + 1];
            // change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 *
            //     inner
            double change = u_now_sum + u_now[(i + 1) * m + j + 2] - 4.0 * inner;
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            inner_sum[i * (m - 2) + j] = inner + kappa[(i + 1) * m + j + 1] * change;
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_kernel_2(
    double* __restrict__ u_now, const double* __restrict__ inner_sum, Index n, Index m)
{
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n - 2; i += gridDim.y * 8) {
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < m - 2; j += gridDim.x * 32) {
            // u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
            u_now[(i + 1) * m + j + 1] = inner_sum[i * (m - 2) + j];
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void heat_kernel_3(
    const double* __restrict__ u_flat, double* __restrict__ total_of_blocks, Index u_flat_size)
{
    double total = 0.0;
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < u_flat_size; i += gridDim.x * 256) {
        // return np.sum(u * u)
        double u_flat_i = u_flat[i];
        total += u_flat_i * u_flat_i;
    }
    total = block_sum(total);
    if (threadIdx.x == 0)
        total_of_blocks[blockIdx.x] = total;
}

extern "C" __global__ __launch_bounds__(256)
void sum_of_parts_float64(const double* __restrict__ parts, double* __restrict__ total, Index size)
{
    double value = 0;
    for (Index k = threadIdx.x; k < size; k += 256) {
        double other = parts[k];
        value = value + other;
    }
    value = block_sum(value);
    if (threadIdx.x == 0)
        total[0] = value;
}
"""

heat_kernel = kernel(code, "heat_kernel")
heat_kernel_2 = kernel(code, "heat_kernel_2")
heat_kernel_3 = kernel(code, "heat_kernel_3")
sum_of_parts_float64 = kernel(code, "sum_of_parts_float64")
