"""Kernels of distances.

From tests/cuda_programs.py, line 63. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:distances --transform "jit(f)" --stage cuda --args "f8[n]"
Types: steps float64[n].
"""
import cupy as cp
from calque.runtime.cuda import kernel


def distances_jit(steps):
    n = steps.size
    out = cp.zeros(n)
    distances_kernel(1, 256, steps, out, n)
    return out


code = r"""
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

extern "C" __global__ __launch_bounds__(256)
void distances_kernel(const double* __restrict__ steps, double* __restrict__ out, Index n)
{
    double place_now = 0.0;
    for (Index tile = 0; tile < n; tile += blockDim.x) {
        Index i = tile + threadIdx.x;
        double place_now_term = 0.0;
        if (i < n)
            place_now_term = steps[i];
        place_now = row_running_sum(place_now, place_now_term);
        if (i < n)
            out[i] = fabs(place_now);
        place_now = row_last(place_now);
    }
}
"""

distances_kernel = kernel(code, "distances_kernel")
