"""A module of CuPy: the launcher, the text of its kernels, and the lines that compile them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.cuda.c_types import c_type
from calque.transpiler.codegen.cuda.complex_numbers import COMPLEX
from calque.transpiler.codegen.cuda.cuda_launcher import CudaLauncher
from calque.transpiler.codegen.cuda.cuda_target import CUDA
from calque.transpiler.codegen.cuda.device_functions import combined_text, definitions
from calque.transpiler.codegen.cuda.named_sizes import with_named_sizes
from calque.transpiler.codegen.cuda.thread_reductions import COMBINED
from calque.transpiler.codegen.numpy.emit import Support, imports, sorted_imports, written_function
from calque.transpiler.codegen.text.layout import WIDTH, to_text
from calque.transpiler.codegen.text.origins import origins_in
from calque.transpiler.codegen.text.recording import record_functions, record_kernel
from calque.transpiler.codegen.text.signature import leaf_paths
from calque.transpiler.codegen.text.spelling import call, name
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder

_HOST_WORDS = frozenset(
    "float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool_ complex64 complex128"
    " True_ False_ newaxis pi inf nan e errstate ndarray generic integer floating".split()
)
_COUNTS = {n: slice(0, 1) for n in ("empty", "zeros", "ones", "full", "identity")}
_COUNTS |= {n: slice(None) for n in ("arange", "eye", "tri", "indices")}
_COUNTS |= {n: slice(1, None) for n in ("broadcast_to", "reshape", "repeat", "tile", "roll")}
# CuPy functions that are no ufuncs, and return a number for numbers
_OF_NUMBERS = frozenset([np.where, np.sum, np.prod, np.max, np.min, np.mean, np.any, np.all])
_HELPERS = (
    *("accumulated", "blocks", "checked_index", "held_columns", "kernel", "outside", "parts_of"),
    *("raise_if_outside", "row_blocks", "row_threads", "tiles"),
)
_LAUNCH = re.compile(r"^( +)(\w*(?:_kernel|_of_parts)\w*)\(\n((?:\1    [^\n]+,\n)+)\1\)\n", re.M)
_COMBINE = """\
extern "C" __global__ __launch_bounds__(256)
void {name}(const {T}* __restrict__ parts, {U}* __restrict__ total, Index size)
{{
    {T} value = {start};
    for (Index k = threadIdx.x; k < size; k += 256) {{
        {T} other = parts[k];
        value = {combined};
    }}
    value = block_{how}{f}(value);
    if (threadIdx.x == 0)
        total[0] = {value};
}}"""


def cuda_function(
    function: core.Function, comments: bool = True, asking: Builder | None = None
) -> str:
    """The text of the launcher and of its kernels."""
    launcher, code, bound = _parts(function, comments, asking)
    kernels = "\n".join(filter(None, [code, bound]))
    return "\n\n\n".join(filter(None, [launcher.rstrip(), kernels.rstrip()])) + "\n"


def _parts(
    function: core.Function, comments: bool, asking: Builder | None
) -> tuple[str, str, str]:
    """The launcher, the text of its kernels, and the lines that compile them."""
    writer, trees = written_function(function, comments, CUDA, asking, CudaLauncher)
    assert isinstance(writer, CudaLauncher)
    paths = {v: writer.expressions.atom(v) for v in function.params}
    paths |= {v: path for v, (path, _) in leaf_paths(function).items()}
    trees[-1].body = with_named_sizes(trees[-1].body, writer.sizes, paths, CUDA.words)
    function.origins = {function.name: origins_in(trees[-1].body)}
    record_functions(trees, writer)
    text = "\n\n\n".join(to_text(_on_device(t, writer)).strip() for t in trees)
    launcher = writer.notes.restore(text) + "\n"
    kernels = writer.cuda_kernels
    if not kernels:
        return launcher, "", ""
    launcher = _LAUNCH.sub(_filled, launcher)
    combining = [_combining(name, *how) for name, how in writer.combining.items()]
    used = writer.used | {w for t in combining for w in _called(t)}
    for kernel in kernels:
        record_kernel(kernel.text)
    written = [*("\n".join(k.text) for k in kernels), *combining]
    used |= {kind for kind in COMPLEX for text in written if re.search(rf"\b{kind}\b", text)}
    texts = [definitions(used), *written]
    code = "\n\n".join(filter(None, texts))
    names = [k.name for k in kernels] + list(writer.combining)
    held = {k.name: f", held={k.held}" for k in kernels if k.held}
    bound = "\n".join(f'{n} = kernel(code, "{n}"{held.get(n, "")})' for n in names)
    return launcher, f'code = r"""\n{code}\n"""\n', bound + "\n"


def _filled(found: re.Match[str]) -> str:
    """A launch whose arguments fill their lines, instead of one argument a line."""
    indent, called, text = found.groups()
    inner = indent + "    "
    lines = [""]
    for item in re.sub(r",\s*$", "", text).split(",\n"):
        joined = f"{lines[-1]} {item.strip()},".strip()
        if len(inner + joined) > WIDTH and lines[-1]:
            lines.append(f"{item.strip()},")
        else:
            lines[-1] = joined
    body = "\n".join(inner + line for line in lines)
    return f"{indent}{called}(\n{body}\n{indent})\n"


def _called(text: str) -> set[str]:
    return set(re.findall(r"\b(\w+)\(", text)) | set(re.findall(r"\b(INF|NaN)\b", text))


def _combining(name: str, how: str, letter: str, dtypes: tuple[np.dtype, np.dtype]) -> str:
    start = COMBINED[how][1]
    dtype, stored = dtypes
    text = _COMBINE.format(
        name=name,
        T=c_type(dtype),
        U=c_type(stored),
        value="value" if stored == dtype else f"({c_type(stored)})value",
        start=start or "parts[0]",
        combined=combined_text(how, dtype).format(f=letter),
        how=how,
        f=letter,
    )
    return text.replace("(const", "(\n    const", 1) if len(text.split("\n")[1]) > 100 else text


def _on_device(tree: Any, writer: CudaLauncher) -> Any:
    """Replace NumPy's functions by CuPy's, except dtypes and functions of numbers on the host."""
    kept = {
        id(node.func)
        for node in gast.walk(tree)
        if isinstance(node, gast.Call) and _is_of_numbers(node, writer)
    }
    for node in gast.walk(tree):
        if isinstance(node, gast.Attribute) and isinstance(node.value, gast.Name):
            if node.value.id == "np" and node.attr not in _HOST_WORDS and id(node) not in kept:
                node.value = gast.Name("cp", gast.Load(), None, None)
    for node in gast.walk(tree):
        if isinstance(node, gast.Slice):
            for end in ("lower", "upper", "step"):
                setattr(node, end, _of_host(getattr(node, end), writer))
        elif isinstance(node, gast.Call) and (places := _integers_in(node)) is not None:
            either = isinstance(node.func, gast.Name) and node.func.id != "range"
            if not (either and any(map(_has_floats, node.args))):  # the larger of two floats
                node.args[places] = [_of_host(a, writer) for a in node.args[places]]
    return tree


def _integers_in(node: gast.Call) -> slice | None:
    """The arguments of a call that must be integers on the host: sizes and range bounds."""
    match node.func:
        case gast.Name(id="range" | "min" | "max"):
            return slice(None)
        case gast.Attribute(value=gast.Name(id="cp"), attr=called):
            return _COUNTS.get(called)
        case gast.Attribute(attr="reshape" | "repeat"):
            return slice(None)
    return None


def _of_host(part: Any, writer: CudaLauncher) -> Any:
    """An integer, or several, brought to the host, which waits for the device."""
    if isinstance(part, (gast.Tuple, gast.List)):
        part.elts = [_of_host(e, writer) for e in part.elts]
        return part
    shown = getattr(part, "shows", None) or getattr(part, "argument", None)
    several = shown is not None and shown.type.ndim > 0  # as the repeats of each element
    there = part is not None and not several and _is_there(part, writer)
    return call(name("int"), part) if there else part


def _has_floats(part: Any) -> bool:
    """True if an expression reads scalars that are no integers, as a maximum of two may."""
    if isinstance(part, gast.Attribute) and part.attr in ("size", "shape", "ndim"):
        return False
    shown = getattr(part, "shows", None) or getattr(part, "argument", None)
    if shown is not None:
        return shown.type.dtype.kind not in "iub"
    return any(map(_has_floats, gast.iter_child_nodes(part)))


def _is_there(part: Any, writer: CudaLauncher) -> bool:
    """True if a number is computed from arrays or from scalars on the device."""
    match part:
        case gast.Attribute(attr="size" | "shape" | "ndim"):
            return False
        case gast.Call(func=gast.Name(id="int" | "len")):
            return False
        case gast.Call(func=gast.Attribute(value=gast.Name(id="cp"))):
            return True
        case gast.Name():
            shown = getattr(part, "shows", None)
            return shown is not None and (shown.type.ndim > 0 or shown in writer.device)
    argument = getattr(part, "argument", None)
    if argument is not None:
        return argument.type.ndim > 0 or argument in writer.device
    return any(_is_there(inner, writer) for inner in gast.iter_child_nodes(part))


def _is_of_numbers(node: gast.Call, writer: CudaLauncher) -> bool:
    """True for a function, a sum or a similar call whose operands are all numbers on the host."""
    called = getattr(np, getattr(node.func, "attr", ""), None)
    if called not in _OF_NUMBERS and not isinstance(called, np.ufunc):
        return False

    def is_known(part: Any) -> bool:
        match part:
            case gast.Attribute(attr="size" | "shape" | "ndim"):
                return True
            case gast.Call(func=gast.Name(id="bool" | "complex" | "float" | "int")):
                return True  # the result is a Python number
            case gast.Name(id=own):
                var = getattr(part, "shows", None)
                if var is None:
                    return own == "np" or own in writer.sizes.places
                return not var.type.ndim and var not in writer.device
        return all(map(is_known, gast.iter_child_nodes(part)))

    return all(map(is_known, node.args))


def cuda_module(
    function: core.Function,
    title: str,
    provenance: Sequence[str],
    support: Support | None = None,
    asking: Builder | None = None,
    around: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> str:
    """A file: docstring, imports, the launcher, its kernels, and helpers where it stands alone.

    ``around`` are imports and texts of what calls the launcher; they stand after it.
    """
    launcher, code, bound = _parts(function, True, asking)
    launcher = "\n\n".join([*function.helpers.values(), launcher])
    more_imports, more_texts = around
    header = "\n".join([title, "", *provenance]).rstrip()
    quoted = header.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    whole = ast.parse("\n".join([launcher, code, bound]))
    used = {n.id for n in ast.walk(whole) if isinstance(n, ast.Name)}
    lines = ["import cupy as cp"] if "cp" in used else []
    lines += ["import cupyx.scipy.special"] if "cupyx" in used else []
    lines += [re.sub(r"^from scipy\b", "from cupyx.scipy", t) for t in imports(function, used)]
    helpers = [h for h in _HELPERS if h in used]
    own = ""
    if helpers and support is None:
        lines.append(f"from calque.runtime.cuda import {', '.join(helpers)}")
    elif helpers and support is not None:
        more, own, _ = support(frozenset(helpers))
        lines += more
    kernels = [code.rstrip(), own.strip(), bound.rstrip()] if own else [f"{code}\n{bound}".strip()]
    lines += more_imports
    behind = [text.strip("\n") for text in more_texts]
    body = "\n\n\n".join(filter(None, [launcher.rstrip(), *behind, *kernels]))
    return "\n".join([f'"""{quoted}\n"""', *sorted_imports(lines), "", "", body]) + "\n"
