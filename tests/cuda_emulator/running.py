"""Transformed functions as a GPU would run them: their launchers on a stand-in for CuPy.

Every text is compiled by NVRTC, too, where that is installed.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from calque.runtime.cuda import raise_if_outside
from calque.runtime.transformed import Transformed
from calque.transpiler.ir import pytrees
from cuda_emulator import nvrtc, standin

_checked: set[str] = set()


def cuda_text(fn: Any, *args: Any) -> str:
    """The launcher and the kernels for arguments of these types."""
    return _program(fn, args).text


def on_cuda(fn: Any, *args: Any, order: int = 0) -> Any:
    """What a function gives on the emulated GPU, as NumPy's arrays and numbers.

    ``order`` is that of a kernel's threads: 0 as numbered, 1 backward, else the seed of a shuffle.
    """
    program = _program(fn, args)
    check_with_nvrtc(program.text)
    with standin.installed():
        given = pytrees.tree_map(to_device, args)
        hidden = {name: to_device(value) for name, value in program.hidden().items()}
        before, standin.order = standin.order, order
        try:
            result = program.call(*given, **hidden)
            raise_if_outside()  # as whatever waits does
        finally:
            standin.order = before
        return pytrees.tree_map(to_host, result)


def _program(fn: Any, args: tuple[Any, ...]) -> Any:
    transformed = fn if isinstance(fn, Transformed) else Transformed("jit", fn)
    return transformed.cuda_programs().find(args, {})[0]


def to_device(value: Any) -> Any:
    """Arrays go there, numbers stay."""
    return standin.asarray(value) if isinstance(value, np.ndarray) else value


def to_host(value: Any) -> Any:
    """Arrays come back."""
    return standin.asnumpy(value) if isinstance(value, standin.ndarray) else value


def check_with_nvrtc(text: str) -> None:
    """Compile the CUDA C of a module for 32-bit and 64-bit indices; warnings are errors."""
    found = re.search(r'^code = r"""\n(.*?)^"""', text, re.S | re.M)
    if found is None or nvrtc.nvrtc() is None or text in _checked:
        return
    _checked.add(text)
    nvrtc.compiled(found.group(1), "sm_80", ("-DIndex=int",))
