"""CUDA C as a target: kernels as text that people read, and the CuPy module that launches them.

In comes a function of Core with its ``Kernel`` statements (``codegen/outline.py``); out goes the
text of a module. Read ``cuda_target`` (the operations that a kernel may hold, and their spelling),
``grid`` (the mapping of iterations to threads), ``c_text`` (trees as C), ``cuda_launcher`` (kernels
and launches), then ``cuda_module``.
"""
