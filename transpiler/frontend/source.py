"""The source of a function as a gast tree, with origins in the user's file.

Whole files are parsed once (and again when they change); the function's node is found by its first
line and, for several lambdas on one line, by the columns of its byte code.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import os
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

import gast

from calque.transpiler.errors import Origin, SourceNotFound
from calque.transpiler.frontend.private_names import write_private_names

_trees: dict[str, tuple[tuple[str, ...], ast.Module, str]] = {}
_compiled: dict[tuple[str, int, bool], tuple[ast.Module, list[CodeType]]] = {}
_sources: dict[Any, FunctionSource] = {}
_MANY = 4096
_START = time.time()
_PYTHONS_LOADERS = {"importlib", "_frozen_importlib", "_frozen_importlib_external", "zipimport"}
_IN_A_FILE = "define it in a file or a notebook cell, or give the text to linecache"
_MAGIC = ("<timed exec>", "<magic-timeit")  # the texts of these are nowhere
_WITHOUT_MAGIC = "define it in a cell without %%time or %timeit"
UNQUOTED: set[str] = set()  # files of calque's own, of which no comment shows a statement
_MEANING = ("co_name", "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")


@dataclass(eq=False)
class FunctionSource:
    """A function's gast node (FunctionDef or Lambda), its file and its lines."""

    node: Any
    file: str
    lines: tuple[str, ...]
    name: str
    _origins: dict[Any, Origin] = field(default_factory=dict)  # by place: loops come by again

    def origin(
        self, node: Any, statement: tuple[str, int] = ("", 0), call: Origin | None = None
    ) -> Origin:
        """The origin of ``node``; ``statement``: the text and line that group generated code.

        ``call`` is where the function is called.
        """
        line = getattr(node, "lineno", 1)
        place = (
            *(line, getattr(node, "col_offset", 0), getattr(node, "end_lineno", None)),
            *(getattr(node, "end_col_offset", None), statement, id(call)),
        )
        known = self._origins.get(place)
        if known is None:
            if len(self._origins) >= _MANY:
                self._origins.clear()
            known = self._origins[place] = self._origin(node, line, statement, call)
        return known

    def _origin(
        self, node: Any, line: int, statement: tuple[str, int], call: Origin | None
    ) -> Origin:
        text = self.lines[line - 1].rstrip("\n") if line <= len(self.lines) else ""
        if (getattr(node, "end_lineno", line) or line) != line:
            return self._first_line(node, line, text, statement, call)
        return Origin(
            self.file,
            line,
            _characters(text, getattr(node, "col_offset", 0)),
            getattr(node, "end_lineno", line) or line,
            _characters(text, getattr(node, "end_col_offset", None) or len(text)),
            text,
            self.name,
            *statement,
            called_from=call,
        )

    def _first_line(
        self, node: Any, line: int, text: str, statement: tuple[str, int], call: Origin | None
    ) -> Origin:
        """The origin of the part of a node on its first line, without a comment at its end."""
        column = _characters(text, node.col_offset)
        end = len(_without_comment(text))
        end = max(end, column + 1)
        return Origin(
            *(self.file, line, column, line, end, text, self.name, *statement), called_from=call
        )

    def text(self, node: Any) -> str:
        """The text of a statement: its header only, where it has a body.

        It is empty where the statement is none of the user's.
        """
        if self.file in UNQUOTED:
            return ""
        first, last = node.lineno, node.end_lineno
        body = getattr(node, "body", None)
        if isinstance(body, list) and body:
            last = max(first, min(last, body[0].lineno - (body[0].lineno > first)))
        lines = [line.rstrip("\n") for line in self.lines[first - 1 : last]]
        if not lines:
            return ""
        start = _characters(lines[0], node.col_offset)
        lines[0] = " " * start + lines[0][start:]
        if not isinstance(body, list) and node.end_lineno == last:
            lines[-1] = lines[-1].encode()[: node.end_col_offset].decode()
        return textwrap.dedent("\n".join(lines)).strip()


def _without_comment(text: str) -> str:
    """
    >>> _without_comment("if a['#']:  # so")
    "if a['#']:"
    """
    quote = ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#":
            return text[:position].rstrip()
    return text.rstrip()


def _characters(text: str, offset: int) -> int:
    """A byte offset as a character offset."""
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


def source_of(function: FunctionType) -> FunctionSource:
    """The function's gast node, found once per code object."""
    code = function.__code__
    place = (code.co_filename, code)  # code that is equal may stand in two files
    if place not in _sources:
        _sources[place] = function_source(function)
    return _sources[place]


def has_source(function: FunctionType) -> bool:
    """True if the source text of a function is available."""
    try:
        return source_of(function) is not None
    except SourceNotFound:
        return False


def function_source(function: FunctionType) -> FunctionSource:
    """Find the gast node of a Python function.

    Raises SourceNotFound when ``linecache`` has no text for it, as for functions made by ``exec``.
    """
    code = function.__code__
    try:
        lines = _file_lines(function)
        tree, path = _parse(code.co_filename, lines)
    except (OSError, TypeError, SyntaxError) as error:
        raise SourceNotFound(
            f"The source of {function.__qualname__} cannot be read ({error}).",
            hint=_WITHOUT_MAGIC if code.co_filename.startswith(_MAGIC) else _IN_A_FILE,
        ) from None
    node = _find(tree, function)
    if node is None and path == "<string>":  # since 3.13 linecache has the text of `python -c`
        raise SourceNotFound(
            f"The source of {function.__qualname__} cannot be read (it is made of a text).",
            hint=_IN_A_FILE,
        )
    compared = not _is_rewritten(function) or _written_since_start(code.co_filename)
    if node is None or (compared and not _is_compiled_from(tree, code)):
        node = _elsewhere(tree, code)
    if node is None:
        raise SourceNotFound(
            f"{function.__qualname__} runs as it was defined, and {path} has another text: "
            "the file has changed since.",
            hint="import it again, or run the cell again",
        )
    name = "lambda" if function.__name__ == "<lambda>" else function.__name__
    made = gast.ast_to_gast(node)
    write_private_names(made, tree, node)
    return FunctionSource(made, path, lines, name)


def _written_since_start(path: str) -> bool:
    """True if a file changed after this process started, which may have read an older text."""
    try:
        return os.path.getmtime(path) >= _START
    except OSError:
        return False  # a notebook's cell, say


def _is_rewritten(function: FunctionType) -> bool:
    """True if the loader of a function's module may compile another text than the file's.

    That of pytest does: it compiles more for an ``assert`` than the file says.
    """
    loader = function.__globals__.get("__loader__")
    kind = loader if isinstance(loader, type) else type(loader)
    return loader is not None and kind.__module__.partition(".")[0] not in _PYTHONS_LOADERS


def _is_compiled_from(tree: ast.Module, code: CodeType) -> bool:
    """True if a file's text compiles to this code at the same line (for a lambda, columns)."""
    for found in _codes(tree, code):
        if found.co_firstlineno == code.co_firstlineno and _alike(found, code):
            if code.co_name != "<lambda>" or [*found.co_positions()] == [*code.co_positions()]:
                return True
    return False


def _elsewhere(tree: ast.Module, code: CodeType) -> Any:
    """The node of a function with the same code at another line: the text before it was edited.

    A tool that reloads a module may also compile each of its functions from a separate text.
    """
    alike = [c for c in _codes(tree, code) if c.co_name == code.co_name and _alike(c, code)]
    lines = {c.co_firstlineno for c in alike}
    defined = (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((n for n in defined if n.name == code.co_name and _first_line(n) in lines), None)


def _codes(tree: ast.Module, code: CodeType) -> Iterator[CodeType]:
    """The code of a file's functions and classes, as the whole and as each statement gives it.

    IPython, and Python's own prompt, compile statement by statement. The byte code of a call such
    as ``np.sum(x)`` depends on whether the text that is compiled imports ``np``.
    """
    path = code.co_filename
    flags = code.co_flags & __future__.annotations.compiler_flag
    for apart in (False, True):
        known = _compiled.get((path, flags, apart))
        if known is None or known[0] is not tree:
            texts = [ast.Module([s], []) for s in tree.body] if apart else [tree]
            known = _compiled[path, flags, apart] = tree, _all_codes(texts, path, flags)
        yield from known[1]


def _all_codes(texts: list[ast.Module], path: str, flags: int) -> list[CodeType]:
    """The codes of texts, and those within, in which a cell of a notebook may ``await``."""
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    pending = [compile(text, path, "exec", flags, dont_inherit=True) for text in texts]
    found: list[CodeType] = []
    while pending:
        code = pending.pop()
        found.append(code)
        pending += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


def _alike(one: CodeType, other: CodeType) -> bool:
    """True if two code objects are the same but for their location."""
    return all(getattr(one, a) == getattr(other, a) for a in _MEANING) and _same_constant(
        one.co_consts, other.co_consts
    )


def _same_constant(one: Any, other: Any) -> bool:
    """
    >>> _same_constant((0.0, 1), (-0.0, 1)), _same_constant((1,), (True,))
    (False, False)
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, CodeType):
        return _alike(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same_constant, one, other))
    return one == other if isinstance(one, frozenset) else repr(one) == repr(other)


def _file_lines(function: FunctionType) -> tuple[str, ...]:
    linecache.checkcache(function.__code__.co_filename)
    lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
    if not lines:
        lines, _ = inspect.findsource(function)
    return tuple(lines)


def _parse(path: str, lines: tuple[str, ...]) -> tuple[ast.Module, str]:
    found = _trees.get(path)
    if found is None or found[0] != lines:
        found = (lines, ast.parse("".join(lines)), path)
        _mangle(found[1], "")
        _trees[path] = found
    return found[1], found[2]


def _mangle(node: ast.AST, name: str) -> None:
    """Give private attributes, ``x.__y``, the names that Python gives them within a class.

    >>> tree = ast.parse("class _A:\\n  def f(self): return self.__y + self.__z__")
    >>> _mangle(tree, "")
    >>> ast.unparse(tree).splitlines()[-1].strip()
    'return self._A__y + self.__z__'
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            _mangle(child, child.name.lstrip("_"))
            continue
        if name and isinstance(child, ast.Attribute):
            if child.attr.startswith("__") and not child.attr.endswith("__"):
                child.attr = f"_{name}{child.attr}"
        _mangle(child, name)


def _find(tree: ast.Module, function: FunctionType) -> Any:
    code = function.__code__
    candidates = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            if _first_line(node) == code.co_firstlineno:
                return node
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            if node.lineno <= code.co_firstlineno <= (node.end_lineno or node.lineno):
                candidates.append(node)
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    spans = [p for p in code.co_positions() if p[2] is not None and p[0] is not None]
    spans = [p for p in spans if (p[0], p[2]) != (code.co_firstlineno, 0) or p[3]]

    def holds(node: ast.Lambda) -> bool:
        body = node.body
        start, end = (
            (body.lineno, body.col_offset),
            (body.end_lineno or 0, body.end_col_offset or 0),
        )
        return all(start <= (p[0] or 0, p[2] or 0) and (p[1] or 0, p[3] or 0) <= end for p in spans)

    def is_same(node: ast.Lambda) -> bool:
        consts = compile(ast.Expression(node), code.co_filename, "eval").co_consts
        return any(isinstance(c, CodeType) and _alike(c, code) for c in consts)

    # Python 3.12 notes no columns for a lambda that gives a constant
    fitting = [node for node in candidates if (holds if spans else is_same)(node)]
    return max(fitting, key=lambda n: (n.lineno, n.col_offset)) if fitting else None


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The first line of a function's code: that of its first decorator, if it has one."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def assigned_functions(node: Any) -> tuple[set[str], set[str]]:
    """The names a function declares nonlocal, and global."""
    nonlocals: set[str] = set()
    written: set[str] = set()
    pending = list(node.body) if isinstance(node.body, list) else []
    while pending:
        item = pending.pop()
        if isinstance(item, (gast.FunctionDef, gast.Lambda, gast.ClassDef)):
            continue
        if isinstance(item, gast.Nonlocal):
            nonlocals.update(item.names)
        elif isinstance(item, gast.Global):
            written.update(item.names)
        pending += [n for n in gast.iter_child_nodes(item) if isinstance(n, gast.stmt)]
        pending += getattr(item, "handlers", [])
    return nonlocals, written


_INNER = (gast.FunctionDef, gast.AsyncFunctionDef, gast.ClassDef, gast.Lambda)


def bound_names(node: Any) -> frozenset[str]:
    """The names local to a function: its parameters, and all names that it assigns.

    >>> sorted(bound_names(gast.parse("def f(a):\\n  for k in a: g.b = [j for j in a]").body[0]))
    ['a', 'k']
    """
    known: frozenset[str] | None = getattr(node, "bound_names", None)
    if known is not None:
        return known
    given = node.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    found = {a.id for a in parameters if a is not None}
    pending: list[Any] = list(node.body) if isinstance(node.body, list) else [node.body]
    while pending:
        item = pending.pop()
        match item:
            case gast.FunctionDef() | gast.AsyncFunctionDef() | gast.ClassDef():
                found.add(item.name)
                pending += item.decorator_list
            case gast.Name(id=name, ctx=gast.Store() | gast.Del()):
                found.add(name)
            case gast.alias(name=name, asname=renamed):
                found.add(renamed or name.split(".")[0])
            case gast.MatchAs(name=str(name)) | gast.MatchStar(name=str(name)):
                found.add(name)
            case gast.MatchMapping(rest=str(name)):
                found.add(name)
            case gast.comprehension():
                pending += [item.iter, *item.ifs]  # its target is its own
                continue
        if not isinstance(item, _INNER):
            pending += gast.iter_child_nodes(item)
    nonlocals, written = assigned_functions(node)
    node.bound_names = made = frozenset(found - nonlocals - written)
    return made
