"""Kernels of newton_root for a batch of arguments.

From tests/cuda_programs.py, line 82. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:newton_root --transform "jit(vmap(f))" --stage cuda --args "c16[n]"
Types: z complex128[n].
"""
import cupy as cp
import numpy as np
from calque.runtime.cuda import blocks, kernel


def newton_root_vmap_jit(z):
    n = z.size
    z_after = cp.empty(n, dtype=np.complex128)
    newton_root_vmap_kernel(blocks(n), 256, z, z_after, n)
    return z_after


code = r"""
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

__device__ __forceinline__ complex128 operator-(complex128 a, complex128 b)
{
    return complex128(a.real - b.real, a.imag - b.imag);
}

__device__ __forceinline__ void operator-=(complex128& a, complex128 b)
{
    a = a - b;
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

__device__ complex128 whole_power(complex128 z, int n)  // by squares
{
    if (z.real == 0 && z.imag == 0 && n != 0)
        return n > 0 ? complex128(0) : complex128(NaN, NaN);
    if (n == 1 || n == 2 || n == 3)
        return n == 1 ? z : n == 2 ? z * z : z * (z * z);
    complex128 product = 1, square = z;
    for (int rest = abs(n); rest > 0; rest /= 2) {
        product = rest % 2 ? product * square : product;
        square = rest > 1 ? square * square : square;
    }
    return n < 0 ? 1 / product : product;
}

extern "C" __global__ __launch_bounds__(256)
void newton_root_vmap_kernel(
    const complex128* __restrict__ z, complex128* __restrict__ z_after, Index n)
{
    for (Index lane = blockIdx.x * 256 + threadIdx.x; lane < n; lane += gridDim.x * 256) {
        complex128 z_lane = z[lane];
        while (abs(whole_power(z_lane, 3) - 1.0) > 1e-12)
            z_lane -= (whole_power(z_lane, 3) - 1.0) / (3.0 * (z_lane * z_lane));
        z_after[lane] = z_lane;
    }
}
"""

newton_root_vmap_kernel = kernel(code, "newton_root_vmap_kernel")
