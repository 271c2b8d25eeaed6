"""What CuPy modules that calque writes call: kernels that check what they are given, and grids.

In come CuPy's arrays and numbers, out go launches. A saved module carries the text of what it uses.
Read ``launching``.
"""

from calque.runtime.cuda.launching import blocks, kernel, parts_of, row_blocks, tiles

__all__ = ["blocks", "kernel", "parts_of", "row_blocks", "tiles"]
