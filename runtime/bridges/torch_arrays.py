"""Tensors as arrays of NumPy in the same memory, and results as tensors of memory of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from calque.transpiler.errors import DtypeError, MixedDevices

_LETTERS = "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"
DTYPES = {torch.from_numpy(np.empty(0, x)).dtype: np.dtype(x) for x in _LETTERS}
TORCH_DTYPES = {numpys: torchs for torchs, numpys in DTYPES.items()}


def array_of(tensor: Any, operation: Any) -> np.ndarray:
    """A tensor as an array in the same memory."""
    try:
        found: np.ndarray = tensor.detach().numpy()
    except (RuntimeError, TypeError) as error:
        why = why_no_array(tensor)
        if why is not None:
            kind = DtypeError if tensor.device.type == "cpu" else MixedDevices
            raise kind(f"{operation.name}: an argument {why[0]}", hint=why[1]) from error
        found = tensor.detach().resolve_conj().resolve_neg().numpy()
    return found


def why_no_array(tensor: Any) -> tuple[str, str] | None:
    """Why NumPy has no array in a tensor's memory, and what to pass; None if it has."""
    if tensor.device.type != "cpu":
        return (
            f"is a tensor on {tensor.device}, and calque.bridges.torch computes on the host.",
            "pass x.cpu(); calque.jit(f)(x.detach()) runs on a CUDA device, without PyTorch's "
            "gradients",
        )
    if tensor.layout is not torch.strided:
        return f"is a tensor of layout {tensor.layout}.", "pass x.to_dense()"
    if tensor.dtype not in DTYPES:
        hint = "pass x.float(), and convert the result"
        return f"is a tensor of {tensor.dtype}, which NumPy does not have.", hint
    return None


def tensor_of(value: Any, others: Sequence[Any], operation: Any) -> Any:
    """A result as a contiguous tensor that shares memory with no argument and no other result."""
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype not in TORCH_DTYPES:
        kind = f"{type(value).__name__} of dtype {array.dtype}"
        raise TypeError(
            f"{operation.name}: a result is {kind}, which is no tensor. Instead: return arrays and "
            "numbers, and trees of them"
        )
    if not array.flags.c_contiguous or not array.flags.writeable or _shared(array, others):
        array = array.copy()
    return torch.from_numpy(array)


def _shared(array: np.ndarray, others: Sequence[Any]) -> bool:
    return any(isinstance(x, np.ndarray) and np.may_share_memory(array, x) for x in others)
