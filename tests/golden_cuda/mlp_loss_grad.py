"""Kernels of the gradient of mlp_loss with respect to W_0, b_0, W_1, b_1.

From tests/cuda_programs.py, line 47. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:mlp_loss --transform "jit(grad(f, argnums=(0, 1, 2, 3)))" --stage cuda --args "f4[d,h], f4[h], f4[h,c], f4[c], f4[n,d], f4[n,c]"
Types: W_0 float32[d, h], b_0 float32[h], W_1 float32[h, c], b_1 float32[c], x float32[n, d], y
    float32[n, c].
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel, tiles


def mlp_loss_grad_jit(W_0, b_0, W_1, b_1, x, y):
    d, h = W_0.shape
    c = W_1.shape[1]
    n = x.shape[0]
    if b_0.shape[0] != h:
        raise ValueError('mlp_loss_grad_jit needs b_0.shape[0] == W_0.shape[1]')
    if W_1.shape[0] != h:
        raise ValueError('mlp_loss_grad_jit needs W_1.shape[0] == W_0.shape[1]')
    if b_1.shape[0] != c:
        raise ValueError('mlp_loss_grad_jit needs b_1.shape[0] == W_1.shape[1]')
    if x.shape[1] != d:
        raise ValueError('mlp_loss_grad_jit needs x.shape[1] == W_0.shape[0]')
    if y.shape[0] != n:
        raise ValueError('mlp_loss_grad_jit needs y.shape[0] == x.shape[0]')
    if y.shape[1] != c:
        raise ValueError('mlp_loss_grad_jit needs y.shape[1] == W_1.shape[1]')

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
    mlp_loss_grad_kernel_3(blocks(c), 256, error, b_1_bar, y_product, c, n)
    flat_hidden_product = (hidden.T @ error).reshape(-1)
    W_1_bar = cp.empty(flat_hidden_product.size, dtype=np.float32)
    flat_error_product = (error @ W_1.T).reshape(-1)
    hidden_bar_product = cp.empty(flat_error_product.size, dtype=np.float32)
    b_0_bar = cp.empty(h, dtype=np.float32)
    mlp_loss_grad_kernel_4(
        blocks(flat_hidden_product.size), 256, y_product, flat_hidden_product, W_1_bar,
        flat_hidden_product.size,
    )
    W_1_bar = W_1_bar.reshape(h, c)
    hidden_flat = hidden.reshape(-1)
    mlp_loss_grad_kernel_5(
        blocks(flat_error_product.size), 256, y_product, flat_error_product, hidden_bar_product,
        hidden_flat, flat_error_product.size,
    )
    hidden_bar_product_reshaped = hidden_bar_product.reshape(n, h)
    mlp_loss_grad_kernel_6(blocks(h), 256, b_0_bar, hidden_bar_product_reshaped, h, n)
    W_0_bar = x.T @ hidden_bar_product_reshaped
    return W_0_bar, b_0_bar, W_1_bar, b_1_bar


code = r"""
extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel(
    const float* __restrict__ b_0, const float* __restrict__ x_dot_W_0, float* __restrict__ hidden,
    Index h, Index n)
{
    // forward
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n; i += gridDim.y * 8) {
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < h; j += gridDim.x * 32) {
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
    for (Index i = blockIdx.y * 8 + threadIdx.y; i < n; i += gridDim.y * 8) {
        for (Index j = blockIdx.x * 32 + threadIdx.x; j < c; j += gridDim.x * 32) {
            // error = hidden @ W_1 + b_1 - y
            error[i * c + j] = hidden_dot_W_1[i * c + j] + b_1[j] - y[i * c + j];
        }
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_3(
    const float* __restrict__ error, float* __restrict__ b_1_bar, double y_product, Index c,
    Index n)
{
    // reverse
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < c; i += gridDim.x * 256) {
        double b_1_bar_now = 0.0;
        for (Index j = 0; j < n; j++) {
            // return np.mean(error * error)
            float error_bar = (float)y_product * error[j * c + i];
            // error = hidden @ W_1 + b_1 - y
            b_1_bar_now += (double)error_bar;
        }
        // error = hidden @ W_1 + b_1 - y
        b_1_bar[i] = (float)b_1_bar_now;
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_4(
    double y_product, const float* __restrict__ flat_hidden_product, float* __restrict__ W_1_bar,
    Index flat_hidden_product_size)
{
    // reverse
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < flat_hidden_product_size; i += gridDim.x
        * 256) {
        // error = hidden @ W_1 + b_1 - y
        W_1_bar[i] = (float)y_product * flat_hidden_product[i];
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_5(
    double y_product, const float* __restrict__ flat_error_product,
    float* __restrict__ hidden_bar_product, const float* __restrict__ hidden_flat,
    Index flat_error_product_size)
{
    // reverse
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < flat_error_product_size; i += gridDim.x
        * 256) {
        // error = hidden @ W_1 + b_1 - y
        float hidden_bar = (float)y_product * flat_error_product[i];
        // hidden = np.tanh(x @ W_0 + b_0)
        float hidden_flat_i = hidden_flat[i];
        hidden_bar_product[i] = hidden_bar * (1.0f - hidden_flat_i * hidden_flat_i);
    }
}

extern "C" __global__ __launch_bounds__(256)
void mlp_loss_grad_kernel_6(
    float* __restrict__ b_0_bar, const float* __restrict__ hidden_bar_product_reshaped, Index h,
    Index n)
{
    // reverse
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < h; i += gridDim.x * 256) {
        double b_0_bar_now = 0.0;
        for (Index j = 0; j < n; j++) {
            // hidden = np.tanh(x @ W_0 + b_0)
            b_0_bar_now += (double)hidden_bar_product_reshaped[j * h + i];
        }
        // hidden = np.tanh(x @ W_0 + b_0)
        b_0_bar[i] = (float)b_0_bar_now;
    }
}
"""

mlp_loss_grad_kernel = kernel(code, "mlp_loss_grad_kernel")
mlp_loss_grad_kernel_2 = kernel(code, "mlp_loss_grad_kernel_2")
mlp_loss_grad_kernel_3 = kernel(code, "mlp_loss_grad_kernel_3")
mlp_loss_grad_kernel_4 = kernel(code, "mlp_loss_grad_kernel_4")
mlp_loss_grad_kernel_5 = kernel(code, "mlp_loss_grad_kernel_5")
mlp_loss_grad_kernel_6 = kernel(code, "mlp_loss_grad_kernel_6")
