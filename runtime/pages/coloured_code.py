"""Code as HTML: its tokens in colours, and names with what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_KINDS = (  # of pygments, and classes of the style sheet; the first that fits
    ("Comment", "c"),
    ("String", "s"),
    ("Number", "m"),
    ("Keyword", "k"),
    ("Operator.Word", "k"),
    ("Name.Builtin", "b"),
    ("Name.Decorator", "b"),
)

_TAKES = re.compile(r"\b(?:def|lambda)\b")  # what follows may be a parameter
Tokens = list[tuple[str, str]]  # the class, which may be empty, and the text


def tokens_of(lines: Sequence[str], language: str = "python") -> list[Tokens]:
    """The tokens of each line of a text; ``language`` is a name that pygments knows."""
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    made: list[Tokens] = [[]]
    for kind, text in lexer.get_tokens("\n".join(lines)):
        first, *others = text.split("\n")
        found = _class_of(kind)
        made[-1].append((found, first))
        for part in others:
            made.append([(found, part)])
    return made[: len(lines)]


def _class_of(kind: Any) -> str:
    name = str(kind).removeprefix("Token.").removeprefix("Literal.")
    if name.startswith("Name") and not name.startswith(("Name.Builtin", "Name.Decorator")):
        return "n"
    return next((found for start, found in _KINDS if name.startswith(start)), "")


def code_html(tokens: Tokens, names: Mapping[str, str]) -> str:
    """The tokens of a line as HTML; names have their meanings as titles.

    >>> code_html([("n", "u_bar"), ("", " = "), ("m", "2.0")], {"u_bar": "cotangent of u"})
    '<span title="cotangent of u">u_bar</span> = <span class="m">2.0</span>'
    """
    made: list[list[str]] = []
    before = ""
    for k, (kind, text) in enumerate(tokens):
        is_name = kind in ("n", "b") and not before.endswith(".")  # and no attribute
        title = names.get(text, "") if is_name else ""
        title = "" if title and _is_keyword(tokens, k) else title
        before = text
        around = f' title="{escape(title)}"' if title else f' class="{kind}"'
        start = "" if not title and kind in ("", "n") else f"<span{around}>"
        if made and made[-1][0] == start and not title:
            made[-1][1] += escape(text, quote=False)
        elif text:
            made.append([start, escape(text, quote=False)])
    return "".join(f"{start}{text}{'</span>' if start else ''}" for start, text in made)


def _is_keyword(tokens: Tokens, k: int) -> bool:
    """True for a name that a call gives a value to: ``k`` in ``f(x, k=3)``."""
    before = "".join(text for _, text in tokens[:k])
    follows = k + 1 < len(tokens) and tokens[k + 1][1] == "="
    return follows and before.rstrip().endswith(("(", ",")) and not _TAKES.search(before)
