"""Kernels of running_shares.

From tests/cuda_programs.py, line 58. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:running_shares --transform "jit(f)" --stage cuda --args "f4[n,m]"
Types: x float32[n, m].
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import kernel, row_blocks, row_threads


def running_shares_jit(x):
    n, m = x.shape
    if m < 1:
        raise ValueError('running_shares_jit needs x.shape[1] >= 1')
    out = cp.empty((n, m), dtype=np.float32)
    total = cp.empty((n, m), dtype=np.float32)
    running_shares_kernel(row_blocks(n, m), row_threads(m), x, out, total, n, m)
    return out


code = r"""
__device__ float row_lastf(float value)  // that of the last of a row's threads
{
    if (blockDim.x == 32)
        return __shfl_sync(0xffffffff, value, 31);
    __shared__ float last[1];
    __syncthreads();  // an earlier call may still be read
    if (threadIdx.x == 255)
        last[0] = value;
    __syncthreads();
    return last[0];
}

// of a row's threads up to each, after what was before
__device__ float row_running_sumf(float before, float value)
{
    for (int step = 1; step < 32; step *= 2) {
        float other = __shfl_up_sync(0xffffffff, value, step);
        if (threadIdx.x % 32 >= step)
            value = value + other;
    }
    if (blockDim.x > 32) {
        __shared__ float values[8];
        __syncthreads();  // an earlier call may still be read
        if (threadIdx.x % 32 == 31)
            values[threadIdx.x / 32] = value;
        __syncthreads();
        for (int warp = 0; warp < threadIdx.x / 32; warp++) {
            float other = values[warp];
            before = before + other;
        }
    }
    float other = before;
    return value + other;
}

__device__ __forceinline__ void row_wait()  // of a row's threads, a warp or a block, for each other
{
    if (blockDim.x == 32)
        __syncwarp();
    else
        __syncthreads();
}

extern "C" __global__ __launch_bounds__(256)
void running_shares_kernel(
    const float* __restrict__ x, float* __restrict__ out, float* __restrict__ total, Index n,
    Index m)
{
    for (Index i = blockIdx.x * blockDim.y + threadIdx.y; i < n; i += gridDim.x * blockDim.y) {
        float total_ij = 0.0f;
        for (Index tile = 0; tile < m; tile += blockDim.x) {
            Index j = tile + threadIdx.x;
            float total_ij_term = 0.0f;
            if (j < m) {
                // total = np.cumsum(np.exp(x), axis=1)
                total_ij_term = expf(x[i * m + j]);
            }
            total_ij = row_running_sumf(total_ij, total_ij_term);
            if (j < m)
                total[i * m + j] = total_ij;
            total_ij = row_lastf(total_ij);
        }
        row_wait();
        // return total / total[:, -1:]
        float total_element = total[i * m + m - 1];
        #pragma unroll 4
        for (Index j = threadIdx.x; j < m; j += (Index)blockDim.x) {
            // return total / total[:, -1:]
            out[i * m + j] = total[i * m + j] / total_element;
        }
    }
}
"""

running_shares_kernel = kernel(code, "running_shares_kernel")
