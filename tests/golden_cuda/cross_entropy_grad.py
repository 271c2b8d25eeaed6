"""Kernels of the gradient of cross_entropy with respect to logits.

From tests/cuda_programs.py, line 12. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:cross_entropy --transform "jit(grad(f))" --stage cuda --args "f4[n,k], f4[n,k]"
Types: logits float32[n, k], targets float32[n, k].
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import held_columns, kernel, row_blocks, row_threads


def cross_entropy_grad_jit(logits, targets):
    n, k = logits.shape
    if n != targets.shape[0]:
        raise ValueError('cross_entropy_grad_jit needs logits.shape[0] == targets.shape[0]')
    if k != targets.shape[1]:
        raise ValueError('cross_entropy_grad_jit needs logits.shape[1] == targets.shape[1]')
    if k < 1:
        raise ValueError('cross_entropy_grad_jit needs logits.shape[1] >= 1')

    # reverse
    sum_targets_product_bar = -1.0 / n

    # forward and reverse
    shifted_bar = cp.empty((n, k), dtype=np.float32)
    cross_entropy_grad_kernel(
        row_blocks(n, k, held=8), row_threads(k, held=8), logits, targets,
        sum_targets_product_bar, shifted_bar, n, k, held_columns(k, 8),
    )
    return shifted_bar


code = r"""
#define INF __int_as_float(0x7f800000)
#define NaN __int_as_float(0x7fc00000)

__device__ __forceinline__ float maximumf(float a, float b)  // NaN wins, as in NumPy
{
    return a > b || a != a ? a : b;
}

// sums relative to the largest so far and to x, as one relative to the larger of them
__device__ __forceinline__ double rescaled_sumf(double total, float largest, float x, double term)
{
    double scale = x == largest ? 1 : expf(-fabsf(x - largest));
    return x > largest ? total * scale + term : total + term * scale;
}

__device__ __forceinline__ double rescaledf(double total, float before, float largest)
{
    return before == largest ? total : total * expf(before - largest);
}

__device__ float row_maxf(float value)  // of a row's threads (1, 32 or 256); the same in all
{
    if (blockDim.x == 1)
        return value;
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, step);
        value = maximumf(value, other);
    }
    if (blockDim.x == 32)
        return value;
    __shared__ float values[8];
    __syncthreads();  // an earlier call may still be read
    if (threadIdx.x % 32 == 0)
        values[threadIdx.x / 32] = value;
    __syncthreads();
    value = values[0];
    for (int warp = 1; warp < 8; warp++) {
        float other = values[warp];
        value = maximumf(value, other);
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
void cross_entropy_grad_kernel(
    const float* __restrict__ logits, const float* __restrict__ targets,
    double sum_targets_product_bar, float* __restrict__ shifted_bar, Index n, Index k, Index held)
{
    extern __shared__ char row_memory[];  // held columns of each row
    float* logits_row = (float*)(row_memory + threadIdx.y * held * 8);
    float* targets_row = (float*)(logits_row + held);
    for (Index i = blockIdx.x * blockDim.y + threadIdx.y; i < n; i += gridDim.x * blockDim.y) {
        // forward
        float largest = -INF;
        double total = 0.0;
        #pragma unroll 4
        for (Index j = threadIdx.x; j < k; j += (Index)blockDim.x) {
            if (j < held)
                logits_row[j] = logits[i * k + j];
            // shifted = logits - stop_gradient(np.max(logits, axis=1, keepdims=True))
            float logits_ij = logits[i * k + j];
            // log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
            total = rescaled_sumf(total, largest, logits_ij, 1.0);
            // shifted = logits - stop_gradient(np.max(logits, axis=1, keepdims=True))
            largest = maximumf(largest, logits_ij);
        }
        float row_largest = row_maxf(largest);
        total = row_sum(rescaledf(total, largest, row_largest));
        largest = row_largest;
        // log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
        double total_i = isfinite(largest) ? total : NaN;

        // reverse
        double log_norm_bar = 0.0;
        #pragma unroll 4
        for (Index j = threadIdx.x; j < k; j += (Index)blockDim.x) {
            if (j < held)
                targets_row[j] = targets[i * k + j];
            // return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
            float shifted_bar_ij = (float)sum_targets_product_bar * targets[i * k + j];
            log_norm_bar += (double)(-shifted_bar_ij);
        }
        log_norm_bar = row_sum(log_norm_bar);
        // log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
        float sum_exp_shifted_bar = (float)log_norm_bar / (float)total_i;
        #pragma unroll 4
        for (Index j = threadIdx.x; j < k; j += (Index)blockDim.x) {
            // shifted = logits - stop_gradient(np.max(logits, axis=1, keepdims=True))
            float shifted = (j < held ? logits_row[j] : logits[i * k + j]) - largest;
            // return -np.mean(np.sum(targets * (shifted - log_norm), axis=1))
            float shifted_bar_ij = (float)sum_targets_product_bar
                * (j < held ? targets_row[j] : targets[i * k + j]);
            // log_norm = np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
            shifted_bar[i * k + j] = shifted_bar_ij + sum_exp_shifted_bar * expf(shifted);
        }
    }
}
"""

cross_entropy_grad_kernel = kernel(code, "cross_entropy_grad_kernel", held=8)
