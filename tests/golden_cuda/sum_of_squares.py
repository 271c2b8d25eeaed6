"""Kernels of sum_of_squares.

From tests/cuda_programs.py, line 18. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:sum_of_squares --transform "jit(f)" --stage cuda --args "f4[n,m]"
Types: x float32[n, m].
"""
import cupy as cp
from calque.runtime.cuda import kernel, parts_of, row_blocks


def sum_of_squares_jit(x):
    n, m = x.shape
    total_of_blocks = parts_of(row_blocks(n), 'float64')
    sum_of_squares_kernel(row_blocks(n), (32, 8), x, total_of_blocks, n, m)
    total = cp.empty((), 'float64')
    sum_of_parts_float64(1, 256, total_of_blocks, total, total_of_blocks.size)
    total_cast = cp.empty((), 'float32')
    sum_of_squares_kernel_2(1, 1, total, total_cast)
    return total_cast


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

__device__ __forceinline__ double warp_sum(double value)  // of a warp's threads, the same in all
{
    for (int step = 16; step > 0; step /= 2) {
        double other = __shfl_xor_sync(0xffffffff, value, step);
        value = value + other;
    }
    return value;
}

extern "C" __global__ __launch_bounds__(256)
void sum_of_squares_kernel(
    const float* __restrict__ x, double* __restrict__ total_of_blocks, Index n, Index m)
{
    double total = 0.0;
    for (Index i = blockIdx.x * 8 + threadIdx.y; i < n; i += gridDim.x * 8) {
        total = threadIdx.x == 0 ? total : 0.0;
        for (Index j = threadIdx.x; j < m; j += 32) {
            // return np.sum(x * x)
            float x_ij = x[i * m + j];
            total += (double)(x_ij * x_ij);
        }
        total = warp_sum(total);
    }
    total = block_sum(threadIdx.x == 0 ? total : 0.0);
    if (threadIdx.x == 0 && threadIdx.y == 0)
        total_of_blocks[blockIdx.x] = total;
}

extern "C" __global__ __launch_bounds__(1)
void sum_of_squares_kernel_2(const double* __restrict__ total, float* __restrict__ total_cast_out)
{
    float total_cast = (float)total[0];
    total_cast_out[0] = total_cast;
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

sum_of_squares_kernel = kernel(code, "sum_of_squares_kernel")
sum_of_squares_kernel_2 = kernel(code, "sum_of_squares_kernel_2")
sum_of_parts_float64 = kernel(code, "sum_of_parts_float64")
