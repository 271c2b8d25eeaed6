"""Core to text: NumPy source that people read, and the kernels of ``jit``.

In comes a Core function; out comes a module's source. Read ``numpy/emit``, which knows the stages;
``text`` has what all targets share, ``numba`` how a kernel's statements are written, and
``launcher`` takes loops out into kernels, with the arguments of
``kernel_interfaces``.
"""
