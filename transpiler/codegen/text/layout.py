"""From syntax trees to text: astor prints, markers become comments, long lines are wrapped."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
import warnings
from typing import Any

import gast

with warnings.catch_warnings():  # the import asks for ast.Num, of which Python 3.12 and 3.13 warn
    warnings.simplefilter("ignore", DeprecationWarning)
    import astor

WIDTH = 98
LISTED = 88  # columns of names in a list, which a reader goes through one by one
_MARK = re.compile(r"^(\s*)note_(\d+)_$")
_PLAIN = re.compile(r"[\w.]+(\[\w+\])*,?\s*$")  # names, numbers and parts of arguments
_OPERATORS = (" or ", " and ", " + ", " - ", " * ", " / ", " @ ")


class Notes:
    """Comments and blank lines as marker statements, as syntax trees cannot hold them."""

    def __init__(self) -> None:
        self._texts: list[tuple[str, str]] = []

    def _mark(self, kind: str, text: str) -> gast.stmt:
        self._texts.append((kind, text))
        return gast.Expr(gast.Name(f"note_{len(self._texts) - 1}_", gast.Load(), None, None))

    def comment(self, text: str) -> gast.stmt:
        """A comment on a line of its own."""
        return self._mark("comment", text)

    def trailing(self, text: str) -> gast.stmt:
        """A comment at the end of the line before."""
        return self._mark("trailing", text)

    def blank(self) -> gast.stmt:
        """An empty line."""
        return self._mark("blank", "")

    @staticmethod
    def is_note(line: Any) -> bool:
        """True if a line is a comment or empty."""
        value = getattr(line, "value", None)
        return isinstance(line, gast.Expr) and bool(_MARK.match(getattr(value, "id", "")))

    def told(self, line: Any) -> tuple[str, str] | None:
        """The kind and the text of a comment or blank line; None for any other."""
        if not self.is_note(line):
            return None
        found = _MARK.match(line.value.id)
        assert found is not None
        return self._texts[int(found.group(2))]

    def restore(self, source: str) -> str:
        """The text with comments for markers, and lines of at most ``WIDTH`` where possible."""
        lines: list[str] = []
        for line in source.split("\n"):
            found = _MARK.match(line)
            if not found:
                lines += wrapped(line)
                continue
            kind, text = self._texts[int(found.group(2))]
            if kind == "comment":
                lines.append(f"{found.group(1)}# {text}")
            elif kind == "blank":
                lines.append("")
            elif len(lines[-1]) + len(text) + 4 <= WIDTH:
                lines[-1] += f"  # {text}"
            else:
                lines.insert(len(lines) - 1, f"{found.group(1)}# {text}")
        return "\n".join(lines)


def _quoted(text: str, *args: Any, **options: Any) -> str:
    return repr(text)


_SAME: dict[type, tuple[type, tuple[str, ...]]] = {}  # gast's kind -> ast's, and the fields of both
_OTHERWISE = (gast.arguments, gast.ExceptHandler, gast.ClassDef)  # nodes that gast changes


def _as_ast(tree: Any) -> Any:
    """The tree with Python's ``ast`` nodes: ``gast_to_ast`` in a fraction of its time.

    Without positions and contexts, which no printer reads.
    """
    kind = type(tree)
    if kind is gast.Name:
        return ast.Name(tree.id)
    if kind is list:
        return [_as_ast(part) for part in tree]
    if not isinstance(tree, gast.AST):
        return tree
    if kind not in _SAME:
        own = getattr(ast, kind.__name__, None)
        if own is None or kind in _OTHERWISE:
            return gast.gast_to_ast(tree)
        _SAME[kind] = own, tuple(f for f in own._fields if f in tree._fields and f != "ctx")
    own, fields = _SAME[kind]
    return own(**{field: _as_ast(getattr(tree, field, None)) for field in fields})


class _Printer(astor.SourceGenerator):
    """Prints f-strings without ast.Str, which astor uses and which is deprecated since 3.12."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.write("f" + repr(_pattern(node)))


def _pattern(joined: Any) -> str:
    """The text between the quotes of an f-string."""
    text = ""
    for part in joined.values:
        if isinstance(part, ast.Constant):
            text += str(part.value).replace("{", "{{").replace("}", "}}")
            continue
        conversion = f"!{chr(part.conversion)}" if part.conversion >= 0 else ""
        spec = f":{_pattern(part.format_spec)}" if part.format_spec else ""
        astor.code_gen.set_precedence(part, part.value)  # no brackets around it
        text += "{" + _printed(part.value) + conversion + spec + "}"
    return text


def _printed(tree: ast.AST) -> str:
    text: str = astor.to_source(
        tree,
        pretty_string=_quoted,
        pretty_source="".join,
        source_generator_class=_Printer,
    )
    return text.rstrip("\n")


def to_text(tree: gast.AST) -> str:
    """The source of a tree; the only place that prints one."""
    return _printed(_as_ast(tree))


# for a node: the most characters beside its parts, the most for each part, the fields with parts
_AROUND: dict[type, tuple[int, int, tuple[str, ...]]] = {
    gast.Return: (7, 0, ("value",)),
    gast.Expr: (0, 0, ("value",)),
    gast.Assign: (0, 3, ("targets", "value")),
    gast.AugAssign: (6, 0, ("target", "value")),
    gast.BinOp: (6, 0, ("left", "right")),
    gast.UnaryOp: (6, 0, ("operand",)),
    gast.BoolOp: (2, 5, ("values",)),
    gast.Compare: (2, 8, ("left", "comparators")),
    gast.IfExp: (12, 0, ("test", "body", "orelse")),
    gast.Call: (2, 2, ("func", "args", "keywords")),
    gast.keyword: (3, 0, ("value",)),
    gast.Subscript: (2, 0, ("value", "slice")),
    gast.Slice: (2, 0, ("lower", "upper", "step")),
    gast.Tuple: (4, 2, ("elts",)),
    gast.List: (2, 2, ("elts",)),
}
_UNKNOWN = 10**6
_TARGETS = re.compile(r"\s*((?:\*?\w+, )+\*?\w+) = ")  # of an assignment of several values


def at_most(tree: Any) -> int:
    """An upper bound on the length of a line, much cheaper than printing it.

    >>> at_most(gast.parse("y = np.sin(x) * 2.0").body[0]) >= len("y = np.sin(x) * 2.0")
    True
    """
    kind = type(tree)
    if kind is gast.Name:
        return len(tree.id)
    if kind is gast.Constant:
        return len(repr(tree.value)) + 4
    if kind is gast.Attribute:
        return at_most(tree.value) + 1 + len(tree.attr)
    if kind is gast.If:
        return at_most(tree.test) + 4
    if kind is gast.For:
        return at_most(tree.target) + at_most(tree.iter) + 9
    if kind not in _AROUND:
        return _UNKNOWN
    total, each, fields = _AROUND[kind]
    if kind is gast.keyword:
        total += len(tree.arg or "")
    for field in fields:
        part = getattr(tree, field, None)
        if type(part) is list:
            for node in part:
                total += at_most(node) + each
        elif part is not None:
            total += at_most(part) + each
    return total


def wrapped(line: str) -> list[str]:
    """A logical line wrapped at brackets or operators to at most ``WIDTH`` columns."""
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    targets = _TARGETS.match(line)
    if targets is not None and len(line.partition("(")[0]) >= WIDTH:
        rest = wrapped(f"{indent}) = {line[targets.end() :]}")
        return [indent + "(", *_split(targets[1], indent + "    "), *rest]
    spans = _brackets(line)
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):
        if end - start > 2 and len(line[: start + 1]) <= WIDTH:
            inside = _split(line[start + 1 : end], indent + "    ")
            return [line[: start + 1], *inside, *_tail(indent + line[end:])]
    return _parenthesized(line, indent)


def _tail(line: str) -> list[str]:
    return wrapped(line) if len(line) > WIDTH and _brackets(line) else [line]


def _parenthesized(line: str, indent: str) -> list[str]:
    found = re.match(r"\s*(return |[\w.]+ [-+*/@]?= )", line)
    if not found or line.endswith("\\"):
        return [line]
    return [found.group(0) + "(", *_split(line[found.end() :], indent + "    "), indent + ")"]


def _split(text: str, indent: str) -> list[str]:
    """The text between brackets as lines: one, or split at commas, operators or inner brackets."""
    if len(indent + text) <= LISTED:
        return [indent + text]
    parts = _at_depth_zero(text, [", "])
    if len(parts) > 1 and all(map(_PLAIN.match, parts)):
        return _listed(text, indent)
    if len(indent + text) <= WIDTH:
        return [indent + text]
    if len(parts) > 1:
        lines: list[str] = []
        for k, part in enumerate(parts):
            comma = "," if k < len(parts) - 1 or not _generator(text) else ""
            lines += wrapped_inside(indent + part.removesuffix(",") + comma)
        return lines
    for operator in _OPERATORS:
        parts = _at_depth_zero(text, [operator])
        if len(parts) > 1:
            filled = [indent + parts[0]]
            for part in parts[1:]:
                joined = filled[-1] + operator + part
                if len(joined) <= WIDTH:
                    filled[-1] = joined
                else:
                    filled.append(indent + operator.lstrip() + part)
            return [line for one in filled for line in wrapped_inside(one)]
    return wrapped_inside(indent + text)


def _listed(text: str, indent: str) -> list[str]:
    """Names as lines, none of which is cut."""
    return textwrap.wrap(
        text,
        LISTED,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _generator(text: str) -> bool:
    return " for " in text


def wrapped_inside(line: str) -> list[str]:
    """``wrapped`` for a line within brackets."""
    return wrapped(line) if len(line) > WIDTH and _brackets(line) else [line]


def _brackets(line: str) -> list[tuple[int, int]]:
    """The outermost bracket pairs of a line; those inside texts do not count."""
    found: list[tuple[int, int]] = []
    stack: list[int] = []
    for kind, text, column in _tokens(line):
        if kind == tokenize.OP and text in "([{":
            stack.append(column)
        elif kind == tokenize.OP and text in ")]}" and stack:
            start = stack.pop()
            if not stack:
                found.append((start, column))
    return found


def _tokens(line: str) -> list[tuple[int, str, int]]:
    found = []
    indent = len(line) - len(line.lstrip())
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.lstrip()).readline):
            if token.start[0] == 1:
                found.append((token.type, token.string, token.start[1] + indent))
    except tokenize.TokenError:
        pass
    return found


def _at_depth_zero(text: str, separators: list[str]) -> list[str]:
    parts, depth, last = [], 0, 0
    for kind, token, column in _tokens(text):
        if kind == tokenize.OP and token in "([{":
            depth += 1
        elif kind == tokenize.OP and token in ")]}":
            depth -= 1
        elif depth == 0:
            for separator in separators:
                start = column - (len(separator) - len(separator.lstrip()))
                if token == separator.strip() and text[start : start + len(separator)] == separator:
                    parts.append(text[last:start])
                    last = start + len(separator)
    return [*parts, text[last:]]
