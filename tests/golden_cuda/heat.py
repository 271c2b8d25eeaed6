"""Kernels of heat.

From tests/cuda_programs.py, line 33. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:heat --transform "jit(f)" --stage cuda --args "f8[n,m], f8[n,m], int"
Types: u float64[n, m], kappa float64[n, m], steps int.
"""
import cupy as cp
from calque.runtime.cuda import blocks, kernel, parts_of, tiles


def heat_jit(u, kappa, steps):
    n, m = u.shape
    if n != kappa.shape[0]:
        raise ValueError('heat_jit needs u.shape[0] == kappa.shape[0]')
    if m != kappa.shape[1]:
        raise ValueError('heat_jit needs u.shape[1] == kappa.shape[1]')
    if n < 2:
        raise ValueError('heat_jit needs u.shape[0] >= 2')
    if m < 2:
        raise ValueError('heat_jit needs u.shape[1] >= 2')
    u_updated = u
    for t in range(steps):
        u_after = u if t == steps - 1 and u_updated is not u else cp.empty((n, m))
        heat_kernel(tiles(n, m), (32, 8), kappa, u_updated, u_after, n, m)
        u_updated = u_after
    u_flat = u_updated.reshape(-1)
    total_of_blocks = parts_of(blocks(u_flat.size), 'float64')
    heat_kernel_2(blocks(u_flat.size), 256, u_flat, total_of_blocks, u_flat.size)
    total = cp.empty((), 'float64')
    sum_of_parts_float64(1, 256, total_of_blocks, total, total_of_blocks.size)
    if u_updated is not u:
        u[...] = u_updated
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
    const double* __restrict__ kappa, const double* __restrict__ u_updated,
    double* __restrict__ u_after, Index n, Index m)
{
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
void heat_kernel_2(
    const double* __restrict__ u_flat, double* __restrict__ total_of_blocks, Index u_flat_size)
{
    double total = 0.0;
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < u_flat_size; i += (Index)gridDim.x * 256) {
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
sum_of_parts_float64 = kernel(code, "sum_of_parts_float64")
