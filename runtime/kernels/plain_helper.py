"""The decorator of the functions that the kernels of saved modules call."""

from numba import njit

# what kernels call: sums in the order that is written
helper = njit(error_model="numpy", fastmath=False, boundscheck=False)
