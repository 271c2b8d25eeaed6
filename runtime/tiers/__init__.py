"""Two tiers of one function: the NumPy text answers at once, kernels as soon as they are compiled.

In comes a call of ``jit(f, first="numpy")``, or of a kernel whose other version is not compiled
yet; out come its result, and work for another process, which is given text and types. Read
``numpy_first`` and ``versions_aside``, then ``compiling_process`` and ``compiling_child``, which
runs in that process.
"""
