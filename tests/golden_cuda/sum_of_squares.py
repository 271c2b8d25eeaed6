"""Kernels of sum_of_squares.

From tests/cuda_programs.py, line 18. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:sum_of_squares --transform "jit(f)" --stage cuda --args "f4[n,m]"
Types: x float32[n, m].
"""
import cupy as cp
from calque.runtime.cuda import blocks, kernel, parts_of


def sum_of_squares_jit(x):
    x_flat = x.reshape(-1)
    total_of_blocks = parts_of(blocks(x_flat.size), 'float64')
    sum_of_squares_kernel(blocks(x_flat.size), 256, x_flat, total_of_blocks, x_flat.size)
    total_cast = cp.empty((), 'float32')
    sum_of_parts_float64_to_float32(1, 256, total_of_blocks, total_cast, total_of_blocks.size)
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

extern "C" __global__ __launch_bounds__(256)
void sum_of_squares_kernel(
    const float* __restrict__ x_flat, double* __restrict__ total_of_blocks, Index x_flat_size)
{
    double total = 0.0;
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < x_flat_size; i += (Index)gridDim.x * 256) {
        // return np.sum(x * x)
        float x_flat_i = x_flat[i];
        total += (double)(x_flat_i * x_flat_i);
    }
    total = block_sum(total);
    if (threadIdx.x == 0)
        total_of_blocks[blockIdx.x] = total;
}

extern "C" __global__ __launch_bounds__(256)
void sum_of_parts_float64_to_float32(
    const double* __restrict__ parts, float* __restrict__ total, Index size)
{
    double value = 0;
    for (Index k = threadIdx.x; k < size; k += 256) {
        double other = parts[k];
        value = value + other;
    }
    value = block_sum(value);
    if (threadIdx.x == 0)
        total[0] = (float)value;
}
"""

sum_of_squares_kernel = kernel(code, "sum_of_squares_kernel")
sum_of_parts_float64_to_float32 = kernel(code, "sum_of_parts_float64_to_float32")
