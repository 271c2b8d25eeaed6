"""Print Core as NumPy source, the last stage of the pipeline.

``emit_function`` gives the text of one ``def``, ``emit_module`` a file with docstring and imports.
The stages: copies for in-place stores (``copies``), versions joined into variables (``coalesce``),
values folded into their uses (``folding``), names, ``statement_writer``, and text (``layout``).
"""

from __future__ import annotations

import ast
import re
import symtable
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import gast

from calque.transpiler.codegen.host_values import named_numbers
from calque.transpiler.codegen.launcher import Launcher
from calque.transpiler.codegen.numba.called_functions import (
    HOMES,
    LAUNCHER_FUNCTIONS,
)
from calque.transpiler.codegen.numba.compiled_scipy import declaration
from calque.transpiler.codegen.numba.kernel_parts import in_parts
from calque.transpiler.codegen.numba.numba_target import HELPERS
from calque.transpiler.codegen.numba.shape_preconditions import size_checks
from calque.transpiler.codegen.numpy.host_definitions import define_callees, define_hosts
from calque.transpiler.codegen.printing_passes import Printing
from calque.transpiler.codegen.text.bundles import bundle_results
from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.codegen.text.expression_writer import ExpressionWriter
from calque.transpiler.codegen.text.folding import Folding, choices_in
from calque.transpiler.codegen.text.instances import helper_names, import_name, reserved_names
from calque.transpiler.codegen.text.layout import Notes, to_text
from calque.transpiler.codegen.text.names import Names
from calque.transpiler.codegen.text.origins import origins_in
from calque.transpiler.codegen.text.recording import record_functions
from calque.transpiler.codegen.text.signature import (
    argument_names,
    arguments,
    name_parameters,
    result_tree,
)
from calque.transpiler.codegen.text.spelling import constant, name, target
from calque.transpiler.codegen.text.statement_writer import StatementWriter
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.target import NUMPY, Target
from calque.transpiler.memory.bufferize import Memory
from calque.transpiler.memory.live_values import Liveness
from calque.transpiler.memory.printed_program import PrintedProgram, prepare
from calque.transpiler.primitives.function_calls import called_by, is_call
from calque.transpiler.primitives.host_calls import HostCall

# from the names that kernels use: import lines, and definitions before and after the kernels
Support = Callable[[frozenset[str]], tuple[list[str], str, str]]
_ATTEMPTS = 12
_FEW_ATTEMPTS, _MANY = 4, 32  # after 4 attempts, one long line in 32 statements may be wrapped
SCIPY_MODULES = (
    "fft",
    "linalg",
    "ndimage",
    "signal",
    "special",
    "stats",
)  # as names of primitives have them
_FEW_SPLITS = 10
# builtins that the text calls and that a user may have used as a variable's name
_BUILTINS = ("abs", "bool", "complex", "float", "int", "len", "print", "range", "slice", "type")


def emit_function(
    function: core.Function,
    *,
    comments: bool = True,
    kernels: Target = NUMPY,
    asking: Builder | None = None,
) -> str:
    """The ``def`` of a function.

    If the target has kernels, they come first, and the function launches them. ``asking`` is a
    builder with assumptions about the arguments that are to be checked.
    """
    kind = StatementWriter if kernels is NUMPY else Launcher
    writer, trees = written_function(function, comments, kernels, asking, kind)
    record_functions(trees, writer)
    function.launches = getattr(writer, "launches", [])
    function.origins = {function.name: origins_in(trees[-1].body)}
    function.kernel_origins = {t.name: origins_in(t.body) for t in trees[:-1]}
    for callee in called_by(function):
        function.origins |= callee.origins
        function.kernel_origins |= callee.kernel_origins
        function.launches += [launch.elsewhere() for launch in callee.launches]
    text = "\n\n\n".join(to_text(t).strip() for t in trees)
    return writer.notes.restore(text) + "\n"


def written_function(
    function: core.Function,
    comments: bool,
    kernels: Target,
    asking: Builder | None,
    kind: type[StatementWriter],
) -> tuple[StatementWriter, list[Any]]:
    """The writer of a function's text, of the target's ``kind``, and the trees that it wrote."""
    printing = _prepared(function, kernels)
    program, memory = printing.program, printing.memory
    paths, local = printing.paths, printing.named_leaves
    spelled = {var: path for var, path in paths.items() if var not in local}
    made = [s for s in core.walk(program.body) if isinstance(s, core.Apply)]
    own = frozenset(o for s in made if kernels.stands_alone(s) for o in s.outs)
    own |= named_numbers(program) if kernels.grid else own
    earlier = bound = own

    def written(bound: frozenset[Var], last: StatementWriter | None) -> StatementWriter:
        last = None if kernels.grid else last
        made = _writer(program, memory, spelled, bound, comments, kernels, kind, last)
        made.body = made.function_body()
        made.earlier = None
        return made

    writer = written(bound, None)
    for remaining in reversed(range(_ATTEMPTS)):
        split = frozenset(writer.too_long)
        few = remaining < _ATTEMPTS - _FEW_ATTEMPTS and _MANY * len(split) <= len(made)
        if few or not split or not remaining:
            break
        earlier, bound = bound, bound | split
        writer = written(bound, writer)
    if len(bound - own) <= _FEW_SPLITS:  # a later split may have made an earlier one needless
        for var in sorted(earlier - own, key=lambda v: program.index[v]):
            other = written(bound - {var}, writer)
            if not other.too_long:
                writer, bound = other, bound - {var}
    trees = _definition(function, writer, [(var, paths[var][0]) for var in local], asking)
    if kernels.has_parts:
        trees = in_parts(trees, writer.notes, _reserved(function, kernels))
    return writer, trees


def outlined(function: core.Function, kernels: Target) -> core.Function:
    """A function prepared for a target: with copies before in-place stores, and with kernels."""
    return replace(function, body=_prepared(function, kernels).program.body)


def printed_program(function: core.Function, kernels: Target) -> PrintedProgram:
    """The program that a function's text shows: a copy, with copies before in-place stores."""
    return _prepared(function, kernels).program


def _prepared(function: core.Function, kernels: Target) -> Printing:
    """A copy of a function, after the passes before its text."""
    name_parameters(function)
    program = prepare(function)
    bundle_results(program)
    made = [s for s in core.walk(program.body) if isinstance(s, core.Apply)]
    ours = kernels.words & LAUNCHER_FUNCTIONS
    program.called = _imported(function, made, ours)
    hosts = [s.primitive for s in made if isinstance(s.primitive, HostCall)]
    taken = reserved_names(function) | ours
    program.hosts = dict(define_hosts(function, hosts, taken, emit_function))
    calls = [s.primitive for s in made if is_call(s)]
    write = partial(emit_function, kernels=kernels)
    program.hosts.update(define_callees(function, calls, taken | kernels.words, write))
    printing = Printing(program, kernels)
    printing.run()
    return printing


def _imported(
    function: core.Function, made: Sequence[core.Apply], ours: frozenset[str]
) -> dict[tuple[str, str], str]:
    """The names of the user's functions in the text; also imports those that results need."""
    own = dict.fromkeys(s.primitive.imported for s in made if s.primitive.imported)
    modules = {s.primitive.name.partition(".")[0] for s in made}
    own |= {("scipy", m): None for m in SCIPY_MODULES if m in modules}
    taken = reserved_names(function) | ours
    result_tree(function.result, function, lambda position: constant(None))
    return {(m, path): import_name(function, m, path, taken) for m, path in own}


def _writer(
    program: PrintedProgram,
    memory: Memory,
    paths: dict[Var, Any],
    bound: frozenset[Var],
    comments: bool,
    kernels: Target,
    kind: type[StatementWriter],
    earlier: StatementWriter | None,
) -> StatementWriter:
    choices = choices_in(program, bound)
    alike = earlier is not None and earlier.choices == choices
    groups = earlier.groups if earlier and alike else Groups(program, choices, set(paths))
    folding = Folding(program, memory, groups, bound, choices)
    live = Liveness(program, folding.reads_apart, folding.skip)
    function = program.function
    reserved = _reserved(function, kernels)
    plain = [p.name for p in function.params if p not in paths]
    kept = [r for r in reserved if r not in plain]
    typed = kernels.grid, kernels.allocates
    names = Names(program, groups, live, folding.skip, set(paths), kept, *typed)
    expressions = ExpressionWriter(program, folding, names, paths, kernels)
    return kind(program, groups, expressions, choices, Notes(), comments, earlier)


def _reserved(function: core.Function, kernels: Target) -> list[str]:
    """The names with another meaning in a function's text."""
    own = [*argument_names(function), *function.imports, *function.helpers, *_BUILTINS]
    return own + sorted(kernels.words | helper_names(function))


def _definition(
    function: core.Function,
    writer: StatementWriter,
    local: list[tuple[Var, Any]],
    asking: Builder | None,
) -> list[Any]:
    top = [
        gast.Assign([target(name(writer.expressions.names(var)))], path, None)
        for var, path in local
    ]
    top += size_checks(function, asking) if asking is not None else []
    body = writer.body
    writer.finish(body)
    if top and writer.notes.is_note(body[0]):
        top.append(writer.notes.blank())
    body = top + body
    tree = gast.FunctionDef(function.name, arguments(function), body, [], None, None, [])
    return [*getattr(writer, "kernels", []), tree]


def emit_module(
    function: core.Function,
    *,
    title: str,
    provenance: Sequence[str] = (),
    comments: bool = True,
    kernels: Target = NUMPY,
    support: Support | None = None,
    asking: Builder | None = None,
) -> str:
    """A file: docstring, imports, helpers, and the function, with the kernels of its target.

    ``support`` gives the import lines and the text of what kernels call; else it is imported.
    """
    text = emit_function(function, comments=comments, kernels=kernels, asking=asking)
    text = "\n\n".join([*function.helpers.values(), text])
    header = "\n".join([title, "", *provenance]).rstrip() if provenance else title
    quoted = header.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    docstring = f'"""{quoted}\n"""' if provenance else f'"""{quoted}"""'
    used = set(_names_used(symtable.symtable(text, "", "exec")))
    lines, ahead, opening, behind = imports(function, used), "", "", ""
    if kernels is not NUMPY:
        opening = declaration(text, function.imports)
        used |= {"in_kernels"} if opening else set()
        more, ahead, behind = kernel_imports(used, support)
        lines = sorted_imports([*lines, *more]) if more else lines
        own = {*function.imports, *function.helpers} - (used & HELPERS)
        ahead, behind = _apart(ahead, own), _apart(behind, own)
    parts = [part.strip("\n") for part in (ahead, opening, text, behind) if part]
    body = "\n\n\n".join(parts) + "\n"
    gap = ["", ""] if body.startswith(("def ", "@")) else [""]
    return "\n".join([docstring, *lines, *gap, body])


def _names_used(table: symtable.SymbolTable) -> Iterator[str]:
    """The names that a scope and those within it read."""
    yield from (symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced())
    for inner in table.get_children():
        yield from _names_used(inner)


def _apart(definitions: str, own: set[str]) -> str:
    """Definitions renamed where the user's program imports something of the same name.

    >>> _apart("def split(x):\\n    return parts(x)", {"split", "other"})
    'def plain_split(x):\\n    return parts(x)'
    """
    tree = ast.parse(definitions)
    defined = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    defined |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in _names(n.targets)}
    for word in sorted(defined & own):
        definitions = re.sub(rf"\b{word}\b", f"plain_{word}", definitions)
    return definitions


def _names(targets: list[ast.expr]) -> list[ast.Name]:
    return [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]


def kernel_imports(used: set[str], support: Support | None) -> tuple[list[str], str, str]:
    """The import lines, and the definitions, of what kernels and their launchers call."""
    if not used & {"kernel", *LAUNCHER_FUNCTIONS}:
        return [], "", ""
    return (support or _library)(frozenset(used))


def imports(function: core.Function, used: set[str]) -> list[str]:
    """The import lines for the names that a function's text uses."""
    lines = [f"import {module}" for module in ("cmath", "math") if module in used]
    if "np" in used:
        lines.append("import numpy as np")
    own = sorted((module, n) for n, module in function.imports.items() if n in used)
    lines += [_import_line(module, n) for module, n in own]
    return lines


def _import_line(place: str, used: str) -> str:
    """``import m``, ``from m import n`` or, for a place ``m:n``, ``from m import n as used``."""
    module, renamed, original = place.partition(":")
    if renamed:
        return f"from {module} import {original} as {used}"
    return f"import {used}" if used == module else f"from {module} import {used}"


def _library(names: frozenset[str]) -> tuple[list[str], str, str]:
    """The import lines of the functions that kernels call, from ``calque.runtime``."""
    lines = [
        f"from calque.runtime.{module} import {', '.join(sorted(known & names))}"
        for module, known in HOMES.items()
        if known & names
    ]
    return lines + (["from numba import prange"] if "prange" in names else []), "", ""


def sorted_imports(lines: Sequence[str]) -> list[str]:
    """Import lines merged and sorted as linters require, the standard library's first.

    >>> sorted_imports(["from numba import prange", "import math", "from numba import njit"])
    ['import math', '', 'from numba import njit, prange']
    """
    plain: set[str] = set()
    named: dict[str, set[str]] = {}
    for line in lines:
        match line.split(maxsplit=3):
            case ["from", module, "import", names]:
                named.setdefault(module, set()).update(n.strip() for n in names.split(","))
            case _:
                plain.add(line)

    def own(line: str) -> bool:
        return line.split()[1].split(".")[0] in sys.stdlib_module_names

    made = sorted(plain) + [f"from {m} import {', '.join(sorted(named[m]))}" for m in sorted(named)]
    first, rest = [m for m in made if own(m)], [m for m in made if not own(m)]
    return first + ([""] if first and rest else []) + rest
