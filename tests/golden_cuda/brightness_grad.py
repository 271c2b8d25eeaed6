"""Kernels of the gradient of brightness with respect to phases.

From tests/cuda_programs.py, line 88. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:brightness --transform "jit(grad(f))" --stage cuda --args "f8[n], c16[n]"
Types: phases float64[n], field complex128[n].
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel, parts_of


def brightness_grad_jit(phases, field):
    n = phases.size
    if n != field.shape[0]:
        raise ValueError('brightness_grad_jit needs phases.shape[0] == field.shape[0]')

    # forward
    wave_bar_product = cp.empty(n, dtype=np.complex128)
    total_of_blocks = parts_of(blocks(n), 'complex128')
    brightness_grad_kernel(blocks(n), 256, phases, field, total_of_blocks, n)
    total = cp.empty((), 'complex128')
    sum_of_parts_complex128(1, 256, total_of_blocks, total, total_of_blocks.size)

    # forward and reverse
    wave_bar = cp.empty((), 'complex128')
    brightness_grad_kernel_2(1, 1, total, wave_bar)

    # reverse
    brightness_grad_kernel_3(blocks(n), 256, phases, field, wave_bar_product, wave_bar, n)
    phases_bar = wave_bar_product.real
    return phases_bar


code = r"""
#define INF __int_as_float(0x7f800000)
#define NaN __int_as_float(0x7fc00000)

template <class T>
struct __align__(2 * sizeof(T)) Complex {  // a real number is one, too
    T real, imag;
    Complex() = default;
    __device__ Complex(T real, T imag = 0) : real(real), imag(imag) {}
};
typedef Complex<double> complex128;

__device__ __forceinline__ complex128 operator*(complex128 a, complex128 b)
{
    return complex128(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real);
}

__device__ __forceinline__ complex128 operator+(complex128 a, complex128 b)
{
    return complex128(a.real + b.real, a.imag + b.imag);
}

__device__ __forceinline__ void operator+=(complex128& a, complex128 b)
{
    a = a + b;
}

__device__ __forceinline__ complex128 operator/(complex128 a, complex128 b)  // Smith's, as in NumPy
{
    if (fabs(b.real) >= fabs(b.imag)) {
        if (b.real == 0 && b.imag == 0)
            return complex128(a.real / fabs(b.real), a.imag / fabs(b.real));
        double ratio = b.imag / b.real, scale = 1 / (b.real + b.imag * ratio);
        return complex128((a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale);
    }
    double ratio = b.real / b.imag, scale = 1 / (b.imag + b.real * ratio);
    return complex128((a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale);
}

__device__ __forceinline__ double abs(complex128 z)
{
    return hypot(z.real, z.imag);
}

__device__ complex128 block_sumz(complex128 value)  // of a block's 256 threads, in the first
{
    __shared__ complex128 values[256];
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    __syncthreads();  // an earlier call may still be read
    values[thread] = value;
    for (int step = 128; step > 0; step /= 2) {
        __syncthreads();
        if (thread < step) {
            complex128 other = values[thread + step];
            value = value + other;
            values[thread] = value;
        }
    }
    return value;
}

__device__ __forceinline__ complex128 conj(complex128 z)
{
    return complex128(z.real, -z.imag);
}

__device__ complex128 exp(complex128 z)
{
    double x = z.real, y = z.imag;
    if (y == 0)
        return complex128(exp(x), y);
    if (!isfinite(y) && x == -INF)
        return complex128(0, copysign((double)0, y));
    if (!isfinite(y))
        return complex128(x == INF ? x : NaN, NaN);
    double size = exp(x > 709 ? x / 2 : x), again = x > 709 ? size : 1, sine, cosine;
    sincos(y, &sine, &cosine);
    return complex128(size * cosine * again, size * sine * again);
}

extern "C" __global__ __launch_bounds__(256)
void brightness_grad_kernel(
    const double* __restrict__ phases, const complex128* __restrict__ field,
    complex128* __restrict__ total_of_blocks, Index n)
{
    // forward
    complex128 total = 0.0;
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < n; i += (Index)gridDim.x * 256) {
        // wave = field * np.exp(1j * phases)
        complex128 wave = field[i] * exp(complex128(0.0, 1.0) * phases[i]);
        // return np.abs(np.sum(wave)) ** 2
        total += wave;
    }
    total = block_sumz(total);
    if (threadIdx.x == 0)
        total_of_blocks[blockIdx.x] = total;
}

extern "C" __global__ __launch_bounds__(1)
void brightness_grad_kernel_2(
    const complex128* __restrict__ total, complex128* __restrict__ wave_bar_out)
{
    // forward
    double abs_sum_wave = abs(total[0]);

    // reverse
    // return np.abs(np.sum(wave)) ** 2
    complex128 total_quotient = conj(total[0]) / (abs_sum_wave == 0.0 ? INF : abs_sum_wave);
    complex128 wave_bar = 2.0 * abs_sum_wave * total_quotient;
    wave_bar_out[0] = wave_bar;
}

extern "C" __global__ __launch_bounds__(256)
void brightness_grad_kernel_3(
    const double* __restrict__ phases, const complex128* __restrict__ field,
    complex128* __restrict__ wave_bar_product, const complex128* __restrict__ wave_bar, Index n)
{
    // reverse
    #pragma unroll 4
    for (Index i = blockIdx.x * 256 + threadIdx.x; i < n; i += (Index)gridDim.x * 256) {
        // wave = field * np.exp(1j * phases)
        wave_bar_product[i] = wave_bar[0] * field[i] * exp(complex128(0.0, 1.0) * phases[i])
            * complex128(0.0, 1.0);
    }
}

extern "C" __global__ __launch_bounds__(256)
void sum_of_parts_complex128(
    const complex128* __restrict__ parts, complex128* __restrict__ total, Index size)
{
    complex128 value = 0;
    for (Index k = threadIdx.x; k < size; k += 256) {
        complex128 other = parts[k];
        value = value + other;
    }
    value = block_sumz(value);
    if (threadIdx.x == 0)
        total[0] = value;
}
"""

brightness_grad_kernel = kernel(code, "brightness_grad_kernel")
brightness_grad_kernel_2 = kernel(code, "brightness_grad_kernel_2")
brightness_grad_kernel_3 = kernel(code, "brightness_grad_kernel_3")
sum_of_parts_complex128 = kernel(code, "sum_of_parts_complex128")
