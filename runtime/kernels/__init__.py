"""Building blocks of kernels for Numba: the decorator, and NumPy's functions on numbers.

In comes the text of kernels, which imports the names here; out comes machine code. Read
``decorator``, then ``integer_functions`` and ``kernel_functions``. The functions are plain Python
that any Numba compiles, so saved modules carry their text, with ``plain_decorator`` or
``plain_threads`` in place of ``decorator``. ``llvm_numbers`` has some of them in faster form for
this process; ``trimmed_compiler`` is its compiler, less the passes that kernels do not need.
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
