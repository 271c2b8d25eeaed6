"""Numba as a target: the statements that its kernels can hold, and their text.

In come statements of loops over scalars; out goes their text, or the answer that a kernel cannot
hold them. Read ``numba_target``, which passes and printers query; ``scalar_text`` spells operations
on scalars, ``integer_text`` those whose result 64 bits may not hold; ``called_functions`` lists the
functions that kernels call and their modules, ``whole_array_calls`` NumPy's functions that Numba
compiles; ``unboxing`` and ``shape_preconditions`` prepare a launcher's arguments for kernels.
"""
