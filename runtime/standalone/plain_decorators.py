"""The decorators that compile the kernels of saved modules."""

import os

import numpy as np
from numba import njit

# NumPy's division by zero, no lock of Python's, sums in any order
KERNEL = {"error_model": "numpy", "nogil": True, "fastmath": {"contract", "reassoc"}}
IN_ORDER = {"error_model": "numpy", "nogil": True, "fastmath": False}  # sums as they are written
# elements of an array from which a kernel runs on threads
LARGE = 1 << 17
PROCESS = os.getpid()  # threads do not outlive a fork: in the child, OpenMP ends the program


def on_threads(function, least=LARGE):
    """A kernel whose ``prange`` loops run on threads where an array has ``least`` elements."""
    serial = njit(**KERNEL)(function)
    threads = njit(parallel={"prange": True}, **KERNEL)(function)

    def launch(*args):
        large = any(isinstance(a, np.ndarray) and a.size >= least for a in args)
        return (threads if large and os.getpid() == PROCESS else serial)(*args)

    return launch


def always_on_threads(function):
    """A kernel whose ``prange`` loops run on threads."""
    return on_threads(function, 0)
