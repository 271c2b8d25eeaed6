"""Kernels of running_share.

From tests/cuda_programs.py, line 53. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:running_share --transform "jit(f)" --stage cuda --args "f8[n]"
Types: x float64[n].
"""
import cupy as cp
from calque.runtime.cuda import blocks, kernel, row_blocks, row_threads


def running_share_jit(x):
    n = x.size
    if n < 1:
        raise ValueError('running_share_jit needs x.shape[0] >= 1')
    total = cp.empty(n)
    parts = max(min(n // 2048, 8192), 1)
    total_of_parts = cp.empty(parts)
    out = cp.empty(n)
    running_share_kernel(row_blocks(parts, 32), row_threads(32), x, parts, total_of_parts, n)
    running_share_kernel_2(
        row_blocks(parts, 32), row_threads(32), x, total, parts, total_of_parts, n
    )
    total_last = cp.empty((), 'float64')
    running_share_kernel_3(1, 1, total, total_last, n)
    running_share_kernel_4(blocks(n), 256, total, out, total_last, n)
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

// of sixteen values of each of a row's threads, of which ``left`` count; all get the last one
__device__ double row_running_sums(double before, double* values, long long left)
{
    double last = values[0];
    #pragma unroll
    for (int slot = 0; slot < 16; slot++) {
        if (slot > 0 && threadIdx.x / 32 * 512 + slot * 32 >= left)
            continue;
        double value = values[slot];
        for (int step = 1; step < 32; step *= 2) {
            double other = __shfl_up_sync(0xffffffff, value, step);
            if (threadIdx.x % 32 >= step)
                value = value + other;
        }
        if (slot > 0) {
            double other = __shfl_sync(0xffffffff, last, 31);
            value = value + other;
        }
        values[slot] = last = value;
    }
    last = __shfl_sync(0xffffffff, last, 31);
    double value = before;
    if (blockDim.x > 32) {
        __shared__ double lasts[8];
        __syncthreads();  // an earlier call may still be read
        if (threadIdx.x % 32 == 31)
            lasts[threadIdx.x / 32] = last;
        __syncthreads();
        for (int warp = 0; warp < 8; warp++) {
            double other = lasts[warp];
            if (warp == threadIdx.x / 32)
                before = value;
            value = value + other;
        }
    }
    else {
        double other = last;
        value = value + other;
    }
    #pragma unroll
    for (int slot = 0; slot < 16; slot++) {
        double other = values[slot];
        values[slot] = before + other;
    }
    return value;
}

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
void running_share_kernel(
    const double* __restrict__ x, Index parts, double* __restrict__ total_of_parts, Index n)
{
    for (Index part = blockIdx.x * blockDim.y + threadIdx.y; part < parts; part += gridDim.x
        * blockDim.y) {
        // total = np.cumsum(x * x)
        long long first = floor_divide((long long)part * n, parts);
        long long last = floor_divide((long long)(part + 1) * n, parts);
        double total_of_part = 0.0;
        #pragma unroll 4
        for (long long i = first + threadIdx.x; i < last; i += (Index)blockDim.x) {
            // total = np.cumsum(x * x)
            double x_i = x[i];
            total_of_part += x_i * x_i;
        }
        total_of_part = row_sum(total_of_part);
        if (threadIdx.x == 0)
            total_of_parts[part] = total_of_part;
    }
}

extern "C" __global__ __launch_bounds__(256)
void running_share_kernel_2(
    const double* __restrict__ x, double* __restrict__ total, Index parts,
    const double* __restrict__ total_of_parts, Index n)
{
    for (Index part = blockIdx.x * blockDim.y + threadIdx.y; part < parts; part += gridDim.x
        * blockDim.y) {
        double total_i = 0.0;
        #pragma unroll 4
        for (Index k = threadIdx.x; k < part; k += (Index)blockDim.x) {
            // total = np.cumsum(x * x)
            total_i += total_of_parts[k];
        }
        total_i = row_sum(total_i);
        long long first = floor_divide((long long)part * n, parts);
        long long last = floor_divide((long long)(part + 1) * n, parts);
        for (long long tile = first; tile < last; tile += blockDim.x * 16) {
            double total_i_terms[16];
            #pragma unroll 16
            for (Index slot = 0; slot < 16; slot++) {
                long long i = tile + threadIdx.x / 32 * 512 + slot * 32 + threadIdx.x % 32;
                total_i_terms[slot] = 0.0;
                if (i < last) {
                    // total = np.cumsum(x * x)
                    double x_i = x[i];
                    total_i_terms[slot] = x_i * x_i;
                }
            }
            double total_i_of_tile = row_running_sums(total_i, total_i_terms, last - tile);
            #pragma unroll 16
            for (Index slot = 0; slot < 16; slot++) {
                long long i = tile + threadIdx.x / 32 * 512 + slot * 32 + threadIdx.x % 32;
                if (i < last) {
                    total_i = total_i_terms[slot];
                    total[i] = total_i;
                }
            }
            total_i = total_i_of_tile;
        }
    }
}

extern "C" __global__ __launch_bounds__(1)
void running_share_kernel_3(
    const double* __restrict__ total, double* __restrict__ total_last_out, Index n)
{
    double total_last = total[n - 1];
    total_last_out[0] = total_last;
}

extern "C" __global__ __launch_bounds__(256)
void running_share_kernel_4(
    const double* __restrict__ total, double* __restrict__ out,
    const double* __restrict__ total_last, Index n)
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
running_share_kernel_4 = kernel(code, "running_share_kernel_4")
