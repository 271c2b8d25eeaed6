"""Kernels of the gradient of mlp_loss with respect to W_0, b_0, W_1, b_1.

From tests/cuda_programs.py, line 47. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:mlp_loss --transform "jit(grad(f, argnums=(0, 1, 2, 3)))" --stage cuda --args "f4[d,h], f4[h], f4[h,c], f4[c], f4[n,d], f4[n,c]"
Types: W_0 float32[d, h], b_0 float32[h], W_1 float32[h, c], b_1 float32[c], x float32[n, d], y
    float32[n, c].
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel, row_blocks, row_threads, tiles


def mlp_loss_grad_jit(W_0, b_0, W_1, b_1, x, y):
    d, h = W_0.shape
    c = W_1.shape[1]
    n = x.shape[0]
    if h != b_0.shape[0]:
        raise ValueError('mlp_loss_grad_jit needs W_0.shape[1] == b_0.shape[0]')
    if h != W_1.shape[0]:
        raise ValueError('mlp_loss_grad_jit needs W_0.shape[1] == W_1.shape[0]')
    if c != b_1.shape[0]:
        raise ValueError('mlp_loss_grad_jit needs W_1.shape[1] == b_1.shape[0]')
    if d != x.shape[1]:
        raise ValueError('mlp_loss_grad_jit needs W_0.shape[0] == x.shape[1]')
    if n != y.shape[0]:
        raise ValueError('mlp_loss_grad_jit needs x.shape[0] == y.shape[0]')
    if c != y.shape[1]:
        raise ValueError('mlp_loss_grad_jit needs W_1.shape[1] == y.shape[1]')

    # forward
    x_dot_W_0 = x @ W_0
    hidden = cp.empty((n, h), dtype=np.float32)
    mlp_loss_grad_kernel(tiles(n, h), (32, 8), b_0, x_dot_W_0, hidden, h, n)
    hidden_dot_W_1 = hidden @ W_1
    error = cp.empty((n, c), dtype=np.float32)
    b_1_bar = cp.empty(c, dtype=np.float32)
    mlp_loss_grad_kernel_2(tiles(n, c), (32, 8), b_1, y, hidden_dot_W_1, error, c, n)

    # reverse
    y_product = 2.0 * (1.0 / y.size)
    parts = max(min(n // 64, 1048576 // max(c, 1)), 1)
    b_1_bar_of_parts = cp.empty((c, parts))
    mlp_loss_grad_kernel_3(
        tiles(parts, c), (32, 8), error, y_product, parts, b_1_bar_of_parts, c, n
    )
    mlp_loss_grad_kernel_4(
        row_blocks(c, parts), row_threads(parts), b_1_bar, parts, b_1_bar_of_parts, c
    )
    flat_hidden_product = (hidden.T @ error).reshape(-1)
    W_1_bar = cp.empty(flat_hidden_product.size, dtype=np.float32)
    flat_error_product = (error @ W_1.T).reshape(-1)
    hidden_pre_bar = cp.empty(flat_error_product.size, dtype=np.float32)
    b_0_bar = cp.empty(h, dtype=np.float32)
    mlp_loss_grad_kernel_5(
        blocks(flat_hidden_product.size), 256, y_product, flat_hidden_product, W_1_bar,
        flat_hidden_product.size,
    )
    W_1_bar = W_1_bar.reshape(h, c)
    hidden_flat = hidden.reshape(-1)
    mlp_loss_grad_kernel_6(
        blocks(flat_error_product.size), 256, y_product, flat_error_product, hidden_pre_bar,
        hidden_flat, flat_error_product.size,
    )
    hidden_pre_bar_reshaped = hidden_pre_bar.reshape(n, h)
    parts = max(min(n // 64, 1048576 // max(h, 1)), 1)
    b_0_bar_of_parts = cp.empty((h, parts))
    mlp_loss_grad_kernel_7(
        tiles(parts, h), (32, 8), parts, hidden_pre_bar_reshaped, b_0_bar_of_parts, h, n
    )
    mlp_loss_grad_kernel_8(
        row_blocks(h, parts), row_threads(parts), parts, b_0_bar, b_0_bar_of_parts, h
    )
    W_0_bar = x.T @ hidden_pre_bar_reshaped
    return W_0_bar, b_0_bar, W_1_bar, b_1_bar


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
void mlp_loss_grad_kernel(
    const float* __restrict__ b_0, const float* __restrict__ x_dot_W_0, float* __restrict__ hidden,
    Index h, Index n)
{
    // forward
    for (Index j = blockIdx.x * 32 + threadIdx.x; j < h; j += gridDim.x * 32) {
        #pragma unroll 4
        for (Index i = blockIdx.y * 8 + threadIdx.y; i < n; i += (Index)gridDim.y * 8) {
            // hidden = np.tanh(x @ W_0 + b_0)
            hidden[i * h + j] = tanhf(x_dot_W_0[i * h + j] + b_0[j]);
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_2(
    const float* __restrict__ b_1, const float* __restrict__ y,
    const float* __restrict__ hidden_dot_W_1, float* __restrict__ error, Index c, Index n)
{
    // forward
    for (Index j = blockIdx.x * 32 + threadIdx.x; j < c; j += gridDim.x * 32) {
        #pragma unroll 4
        for (Index i = blockIdx.y * 8 + threadIdx.y; i < n; i += (Index)gridDim.y * 8) {
            // error = hidden @ W_1 + b_1 - y
            error[i * c + j] = hidden_dot_W_1[i * c + j] + b_1[j] - y[i * c + j];
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_3(
    const float* __restrict__ error, double y_product, Index parts,
    double* __restrict__ b_1_bar_of_parts, Index c, Index n)
{
    // reverse
    for (Index part = blockIdx.y * 8 + threadIdx.y; part < parts; part += gridDim.y * 8) {
        for (Index i = blockIdx.x * 32 + threadIdx.x; i < c; i += gridDim.x * 32) {
            double b_1_bar_of_part = 0.0;
            #pragma unroll 4
            for (Index j = part; j < n; j += parts) {
                // return np.mean(error * error)
                float error_bar = (float)y_product * error[j * c + i];
                // error = hidden @ W_1 + b_1 - y
                b_1_bar_of_part += (double)error_bar;
            }
            b_1_bar_of_parts[i * parts + part] = b_1_bar_of_part;
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_4(
    float* __restrict__ b_1_bar, Index parts, const double* __restrict__ b_1_bar_of_parts, Index c)
{
    // reverse
    for (Index i = blockIdx.x * blockDim.y + threadIdx.y; i < c; i += gridDim.x * blockDim.y) {
        double b_1_bar_i = 0.0;
        #pragma unroll 4
        for (Index k = threadIdx.x; k < parts; k += (Index)blockDim.x) {
            // error = hidden @ W_1 + b_1 - y
            b_1_bar_i += b_1_bar_of_parts[i * parts + k];
        }
        b_1_bar_i = row_sum(b_1_bar_i);
        if (threadIdx.x == 0)
            b_1_bar[i] = (float)b_1_bar_i;
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_5(
    double y_product, const float* __restrict__ flat_hidden_product, float* __restrict__ W_1_bar,
    Index flat_hidden_product_size)
{
    // reverse
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < flat_hidden_product_size;
        i += (Index)gridDim.x * 256) {
        // error = hidden @ W_1 + b_1 - y
        W_1_bar[i] = (float)y_product * flat_hidden_product[i];
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_6(
    double y_product, const float* __restrict__ flat_error_product,
    float* __restrict__ hidden_pre_bar, const float* __restrict__ hidden_flat,
    Index flat_error_product_size)
{
    // reverse
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < flat_error_product_size;
        i += (Index)gridDim.x * 256) {
        // error = hidden @ W_1 + b_1 - y
        float hidden_bar = (float)y_product * flat_error_product[i];
        // hidden = np.tanh(x @ W_0 + b_0)
        float hidden_flat_i = hidden_flat[i];
        hidden_pre_bar[i] = hidden_bar * (1.0f - hidden_flat_i * hidden_flat_i);
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_7(
    Index parts, const float* __restrict__ hidden_pre_bar_reshaped,
    double* __restrict__ b_0_bar_of_parts, Index h, Index n)
{
    // reverse
    for (Index part = blockIdx.y * 8 + threadIdx.y; part < parts; part += gridDim.y * 8) {
        for (Index i = blockIdx.x * 32 + threadIdx.x; i < h; i += gridDim.x * 32) {
            double b_0_bar_of_part = 0.0;
            #pragma unroll 4
            for (Index j = part; j < n; j += parts) {
                // hidden = np.tanh(x @ W_0 + b_0)
                b_0_bar_of_part += (double)hidden_pre_bar_reshaped[j * h + i];
            }
            b_0_bar_of_parts[i * parts + part] = b_0_bar_of_part;
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_8(
    Index parts, float* __restrict__ b_0_bar, const double* __restrict__ b_0_bar_of_parts, Index h)
{
    // reverse
    for (Index i = blockIdx.x * blockDim.y + threadIdx.y; i < h; i += gridDim.x * blockDim.y) {
        double b_0_bar_i = 0.0;
        #pragma unroll 4
        for (Index k = threadIdx.x; k < parts; k += (Index)blockDim.x) {
            // hidden = np.tanh(x @ W_0 + b_0)
            b_0_bar_i += b_0_bar_of_parts[i * parts + k];
        }
        b_0_bar_i = row_sum(b_0_bar_i);
        if (threadIdx.x == 0)
            b_0_bar[i] = (float)b_0_bar_i;
    }
}
"""

mlp_loss_grad_kernel = kernel(code, "mlp_loss_grad_kernel")
mlp_loss_grad_kernel_2 = kernel(code, "mlp_loss_grad_kernel_2")
mlp_loss_grad_kernel_3 = kernel(code, "mlp_loss_grad_kernel_3")
mlp_loss_grad_kernel_4 = kernel(code, "mlp_loss_grad_kernel_4")
mlp_loss_grad_kernel_5 = kernel(code, "mlp_loss_grad_kernel_5")
mlp_loss_grad_kernel_6 = kernel(code, "mlp_loss_grad_kernel_6")
mlp_loss_grad_kernel_7 = kernel(code, "mlp_loss_grad_kernel_7")
mlp_loss_grad_kernel_8 = kernel(code, "mlp_loss_grad_kernel_8")
