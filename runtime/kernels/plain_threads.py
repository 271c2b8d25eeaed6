"""The decorators that compile the kernels of saved modules, some of whose loops run on threads."""

import os

import numpy as np
from numba import njit

# elements of an array from which a kernel runs on threads
LARGE = 1 << 17
PROCESS = os.getpid()  # threads do not outlive a fork: in the child, OpenMP ends the program
vrange = range  # of a loop whose iterations may run side by side


def kernel(function=None, parallel="auto", boundscheck=False, reassociate=True):
    """Numba's decorator: NumPy's division by zero, no lock of Python's, sums in any order.

    Loops over ``prange`` run on threads if ``parallel``, and if "auto" where an array is large.
    """
    if function is None:
        given = {"parallel": parallel, "boundscheck": boundscheck, "reassociate": reassociate}
        return lambda function: kernel(function, **given)
    options = {"error_model": "numpy", "nogil": True, "boundscheck": boundscheck}
    options["fastmath"] = {"contract", "reassoc"} if reassociate else False
    serial = njit(**options)(function)
    called = [function.__globals__.get(name) for name in function.__code__.co_names]
    texts = [function, *(c.py_func for c in called if hasattr(c, "py_func"))]
    looped = any("prange" in text.__code__.co_names for text in texts)
    if boundscheck or parallel not in ("auto", True) or not looped:
        return serial
    threads = njit(parallel={"prange": True}, **options)(function)
    least = 0 if parallel is True else LARGE

    def launch(*args):
        large = any(isinstance(a, np.ndarray) and a.size >= least for a in args)
        return (threads if large and os.getpid() == PROCESS else serial)(*args)

    return launch


# a function that kernels alone call: its loops are theirs
kernel_part = njit(inline="always", error_model="numpy", nogil=True)
