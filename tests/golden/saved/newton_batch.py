"""Kernels of kepler for a batch of arguments.

From examples/newton_batch.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/newton_batch.py:kepler --transform "jit(vmap(f))" --args "f8[n], f8[n]"
Types: mean float64[n], eccentricity float64[n].
Kernels need Numba alone; they were tried with 0.61 to 0.68.
"""
import math

import numpy as np
from numba import njit

vrange = range  # of a loop whose iterations may run side by side


def kernel(function=None, parallel=False, boundscheck=False, reassociate=True):
    """Numba's decorator: NumPy's division by zero, no lock of Python's, sums in any order."""
    options = {"error_model": "numpy", "nogil": True, "boundscheck": boundscheck}
    compiled = njit(fastmath={"contract", "reassoc"} if reassociate else False, **options)
    return compiled(function) if function else compiled


@kernel
def kepler_vmap_kernel(mean, eccentricity, e):
    for start in range(0, mean.shape[0], 256):
        mean_chunk = mean[start:start + 256]
        eccentricity_chunk = eccentricity[start:start + 256]
        mean_chunk_above = np.empty(mean_chunk.shape[0], dtype=np.bool_)
        for i in vrange(mean_chunk.shape[0]):
            # e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity *
            #     np.cos(e))
            mean_chunk_i = mean_chunk[i]
            mean_chunk_difference = mean_chunk_i - eccentricity_chunk[i] * sin(mean_chunk_i)
            mean_chunk_above[i] = abs(mean_chunk_difference - mean_chunk_i) > 1e-12
        e_chunk = mean_chunk.copy()
        live = mean_chunk_above
        while True:
            found = False
            for i in range(mean_chunk.shape[0]):
                # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
                found |= live[i]
            if not found:
                break
            for i in vrange(mean_chunk.shape[0]):
                # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
                live_i = live[i]
                # e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity *
                #     np.cos(e))
                e_chunk_i = e_chunk[i]
                eccentricity_chunk_i = eccentricity_chunk[i]
                e_chunk_difference = e_chunk_i - eccentricity_chunk_i * sin(e_chunk_i)
                mean_chunk_i = mean_chunk[i]
                e_denominator = 1.0 - eccentricity_chunk_i * cos(e_chunk_i)
                e_after = e_chunk_i - (e_chunk_difference - mean_chunk_i) / e_denominator
                # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
                live_chosen = e_after if live_i else e_chunk_i
                # e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity *
                #     np.cos(e))
                live_difference = live_chosen - eccentricity_chunk_i * sin(live_chosen)
                # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
                e_chunk[i] = live_chosen
                live[i] = live_i & (abs(live_difference - mean_chunk_i) > 1e-12)
        for i in vrange(mean_chunk.shape[0]):
            e[i + start] = e_chunk[i]


def kepler_vmap_jit(mean, eccentricity):
    if mean.shape[0] != eccentricity.shape[0]:
        raise ValueError('kepler_vmap_jit needs mean.shape[0] == eccentricity.shape[0]')
    e = np.empty(mean.shape[0])
    kepler_vmap_kernel(mean, eccentricity, e)
    return e


# Elementary functions in plain Numba: polynomials that LLVM vectorizes, or the C library's.
#
# At most 4 ulp from the true value. Sines and powers need products to twice the digits, and bits of
# 2 / pi, so that each is a call of the C library.

# inlined by LLVM, where each instruction keeps its own flags: kernels may sum in any order, these
# may not
vector = njit(forceinline=True, fastmath=False, error_model="numpy", boundscheck=False)


@vector
def sin(x):
    """The sine."""
    return math.sin(x)


@vector
def cos(x):
    """The cosine."""
    return math.cos(x)
