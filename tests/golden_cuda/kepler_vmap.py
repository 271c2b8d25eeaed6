"""Kernels of kepler for a batch of arguments.

From tests/cuda_programs.py, line 26. Written by calque 0.1.0; regenerate with
    calque show tests/cuda_programs.py:kepler --transform "jit(vmap(f))" --stage cuda --args "f8[n], f8[n]"
Types: mean float64[n], eccentricity float64[n].
"""
import cupy as cp
from calque.runtime.cuda import blocks, kernel


def kepler_vmap_jit(mean, eccentricity):
    n = mean.size
    if n != eccentricity.shape[0]:
        raise ValueError('kepler_vmap_jit needs mean.shape[0] == eccentricity.shape[0]')
    e = cp.empty(n)
    kepler_vmap_kernel(blocks(n), 256, mean, eccentricity, e, n)
    return e


code = r"""
extern "C" __global__ __launch_bounds__(256)
void kepler_vmap_kernel(
    const double* __restrict__ mean, const double* __restrict__ eccentricity,
    double* __restrict__ e, Index n)
{
    for (Index lane = blockIdx.x * 256 + threadIdx.x; lane < n; lane += gridDim.x * 256) {
        double mean_lane = mean[lane];
        double eccentricity_lane = eccentricity[lane];
        double e_lane = mean_lane;
        while (fabs(e_lane - eccentricity_lane * sin(e_lane) - mean_lane) > 1e-12) {
            double e_numerator = e_lane - eccentricity_lane * sin(e_lane) - mean_lane;
            e_lane -= e_numerator / (1.0 - eccentricity_lane * cos(e_lane));
        }
        e[lane] = e_lane;
    }
}
"""

kepler_vmap_kernel = kernel(code, "kepler_vmap_kernel")
