"""The decorator that compiles the kernels of saved modules, whose loops run on one thread."""

from numba import njit

vrange = range  # of a loop whose iterations may run side by side


def kernel(function=None, parallel=False, boundscheck=False, reassociate=True):
    """Numba's decorator: NumPy's division by zero, no lock of Python's, sums in any order."""
    options = {"error_model": "numpy", "nogil": True, "boundscheck": boundscheck}
    compiled = njit(fastmath={"contract", "reassoc"} if reassociate else False, **options)
    return compiled(function) if function else compiled


# a function that kernels alone call, within each of them
kernel_part = kernel
