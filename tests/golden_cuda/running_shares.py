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
    running_shares_kernel(row_blocks(n, max(m, 16)), row_threads(max(m, 16)), x, out, total, n, m)
    return out


code = r"""
// of sixteen values of each of a row's threads, of which ``left`` count; all get the last one
__device__ float row_running_sumsf(float before, float* values, long long left)
{
    float last = values[0];
    #pragma unroll
    for (int slot = 0; slot < 16; slot++) {
        if (slot > 0 && threadIdx.x / 32 * 512 + slot * 32 >= left)
            continue;
        float value = values[slot];
        for (int step = 1; step < 32; step *= 2) {
            float other = __shfl_up_sync(0xffffffff, value, step);
            if (threadIdx.x % 32 >= step)
                value = value + other;
        }
        if (slot > 0) {
            float other = __shfl_sync(0xffffffff, last, 31);
            value = value + other;
        }
        values[slot] = last = value;
    }
    last = __shfl_sync(0xffffffff, last, 31);
    float value = before;
    if (blockDim.x > 32) {
        __shared__ float lasts[8];
        __syncthreads();  // an earlier call may still be read
        if (threadIdx.x % 32 == 31)
            lasts[threadIdx.x / 32] = last;
        __syncthreads();
        for (int warp = 0; warp < 8; warp++) {
            float other = lasts[warp];
            if (warp == threadIdx.x / 32)
                before = value;
            value = value + other;
        }
    }
    else {
        float other = last;
        value = value + other;
    }
    #pragma unroll
    for (int slot = 0; slot < 16; slot++) {
        float other = values[slot];
        values[slot] = before + other;
    }
    return value;
}

__device__ __forceinline__ void row_wait()  // of a row's threads, a warp or a block, for each other
{
    if (blockDim.x == 32)
        __syncwarp();
    else if (blockDim.x > 32)
        __syncthreads();
}

extern "C" __global__ __launch_bounds__(256)
void running_shares_kernel(
    const float* __restrict__ x, float* __restrict__ out, float* __restrict__ total, Index n,
    Index m)
{
    for (Index i = blockIdx.x * blockDim.y + threadIdx.y; i < n; i += gridDim.x * blockDim.y) {
        float total_ij = 0.0f;
        for (Index tile = 0; tile < m; tile += blockDim.x * 16) {
            float total_ij_terms[16];
            #pragma unroll 16
            for (Index slot = 0; slot < 16; slot++) {
                Index j = tile + threadIdx.x / 32 * 512 + slot * 32 + threadIdx.x % 32;
                total_ij_terms[slot] = 0.0f;
                if (j < m) {
                    // total = np.cumsum(np.exp(x), axis=1)
                    total_ij_terms[slot] = expf(x[i * m + j]);
                }
            }
            float total_ij_of_tile = row_running_sumsf(total_ij, total_ij_terms, m - tile);
            #pragma unroll 16
            for (Index slot = 0; slot < 16; slot++) {
                Index j = tile + threadIdx.x / 32 * 512 + slot * 32 + threadIdx.x % 32;
                if (j < m) {
                    total_ij = total_ij_terms[slot];
                    total[i * m + j] = total_ij;
                }
            }
            total_ij = total_ij_of_tile;
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
