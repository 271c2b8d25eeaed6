"""NVRTC from its wheel, without a GPU: compile a text for an architecture, or report its errors."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
# what a user may well compare: a number without a sign with zero
ALLOWED = ("--diag-suppress=186",)
REPORT = re.compile(r"Compiling entry function '(\w+)'.*\n.*\n(.*\n.*registers)")


@dataclass(frozen=True)
class Figures:
    """The resources of a kernel's thread, by ptxas: registers, bytes of stack, bytes of spills."""

    registers: int
    stack: int
    spills: int


@functools.cache
def nvrtc() -> ctypes.CDLL | None:
    """The library, from NVIDIA's wheel or from the system; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations or [] if spec else []
    for path in sorted(p for f in folders for p in Path(f).glob("**/libnvrtc.so.*")):
        for builtins in path.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))  # libnvrtc asks for it by its bare name
        return ctypes.CDLL(str(path))
    try:
        return ctypes.CDLL("libnvrtc.so")
    except OSError:
        return None


def compiled(text: str, architecture: str, options: Sequence[str] = ()) -> dict[str, Figures]:
    """Compile ``text``; raises ValueError with the log where NVRTC refuses it, or warns."""
    library = nvrtc()
    assert library is not None, "NVRTC is not installed"
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
    try:
        words = [*options, *ALLOWED, f"-arch={architecture}", "-std=c++17", "--ptxas-options=-v"]
        given = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        status = library.nvrtcCompileProgram(program, len(words), given)
        size = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, buffer)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    log = buffer.value.decode()
    if status or "warning" in log:
        raise ValueError(log)
    return {kernel: _figures(entry) for kernel, entry in REPORT.findall(log)}


def _figures(entry: str) -> Figures:
    stack, stores, loads = map(int, re.findall(r"(\d+) bytes", entry)[:3])
    found = re.search(r"Used (\d+) registers", entry)
    return Figures(int(found[1]) if found else 0, stack, stores + loads)
