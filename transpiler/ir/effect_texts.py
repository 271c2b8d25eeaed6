"""The text of effects: how constant texts are written into a template, and what a template does."""

from __future__ import annotations

from calque.transpiler.ir.core import Effect

_REFUSING = ("raise", "assert")


def quoted(text: str) -> str:
    """A constant text as source within a template, in which no brace is a slot.

    >>> print(quoted("write {0}"))
    'write \\x7b0}'
    """
    return repr(text).replace("{", "\\x7b")


def may_raise(s: Effect) -> bool:
    """True for a ``raise`` and for an ``assert``: where they are reached they may end the call."""
    return s.template.strip().startswith(_REFUSING)
