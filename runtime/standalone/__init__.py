"""What saved modules carry: plain functions of Numba's, in the place of ``kernels``.

A saved module is read, and runs with whatever Numba is there: nothing here takes more of Numba than
``from numba import njit, prange``. In comes the name of what a kernel calls; out goes the text of
its definition and of all that it uses, which ``call.kernel_source`` puts behind the kernels. calque
itself imports none of these files. Read ``plain_decorators``, then ``plain_integers``: what NumPy's
integers are where Numba's are not.
"""
