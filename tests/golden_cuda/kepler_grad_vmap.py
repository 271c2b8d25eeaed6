"""Kernels of the gradient of kepler with respect to mean for a batch of arguments.

From tests/cuda_programs.py, line 26. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:kepler --transform "jit(vmap(grad(f)))" --stage cuda --args "f8[n], f8[n]"
Types: mean float64[n], eccentricity float64[n].
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel, parts_of


def kepler_grad_vmap_jit(mean, eccentricity):
    n = mean.size
    if n != eccentricity.shape[0]:
        raise ValueError('kepler_grad_vmap_jit needs mean.shape[0] == eccentricity.shape[0]')

    # forward and reverse
    mean_bar = cp.empty(n)
    counts_of_e_saved = cp.empty(n, dtype=np.int64)
    kepler_grad_vmap_kernel(blocks(n), 256, mean, eccentricity, counts_of_e_saved, n)
    largest_count_of_blocks = parts_of(blocks(n), 'int64')
    kepler_grad_vmap_kernel_2(blocks(n), 256, counts_of_e_saved, largest_count_of_blocks, n)
    largest_count = cp.empty((), 'int64')
    max_of_parts_int64(
        1, 256, largest_count_of_blocks, largest_count, largest_count_of_blocks.size
    )
    e_saved = cp.empty((int(largest_count), n))
    kepler_grad_vmap_kernel_3(blocks(n), 256, mean, eccentricity, mean_bar, e_saved, n)
    return mean_bar


code = r"""
__device__ __forceinline__ long long maximuml(long long a, long long b)  // NaN wins, as in NumPy
{
    return a > b || a != a ? a : b;
}

__device__ long long block_maxl(long long value)  // of a block's 256 threads, in the first
{
    __shared__ long long values[256];
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();  // an earlier call may still be read
    values[thread] = value;
    for (int step = 128; step > 0; step /= 2) {
        __syncthreads();
        if (thread < step) {
            long long other = values[thread + step];
            value = maximuml(value, other);
            values[thread] = value;
        }
    }
    return value;
}

extern "C" __global__ __launch_bounds__(256)
void kepler_grad_vmap_kernel(
    const double* __restrict__ mean, const double* __restrict__ eccentricity,
    long long* __restrict__ counts_of_e_saved, Index n)
{
    for (Index lane = blockIdx.x * 256 + threadIdx.x; lane < n; lane += gridDim.x * 256) {
        double mean_lane = mean[lane];
        double eccentricity_lane = eccentricity[lane];
        double e = mean_lane;
        long long iterations = 0;
        long long e_saved = 0;
        while (fabs(e - eccentricity_lane * sin(e) - mean_lane) > 1e-12) {
            e_saved = maximuml(e_saved, iterations + 1);
            e -= (e - eccentricity_lane * sin(e) - mean_lane) / (1.0 - eccentricity_lane * cos(e));
            iterations += 1;
        }
        counts_of_e_saved[lane] = e_saved;
    }
}

extern "C" __global__ __launch_bounds__(256)
void kepler_grad_vmap_kernel_2(
    const long long* __restrict__ counts_of_e_saved,
    long long* __restrict__ largest_count_of_blocks, Index n)
{
    long long largest_count = 0;
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < n; i += (Index)gridDim.x * 256)
        largest_count = maximuml(largest_count, counts_of_e_saved[i]);
    largest_count = block_maxl(largest_count);
    if (threadIdx.x == 0)
        largest_count_of_blocks[blockIdx.x] = largest_count;
}

extern "C" __global__ __launch_bounds__(256)
void kepler_grad_vmap_kernel_3(
    const double* __restrict__ mean, const double* __restrict__ eccentricity,
    double* __restrict__ mean_bar, double* __restrict__ e_saved, Index n)
{
    for (Index lane = blockIdx.x * 256 + threadIdx.x; lane < n; lane += gridDim.x * 256) {
        // forward
        double mean_lane = mean[lane];
        double eccentricity_lane = eccentricity[lane];
        double e = mean_lane;
        long long iterations = 0;
        while (fabs(e - eccentricity_lane * sin(e) - mean_lane) > 1e-12) {
            e_saved[iterations * n + lane] = e;
            e -= (e - eccentricity_lane * sin(e) - mean_lane) / (1.0 - eccentricity_lane * cos(e));
            iterations += 1;
        }

        // reverse
        // while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
        double e_bar = 1.0;
        double mean_lane_bar = 0.0;
        for (long long j = iterations - 1; j > -1; j--) {
            // e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity *
            //     np.cos(e))
            e = e_saved[j * n + lane];
            double cos_e = cos(e);
            double e_denominator = 1.0 - eccentricity_lane * cos_e;
            double sin_e = sin(e);
            double e_quotient = (e - eccentricity_lane * sin_e - mean_lane) / e_denominator;
            double e_bar_product = e_bar * (e_quotient / e_denominator) * eccentricity_lane;
            double e_bar_over_e_denominator = e_bar / e_denominator;
            mean_lane_bar += e_bar_over_e_denominator;
            e_bar = e_bar + e_bar_product * sin_e - e_bar / e_denominator;
            e_bar += e_bar_over_e_denominator * eccentricity_lane * cos_e;
        }
        mean_bar[lane] = mean_lane_bar + e_bar;
    }
}

extern "C" __global__ __launch_bounds__(256)
void max_of_parts_int64(
    const long long* __restrict__ parts, long long* __restrict__ total, Index size)
{
    long long value = parts[0];
    for (Index k = threadIdx.x; k < size; k += 256) {
        long long other = parts[k];
        value = maximuml(value, other);
    }
    value = block_maxl(value);
    if (threadIdx.x == 0)
        total[0] = value;
}
"""

kepler_grad_vmap_kernel = kernel(code, "kepler_grad_vmap_kernel")
kepler_grad_vmap_kernel_2 = kernel(code, "kepler_grad_vmap_kernel_2")
kepler_grad_vmap_kernel_3 = kernel(code, "kepler_grad_vmap_kernel_3")
max_of_parts_int64 = kernel(code, "max_of_parts_int64")
