"""Texts of launchers for CUDA graphs: what no graph can hold, and the text that is captured.

The captured text is the launcher with two changes. Its launches are counted, and ``a @ b`` calls
cuBLAS by ``captured_products``, as CuPy refuses to while a stream captures.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from calque.runtime.cuda.captured_products import product, workspace

_HOST_FUNCTIONS = frozenset(
    "abs blocks bool checked_index float held_columns int len max min outside parts_of"
    " raise_if_outside range row_blocks row_threads tiles".split()
)
_CUPY_FUNCTIONS = frozenset(
    "ascontiguousarray broadcast_to copy empty empty_like expand_dims full full_like moveaxis ones"
    " ones_like reshape squeeze swapaxes transpose where zeros zeros_like".split()
) | {name for name, f in vars(np).items() if isinstance(f, np.ufunc) and f.signature is None}
_METHODS = frozenset("astype copy ravel reshape squeeze swapaxes transpose".split())
_PRODUCT = "product of matrices"  # a name that no text has
Call = Callable[..., Any]


def why_not(text: str, least: int = 2) -> str | None:
    """The reason why no graph can hold a launcher; None where a capture can be tried.

    Without a loop of launches there must be ``least`` of them.

    >>> why_not("k = kernel(code, 'k')\\ndef f(x):\\n    return cp.linalg.inv(x)")
    'it calls cp.linalg.inv'
    """
    module = ast.parse(text)
    kernels = {
        s.targets[0].id
        for s in module.body
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)
        if isinstance(s.targets[0], ast.Name) and ast.unparse(s.value.func) == "kernel"
    }
    launcher = [s for s in module.body if isinstance(s, ast.FunctionDef)]
    in_loops, launches = False, 0
    for function in launcher:
        for node in ast.walk(function):
            if isinstance(node, (ast.While, ast.With, ast.Try)):
                return "it loops until a value says so, or more"
            if isinstance(node, ast.Call) and not _is_capturable(node.func, kernels):
                return f"it calls {ast.unparse(node.func)}"
            launches += _launches(node, kernels)
            if isinstance(node, ast.For):
                in_loops |= any(_launches(n, kernels) for n in ast.walk(node))
    if in_loops or launches >= least:
        return None
    return f"it launches {('no kernel', 'one kernel', 'few kernels')[min(launches, 2)]}"


def _launches(node: ast.AST, kernels: set[str]) -> bool:
    """True if a node launches: a kernel, or a product of matrices."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return isinstance(node, ast.Call) and ast.unparse(node.func) in kernels


def _is_capturable(function: ast.expr, kernels: set[str]) -> bool:
    """True if a call launches, makes an array or a view, or is of the host's numbers."""
    if isinstance(function, ast.Name):
        return function.id in kernels or function.id in _HOST_FUNCTIONS or _is_error(function.id)
    if not isinstance(function, ast.Attribute):
        return False
    if isinstance(function.value, ast.Name):
        if function.value.id == "np":
            return True
        if function.value.id == "cp":
            return function.attr in _CUPY_FUNCTIONS
    return function.attr in _METHODS and not ast.unparse(function).startswith(("cp.", "cupyx."))


def _is_error(name: str) -> bool:
    return name.endswith("Error")


def noting(call: FunctionType, text: str, number: list[int]) -> Call:
    """A launcher that notes each launch, with products that a stream can capture.

    It is for graphs of the current stream.
    """

    def counted(function: Any) -> Any:
        def launch(*args: Any) -> Any:
            number.append(1)
            return function(*args)

        return launch

    name = call.__name__
    (launcher,) = [s for s in ast.parse(text).body if getattr(s, "name", "") == name]
    products = _Products()
    module = ast.Module([products.visit(launcher)], [])
    code = compile(ast.fix_missing_locations(module), call.__code__.co_filename, "exec")
    kernels = {n: k for n, k in call.__globals__.items() if getattr(k, "__name__", "") == "launch"}
    namespace = {**call.__globals__, **{n: counted(kernel) for n, kernel in kernels.items()}}
    if products.found:
        namespace[_PRODUCT] = counted(partial(product, workspace()))
    exec(code, namespace)
    made: Call = namespace[name]
    return made


class _Products(ast.NodeTransformer):
    """``a @ b`` becomes a call."""

    found = False

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        self.found = True
        called = ast.Call(ast.Name(_PRODUCT, ast.Load()), [node.left, node.right], [])
        return ast.copy_location(called, node)
