"""NumPyOp in PyTensor's Numba backend: the generated module, compiled into PyTensor's function.

The module is the one that ``calque.save`` writes of a jitted function, and its kernels are Numba's.
The function that launches them is compiled as well, so that no call goes through Python. PyTensor
keeps the machine code on disk under a key that is the module's text.
"""

from __future__ import annotations

import ast
import hashlib
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit, types
from numba.extending import overload
from pytensor import config
from pytensor.graph.basic import Apply
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import (
    generate_fallback_impl,
    numba_njit,
    register_funcify_and_cache_key,
)

from calque.runtime.bridges.pytensor import NumPyOp, computed, types_of
from calque.runtime.call import kernel_source
from calque.runtime.transformed import Transformed
from calque.runtime.version import __version__
from calque.transpiler import texts

CONSTANTS = 10**6  # bytes of arrays that Numba keeps within machine code on disk
# of what launches kernels: in Python, NumPy checks its indices
OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy", "boundscheck": True}


def teach() -> None:
    """Called when the backend is used: what this module registers is there then."""


@register_funcify_and_cache_key(NumPyOp)
def numba_funcify_numpy_op(
    op: NumPyOp, node: Apply, **kwargs: Any
) -> tuple[Callable[..., Any], str | None]:
    """The Op as a function that Numba compiles, and the key of its machine code.

    What Numba cannot compile runs in object mode; PyTensor warns of it.
    """
    function = computed(op.kind)
    if function.compiled:
        module = _written(op, node, function)
        try:
            return _run(module, _launcher(node, module)), module.key
        except Exception as error:  # Numba raises what its own code meets, too
            if config.compiler_verbose:
                print(f"{op} runs in object mode: {error}")  # as PyTensor does
    return generate_fallback_impl(op, node=node, **kwargs), None


class NumbaModule(NamedTuple):
    """A generated module, and the function around what launches its kernels, as text."""

    text: str
    name: str  # of what launches the kernels
    around: str
    captured: dict[str, np.ndarray[Any, Any]]
    key: str | None  # of the machine code; None where it cannot be kept


def _written(op: NumPyOp, node: Apply, function: Transformed) -> NumbaModule:
    """The module for a node's types."""
    program = function.program(*types_of(node.inputs))
    name = function.generated_name()
    whole = texts.module_text(program.traced, name, str(op), [], kernel_source.embedded, True)
    text = compilable(whole, name)
    hidden = program.hidden(function.dispatcher().root).values()
    captured = {f"captured_{i}": np.array(value, order="C") for i, value in enumerate(hidden)}
    around = _around(node, list(captured))
    digest = hashlib.sha256(f"{__version__} {OPTIONS}\n{text}\n{around}".encode())
    for value in captured.values():
        digest.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    small = sum(value.nbytes for value in captured.values()) < CONSTANTS
    return NumbaModule(text, name, around, captured, digest.hexdigest() if small else None)


def compilable(text: str, name: str) -> str:
    """The module's text, with all its functions compiled and no parameters for keywords.

    The function that launches the kernels takes captured arrays by position, after its arguments:
    Python passes them by keyword.
    """
    module = ast.parse(text)
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    decorators = {ast.unparse(d).split("(")[0] for node in functions for d in node.decorator_list}
    for node in functions:
        if node.name == name:
            given = node.args
            given.args, given.kwonlyargs = [*given.args, *given.kwonlyargs], []
            given.kw_defaults = []
        elif not node.decorator_list and node.name not in decorators:
            node.decorator_list.append(ast.parse("_compiled", mode="eval").body)
    return ast.unparse(ast.fix_missing_locations(module))


def _launcher(node: Apply, module: NumbaModule) -> Any:
    """The function that launches the kernels, compiled for the node's types."""
    namespace: dict[str, Any] = {"__name__": __name__, "_compiled": njit(**OPTIONS)}
    keep = module.key is not None and config.numba__cache
    made = compile_numba_function_src(
        module.text, module.name, namespace, namespace, cache_key=module.key if keep else None
    )
    launcher = numba_njit(made, cache=keep, **OPTIONS)
    given = [_numba_type(x.type) for x in node.inputs]
    launcher.compile((*given, *map(numba.typeof, module.captured.values())))
    (found,) = launcher.nopython_signatures
    for out, kind in zip(node.outputs, found.return_type, strict=True):
        dtype = kind.dtype if isinstance(kind, types.Array) else kind
        if numba.from_dtype(out.type.numpy_dtype) != dtype or getattr(kind, "ndim", 0) != out.ndim:
            raise numba.core.errors.TypingError(f"a result is {kind}, and must be {out.type}")
    return launcher


def _numba_type(kind: Any) -> Any:
    """The type that the launcher is compiled for: a scalar, or an array in C order."""
    dtype = numba.from_dtype(kind.numpy_dtype)
    return types.Array(dtype, kind.ndim, "C") if kind.ndim else dtype


def _around(node: Apply, captured: list[str]) -> str:
    """The function of PyTensor's arrays: in C order, scalars without axes, results apart."""
    names = [f"x{i}" for i in range(len(node.inputs))]
    given = [f"in_order({n})" if x.ndim else f"{n}[()]" for n, x in zip(names, node.inputs)]
    results = [f"y{k}" for k in range(len(node.outputs))]
    lines = [f"def run({', '.join(names)}):"]
    lines.append(f"    results = launch({', '.join([*given, *captured])})")
    for k, (y, out) in enumerate(zip(results, node.outputs)):
        lines.append(f"    {y} = {'in_order' if out.ndim else 'in_array'}(results[{k}])")
        beside = [other for other, o in zip(results[:k], node.outputs) if out.ndim and o.ndim]
        lines += [f"    {y} = apart({y}, {other})" for other in beside]
    lines.append(f"    return {', '.join(results)}")
    return "\n".join(lines)


def _run(module: NumbaModule, launcher: Any) -> Callable[..., Any]:
    namespace = {"__name__": __name__, "launch": launcher, "apart": _apart, **module.captured}
    namespace |= {"in_order": np.ascontiguousarray, "in_array": np.asarray}
    made: Callable[..., Any] = compile_numba_function_src(
        module.around, "run", namespace, namespace
    )
    return numba_njit(made, **OPTIONS)


@njit
def _apart(x: Any, other: Any) -> Any:
    """An array that shares no memory with another: PyTensor may store into either."""
    start, stop = other.ctypes.data, other.ctypes.data + other.nbytes
    return x.copy() if x.ctypes.data < stop and start < x.ctypes.data + x.nbytes else x


@overload(operator.getitem)
def _scalar_itself(x, index):
    """``x[()]`` of a scalar is the scalar, as of NumPy's: launchers are written for those."""
    if isinstance(x, (types.Number, types.Boolean)) and index == types.Tuple(()):
        return lambda x, index: x
    return None
