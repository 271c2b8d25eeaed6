"""Functions that CuPy modules written by calque call: checked launches of kernels, and grids.

In come CuPy's arrays and numbers, out go launches. A saved module carries the text of those it
uses. Read ``launching``, then ``faults``.
"""

from typing import TYPE_CHECKING

from calque.transpiler.late import names_from

if TYPE_CHECKING:
    from calque.runtime.cuda.faults import checked_index, outside, raise_if_outside
    from calque.runtime.cuda.kept_kernels import kernel
    from calque.runtime.cuda.launching import (
        accumulated,
        blocks,
        held_columns,
        parts_of,
        row_blocks,
        row_threads,
        tiles,
    )
else:
    __getattr__ = names_from(
        __name__,
        {
            "calque.runtime.cuda.faults": "checked_index outside raise_if_outside",
            "calque.runtime.cuda.kept_kernels": "kernel",
            "calque.runtime.cuda.launching": (
                "accumulated blocks held_columns parts_of row_blocks row_threads tiles"
            ),
        },
    )

__all__ = [
    "accumulated",
    "blocks",
    "checked_index",
    "held_columns",
    "kernel",
    "outside",
    "parts_of",
    "raise_if_outside",
    "row_blocks",
    "row_threads",
    "tiles",
]
