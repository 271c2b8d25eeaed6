"""Elementary functions as polynomial arithmetic that LLVM vectorizes, for Numba's loop kernels.

Numba's wheels call libm once an element, which keeps a loop scalar. A loop that calls these
functions runs at four to twenty times that speed: no branch, no call, no conversion of integers; at
most 4 ulp from the true value over the whole range; NaN, infinities, signed zeros, overflow and
denormals as in NumPy. ``FUNCTIONS`` names them; ``source_of`` gives the text of those that a saved
module uses, with ``plain`` for what is no plain Python: it needs NumPy and Numba's ``njit`` alone.
Importing this package does not import Numba. In comes a number, out comes one. Read ``arithmetic``
and ``exponentials``, then any other file; ``direct`` writes them as LLVM's instructions.

A kernel may have ``fastmath={"reassoc", "contract", "nsz"}``: flags belong to instructions, and the
functions' own have none. ``nnan`` and ``ninf`` are for no kernel: comparisons of the kernel's own
values would lose NaN.

``sin``, ``cos`` and ``tan`` do call: a longer reduction for ``abs(x) > 2**45``. A call for a vector
of numbers that need it not returns at once (``rarely`` in arithmetic.py).
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calque.transpiler.codegen.numba.called_functions import DRAWN, HALF_POWERS, VECTORIZED
from calque.transpiler.codegen.text.scalar_functions import SCALAR_FUNCTIONS

# in the order of their definitions: each module uses only those before it
_MODULES = (
    *("arithmetic", "exponentials", "logarithms", "trigonometric", "inverse_trigonometric"),
    *("error_functions", "powers", "exponentials_single", "single", "random_numbers"),
)
# what saved modules have in place of definitions of the same names
_PLAIN_MODULE = "plain"
_IMPORTS = {
    "math": "import math",
    "np": "import numpy as np",
    "njit": "from numba import njit",
}


@dataclass(frozen=True)
class VectorFunction:
    """A function's names in float64 and float32, and what it is in plain Python.

    >>> FUNCTIONS["exp"].name_in(np.float32)
    'expf'
    """

    name: str
    plain: str

    def name_in(self, dtype: Any) -> str:
        """The function's name for a dtype: ``exp`` or ``expf``.

        >>> FUNCTIONS["expit"].name_in("f8")
        'expit'
        """
        match np.dtype(dtype):
            case np.dtypes.Float64DType():
                return self.name
            case np.dtypes.Float32DType():
                return f"{self.name}f"
        raise TypeError(f"{self.name} has no vector form in {np.dtype(dtype)}")

    def compiled(self, dtype: Any) -> Any:
        """The function itself, for a kernel in this process."""
        return load(self.name_in(dtype))


# a primitive's ``scalar`` -> its vector function
FUNCTIONS = {
    **{n: VectorFunction(n, SCALAR_FUNCTIONS[n].value) for n in (*VECTORIZED, "pow")},
    **{n: VectorFunction(n, f"np.power(x, {e!r})") for e, n in HALF_POWERS.items()},
}


@dataclass(frozen=True)
class _Entry:
    """A function or constant of the package: its text, and the names that it uses."""

    text: str
    uses: tuple[str, ...]
    is_function: bool
    method: str  # its file's docstring, which says how its functions compute


@functools.cache
def _definitions() -> dict[str, _Entry]:
    """All definitions by name, in the order of the files; the plain ones in others' places."""
    found: dict[str, _Entry] = {}
    for module in (_PLAIN_MODULE, *_MODULES):
        text = _text(module)
        lines, end, tree = text.splitlines(), 0, ast.parse(text)
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.Assign)):
                is_function = isinstance(node, ast.FunctionDef)
                decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
                start = min([node.lineno, *(d.lineno for d in decorators)]) - 1
                while start > end and lines[start - 1].startswith("#"):
                    start -= 1
                names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                body = "\n".join(lines[start : node.end_lineno])
                name = node.name if isinstance(node, ast.FunctionDef) else _target(node)
                method = ast.get_docstring(tree) or ""
                entry = _Entry(body, tuple(sorted(names - {name})), is_function, method)
                found.setdefault(name, entry)
            end = node.end_lineno or end
    return found


def _target(node: ast.Assign) -> str:
    """The name that a constant's assignment defines."""
    [target] = node.targets
    assert isinstance(target, ast.Name)
    return target.id


def defined_by(names: Iterable[str]) -> tuple[str, ...]:
    """All names that ``source_of(names)`` defines, in its order: a module may not use them else.

    >>> defined_by(["two_to"])
    ('vector', 'ROUND', 'two_to')
    """
    table = _definitions()
    wanted, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name not in table:
            raise KeyError(f"{name} is no function of calque.runtime.vecmath")
        if name not in wanted:
            wanted.add(name)
            todo += [other for other in table[name].uses if other in table]
    return tuple(name for name in table if name in wanted)


def imports_of(names: Iterable[str]) -> str:
    """The import lines that ``source_of(names)`` needs.

    >>> print(imports_of(["two_to"]))
    import numpy as np
    from numba import njit
    """
    table = _definitions()
    used = {other for name in defined_by(names) for other in table[name].uses}
    lines = [line for name, line in _IMPORTS.items() if name in used]
    return "\n".join(lines).replace("import math\n", "import math\n\n")


def source_of(names: Iterable[str]) -> str:
    """The text of functions and all that they use, and nothing else; the same text every time.

    A comment above each group says by what method it computes, and whence its coefficients are.

    ``names`` are names such as ``exp`` or ``expf`` (``VectorFunction.name_in``). Raises
    KeyError for others.

    >>> print(source_of(["two_to"]))  # doctest: +ELLIPSIS
    # Elementary functions in plain Numba: ...
    vector = njit(forceinline=True, fastmath=False, ...)
    <BLANKLINE>
    <BLANKLINE>
    # Building blocks of the vector functions: ...
    <BLANKLINE>
    # 1.5 * 2**52: ...
    ROUND = 6755399441055744.0
    <BLANKLINE>
    <BLANKLINE>
    @vector
    def two_to(n):
        ...
    """
    table = _definitions()
    text, after_function, method = "", False, ""
    for name in defined_by(names):
        definition = table[name]
        gap = "\n\n\n" if definition.is_function or after_function else "\n"
        if definition.text.startswith("#") and gap == "\n":
            gap = "\n\n"
        if definition.method != method:
            method, gap = definition.method, "\n\n\n"
            paragraphs = [textwrap.fill(part, 98) for part in method.split("\n\n")]
            comment = textwrap.indent("\n\n".join(paragraphs), "# ", lambda line: True)
            text += (gap if text else "") + comment.replace("# \n", "#\n")
            gap = gap if definition.is_function else "\n\n"
        text += (gap if text else "") + definition.text
        after_function = definition.is_function
    return text + "\n"


def plain_source_of(names: Iterable[str]) -> str:
    """The functions by NumPy, under the same names, to run a kernel uncompiled and step through it.

    >>> print(plain_source_of(["exp", "sinf"]))
    def exp(x):
        return np.exp(x)
    <BLANKLINE>
    <BLANKLINE>
    def sinf(x):
        return np.sin(x)
    <BLANKLINE>
    """
    texts = []
    for name in names:
        if name.removesuffix("f") in DRAWN:
            texts.append(f"from calque.runtime.random.elements import {name}  # noqa: E402\n")
            continue
        known = FUNCTIONS.get(name) or FUNCTIONS[name.removesuffix("f")]
        args = "x, y" if "y)" in known.plain else "x"
        texts.append(f"def {name}({args}):\n    return {known.plain}\n")
    return "\n\n".join(texts)


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name in (*_MODULES, _PLAIN_MODULE, "direct"):
        raise AttributeError(name)  # a module is imported as any other
    try:
        return load(name)
    except KeyError as error:
        raise AttributeError(str(error)) from None


def load(name: str) -> Any:
    """A function of the package by its name, compiled when a kernel that calls it is.

    >>> load("expf").__name__
    'expf'
    """
    for module in _MODULES:
        if re.search(rf"^(def {name}\(|{name} = )", _text(module), re.MULTILINE):
            return vars(importlib.import_module(f"{__name__}.{module}"))[name]
    raise KeyError(f"{name} is no function of calque.runtime.vecmath")


@functools.cache
def _text(module: str) -> str:
    return (Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8")
