"""Building blocks of kernels for Numba: the decorator, and NumPy's functions on numbers.

In comes the text of kernels, which imports the names here; out comes machine code. Read
``decorator``, then ``kernel_functions``; ``trimmed_compiler`` is Numba's compiler for this process,
less the passes that kernels do not need. Saved modules carry plain functions in their place: see
``standalone``.
"""

import importlib
import os
from typing import Any

import numpy as np

from calque.transpiler.codegen.numba.called_functions import FILE_OF


def __getattr__(name: str) -> Any:
    if name not in FILE_OF:
        raise AttributeError(f"{name} is no function for kernels")
    if os.environ.get("CALQUE_JIT") == "0" and FILE_OF[name].startswith("complex_"):
        return getattr(np, name.removeprefix("complex_").removeprefix("whole_"))
    return getattr(importlib.import_module(f"{__name__}.{FILE_OF[name]}"), name)
