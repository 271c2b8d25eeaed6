"""Kernels of distances.

From tests/cuda_programs.py, line 63. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:distances --transform "jit(f)" --stage cuda --args "f8[n]"
Types: steps float64[n].
"""
import cupy as cp
from calque.runtime.cuda import kernel, row_blocks, row_threads


def distances_jit(steps):
    n = steps.size
    out = cp.empty(n)
    parts = max(min(n // 2048, 8192), 1)
    place_of_parts = cp.empty(parts)
    distances_kernel(row_blocks(parts, 1), row_threads(1), steps, parts, place_of_parts, n)
    distances_kernel_2(row_blocks(parts, 1), row_threads(1), steps, out, parts, place_of_parts, n)
    return out


code = r"""
__device__ __forceinline__ long long floor_divide(long long a, long long b)  // as in Python; 0 by 0
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (long long)(0ULL - (unsigned long long)a);
    long long quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

__device__ double row_last(double value)  // that of the last of a row's threads
{
    if (blockDim.x == 32)
        return __shfl_sync(0xffffffff, value, 31);
    __shared__ double last[1];
    __syncthreads();  // an earlier call may still be read
    if (threadIdx.x == 255)
        last[0] = value;
    __syncthreads();
    return last[0];
}

// of a row's threads up to each, after what was before
__device__ double row_running_sum(double before, double value)
{
    for (int step = 1; step < 32; step *= 2) {
        double other = __shfl_up_sync(0xffffffff, value, step);
        if (threadIdx.x % 32 >= step)
            value = value + other;
    }
    if (blockDim.x > 32) {
        __shared__ double values[8];
        __syncthreads();  // an earlier call may still be read
        if (threadIdx.x % 32 == 31)
            values[threadIdx.x / 32] = value;
        __syncthreads();
        for (int warp = 0; warp < threadIdx.x / 32; warp++) {
            double other = values[warp];
            before = before + other;
        }
    }
    double other = before;
    return value + other;
}

__device__ double row_sum(double value)  // of a row's threads, a warp or a block; the same in all
{
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
void distances_kernel(
    const double* __restrict__ steps, Index parts, double* __restrict__ place_of_parts, Index n)
{
    for (Index part = blockIdx.x * blockDim.y + threadIdx.y; part < parts; part += gridDim.x
        * blockDim.y) {
        // for i in range(steps.size):
        long long first = floor_divide((long long)part * n, parts);
        long long last = floor_divide((long long)(part + 1) * n, parts);
        double place_of_part = 0.0;
        #pragma unroll 4
        for (long long i = first + threadIdx.x; i < last; i += (Index)blockDim.x)
            place_of_part += steps[i];
        place_of_part = row_sum(place_of_part);
        if (threadIdx.x == 0)
            place_of_parts[part] = place_of_part;
    }
}

extern "C" __global__ __launch_bounds__(256)
void distances_kernel_2(
    const double* __restrict__ steps, double* __restrict__ out, Index parts,
    const double* __restrict__ place_of_parts, Index n)
{
    for (Index part = blockIdx.x * blockDim.y + threadIdx.y; part < parts; part += gridDim.x
        * blockDim.y) {
        double place_so_far = 0.0;
        #pragma unroll 4
        for (Index k = threadIdx.x; k < part; k += (Index)blockDim.x) {
            // place += steps[i]
            place_so_far += place_of_parts[k];
        }
        place_so_far = row_sum(place_so_far);
        // for i in range(steps.size):
        long long first = floor_divide((long long)part * n, parts);
        long long last = floor_divide((long long)(part + 1) * n, parts);
        for (long long tile = first; tile < last; tile += blockDim.x) {
            long long i = tile + threadIdx.x;
            double place_so_far_term = 0.0;
            if (i < last)
                place_so_far_term = steps[i];
            place_so_far = row_running_sum(place_so_far, place_so_far_term);
            if (i < last)
                out[i] = fabs(place_so_far);
            place_so_far = row_last(place_so_far);
        }
    }
}
"""

distances_kernel = kernel(code, "distances_kernel")
distances_kernel_2 = kernel(code, "distances_kernel_2")
