"""Definitions that saved modules carry: plain functions of Numba's, in place of ``kernels``.

People read saved modules, and run them with any Numba: nothing here takes more of Numba than
``from numba import njit, prange``. In comes the name of a function that a kernel calls; out goes
the text of its definition and of all that it uses, which ``call.kernel_source`` puts behind the
kernels. calque itself imports none of these files. Read ``plain_decorator``, then
``plain_integers``: NumPy's integers where Numba's differ.
"""
