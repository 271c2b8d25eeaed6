"""Functions that CuPy modules written by calque call: checked launches of kernels, and grids.

In come CuPy's arrays and numbers, out go launches. A saved module carries the text of those it
uses. Read ``launching``, then ``faults``.
"""

from calque.runtime.cuda.faults import checked_index, outside, raise_if_outside
from calque.runtime.cuda.kept_kernels import kernel
from calque.runtime.cuda.launching import (
    accumulated,
    blocks,
    parts_of,
    row_blocks,
    row_threads,
    tiles,
)

__all__ = [
    "accumulated",
    "blocks",
    "checked_index",
    "kernel",
    "outside",
    "parts_of",
    "raise_if_outside",
    "row_blocks",
    "row_threads",
    "tiles",
]
