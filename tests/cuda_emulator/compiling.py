"""The stand-in's compiler and loader: its machine code is bytes that name their source.

>>> code, _ = compile_using_nvrtc("text", ("-DIndex=int",))
>>> Module().load(code[:-1])
Traceback (most recent call last):
    ...
RuntimeError: CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

MAGIC = b"\x7fELF"
capability = "90"
version = (12, 9)
compilations: list[str] = []  # the texts that were compiled
loads: list[bytes] = []  # what was loaded
kernel_of: Callable[..., Any]  # text, name, options


def compile_using_nvrtc(
    source: str,
    options: tuple[str, ...] = (),
    arch: str | None = None,
    filename: str = "kern.cu",
    name_expressions: Any = None,
    log_stream: Any = None,
    cache_in_memory: bool = False,
    jitify: bool = False,
) -> tuple[bytes, Any]:
    """Machine code for an architecture, and mangled names."""
    compilations.append(source)
    content = json.dumps([source, options, arch or capability]).encode()
    return MAGIC + hashlib.sha256(content).digest() + content, None


class Module:
    """Loaded machine code."""

    def load(self, cubin: bytes) -> None:
        """Take machine code of this architecture."""
        digest, content = cubin[4:36], cubin[36:]
        if cubin[:4] != MAGIC or hashlib.sha256(content).digest() != digest:
            raise RuntimeError("CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid")
        self.source, options, architecture = json.loads(content)
        if architecture != capability:
            raise RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available")
        self.options = tuple(options)
        loads.append(cubin)

    def get_function(self, name: str) -> Any:
        """A kernel."""
        return kernel_of(self.source, name, self.options)
