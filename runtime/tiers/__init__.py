"""Two tiers of one function: the NumPy text answers at once, kernels as soon as they are compiled.

In comes a call of ``jit(f, first="numpy")``; out come its result, and work for another process,
which is given text and types. Read ``numpy_first``, then ``compiling_process`` and what runs there,
``compiling_child``.
"""
