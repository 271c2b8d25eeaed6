"""The text of effects: how constant texts are written into a template."""

from __future__ import annotations


def quoted(text: str) -> str:
    """A constant text as source within a template, in which no brace is a slot.

    >>> print(quoted("write {0}"))
    'write \\x7b0}'
    """
    return repr(text).replace("{", "\\x7b")
