"""Core to text: NumPy source that people read, and the kernels of ``jit``.

In comes a Core function; out comes a module's source. Read ``numpy/emit``, which knows the stages;
``outline`` puts loops into kernels; ``text`` has what all targets share, ``numba`` how a kernel's
statements are written, and ``launcher`` writes kernels and their calls, with what
``kernel_interfaces`` says of their variables, each of the ``kernel_forms`` once.
"""
