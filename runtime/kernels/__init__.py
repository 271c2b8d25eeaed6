"""What kernels are made of, for Numba: the decorator, and NumPy's functions on numbers.

In comes the text of kernels, which imports the names here; out comes machine code. Read
``decorator``, then ``kernel_functions``; ``trimmed_compiler`` is Numba's compiler for this process,
less what kernels have no need of. Saved modules carry the text of what they call, which
``call.kernel_source`` writes.
"""

from calque.runtime.kernels.decorator import *  # noqa: F403
