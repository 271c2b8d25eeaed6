"""What kernels for Numba can hold, and how it is written there.

In come statements of loops over scalars; out goes their text, or that they stay outside. Read
``numba_target``, which passes and printers ask; ``scalar_text`` spells operations on numbers,
``called_functions`` says what kernels call and where that is defined, ``whole_array_calls`` has
NumPy's functions that Numba compiles, ``unboxing``, ``shape_preconditions`` and ``donation`` what a
launcher does for its kernels.
"""
