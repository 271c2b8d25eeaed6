"""Code generation: from Core to NumPy source that people read, and to the kernels of ``jit``.

In comes a Core function; out comes a module's source. Read ``numpy/emit``, which has the stages;
``outline`` puts loops into kernels; ``text`` has the parts that all targets share; ``numba`` and
``cuda`` write a kernel's statements; ``launcher`` writes kernels and their calls, with the
interfaces of ``kernel_interfaces``, and writes equal kernels (``kernel_forms``) once.
"""
