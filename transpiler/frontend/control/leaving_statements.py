"""The statements of a block that may leave it: by a return, a break, a continue or an error."""

from __future__ import annotations

from typing import Any

import gast


def surely_leaves(statements: list[Any]) -> bool:
    """True if statements end, on all paths, with a return, a break, a continue or an error."""
    last = statements[-1] if statements else None
    if isinstance(last, gast.If):
        return surely_leaves(last.body) and surely_leaves(last.orelse)
    return isinstance(last, (gast.Return, gast.Break, gast.Continue, gast.Raise))


def may_go_on_twice(node: Any) -> bool:
    """True if an arm of a statement may leave, and two may be followed by the next one."""
    if isinstance(node, gast.If):
        arms = [node.body, node.orelse]
    else:
        arms = [case.body for case in getattr(node, "cases", [])]
    return any(map(escapes, arms)) and sum(not surely_leaves(arm) for arm in arms) > 1


def escapes(
    statements: list[Any],
    in_loop: bool = False,
    leaving: tuple[type, ...] = (gast.Break, gast.Continue),
) -> bool:
    """True if statements contain a return, or a break or continue of a loop around them."""
    for s in statements:
        if isinstance(s, gast.Return) or getattr(s, "leaves", False):
            return True
        if isinstance(s, leaving) and not in_loop:
            return True
        if isinstance(s, (gast.FunctionDef, gast.AsyncFunctionDef, gast.ClassDef)):
            continue
        within = in_loop or isinstance(s, (gast.For, gast.While))
        for part in ("body", "orelse", "finalbody"):
            block = getattr(s, part, None)
            inner = within if part == "body" else in_loop
            if isinstance(block, list) and escapes(block, inner, leaving):
                return True
        if any(escapes(c.body, in_loop, leaving) for c in getattr(s, "cases", [])):
            return True
    return False
