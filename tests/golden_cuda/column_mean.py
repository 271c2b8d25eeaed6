"""Kernels of column_mean.

From tests/cuda_programs.py, line 22. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:column_mean --transform "jit(f)" --stage cuda --args "f8[n,m]"
Types: x float64[n, m].
"""
import cupy as cp
from calque.runtime.cuda import kernel, row_blocks, row_threads, tiles


def column_mean_jit(x):
    n, m = x.shape
    out = cp.empty(m)
    parts = max(min(n // 64, 1048576 // max(m, 1)), 1)
    total_of_parts = cp.empty((m, parts))
    column_mean_kernel(tiles(parts, m), (32, 8), x, parts, total_of_parts, n, m)
    column_mean_kernel_2(
        row_blocks(m, parts), row_threads(parts), out, parts, total_of_parts, n, m
    )
    return out


code = r"""
__device__ double row_sum(double value)  // of a row's threads (1, 32 or 256); the same in all
{
    if (blockDim.x == 1)
        return value;
    for (int step = 16; step > 0; step /= 2) {
        double other = __shfl_xor_sync(0xffffffff, value, step);
        value = value + other;
    }
    if (blockDim.x == 32)
        return value;
    __shared__ double values[8];
    __syncthreads();  // an earlier call may still be read
    if (threadIdx.x % 32 == 0)
        values[threadIdx.x / 32] = value;
    __syncthreads();
    value = values[0];
    for (int warp = 1; warp < 8; warp++) {
        double other = values[warp];
        value = value + other;
    }
    return value;
}

extern "C" __global__ __launch_bounds__(256)
void column_mean_kernel(
    const double* __restrict__ x, Index parts, double* __restrict__ total_of_parts, Index n,
    Index m)
{
    for (Index part = blockIdx.y * 8 + threadIdx.y; part < parts; part += gridDim.y * 8) {
        for (Index i = blockIdx.x * 32 + threadIdx.x; i < m; i += gridDim.x * 32) {
            double total_of_part = 0.0;
            #pragma unroll 4
            for (Index j = part; j < n; j += parts) {
                // return np.mean(x, axis=0)
                total_of_part += x[j * m + i];
            }
            total_of_parts[i * parts + part] = total_of_part;
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void column_mean_kernel_2(
    double* __restrict__ out, Index parts, const double* __restrict__ total_of_parts, Index n,
    Index m)
{
    for (Index i = blockIdx.x * blockDim.y + threadIdx.y; i < m; i += gridDim.x * blockDim.y) {
        double total = 0.0;
        #pragma unroll 4
        for (Index k = threadIdx.x; k < parts; k += (Index)blockDim.x) {
            // return np.mean(x, axis=0)
            total += total_of_parts[i * parts + k];
        }
        total = row_sum(total);
        if (threadIdx.x == 0)
            out[i] = total / n;
    }
}
"""

column_mean_kernel = kernel(code, "column_mean_kernel")
column_mean_kernel_2 = kernel(code, "column_mean_kernel_2")
