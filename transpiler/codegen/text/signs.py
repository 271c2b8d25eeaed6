"""Textbook forms: ``a - b`` for ``a + -b``, ``2.0 * a`` for ``a * 2.0`` and ``a + a``.

Each gives the same floating-point number: signs commute with products, and products are
commutative. Integers stay as they are, since the least one has no negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gast
import numpy as np

from calque.transpiler.codegen.text.spelling import plain
from calque.transpiler.ir.core import Apply, Atom, Var

# True if an operand's text begins with a sign that may be dropped
HasMinus = Callable[[Atom], bool]


def of_textbook(tree: Any, s: Apply, has_minus: HasMinus) -> Any:
    """The tree of an operation in textbook form; numbers come first in generated products."""
    if s.out.type.dtype.kind not in "fc":
        return tree
    if isinstance(tree, gast.UnaryOp) and s.primitive.arithmetic == "negative":
        return (has_minus(s.args[0]) and without_minus(tree.operand)) or tree
    if not isinstance(tree, gast.BinOp) or len(s.args) != 2:  # an identity, of a sum
        return tree
    match tree.op:
        case gast.Add() | gast.Sub():
            tree = _sum(tree, s, has_minus)
            return _twice(tree, s) if s.phase == "reverse" else tree
        case gast.Mult() if s.phase == "reverse":
            return _number_first(_sign_ahead(tree, s, has_minus), s, has_minus)
    return tree


def _sum(tree: Any, s: Apply, has_minus: HasMinus) -> Any:
    """``a - b`` for ``a + -b`` and ``-b + a``, and ``a + b`` for ``a - -b``."""
    adds = isinstance(tree.op, gast.Add)
    if has_minus(s.args[1]) and (right := without_minus(tree.right)) is not None:
        return gast.BinOp(tree.left, gast.Sub() if adds else gast.Add(), right)
    if adds and has_minus(s.args[0]) and (left := without_minus(tree.left)) is not None:
        return gast.BinOp(tree.right, gast.Sub(), left)
    return tree


def _sign_ahead(tree: Any, s: Apply, has_minus: HasMinus) -> Any:
    """``-2.0 * a`` for ``-a * 2.0``."""
    positive = without_minus(tree.left) if has_minus(s.args[0]) else None
    if positive is None or not is_number(tree.right) or is_number(tree.left):
        return tree
    number = without_minus(tree.right) or gast.UnaryOp(gast.USub(), tree.right)
    return gast.BinOp(positive, tree.op, number)


def _twice(tree: Any, s: Apply) -> Any:
    """``2.0 * a`` for ``a + a``."""
    same = s.args[0] is s.args[1] and isinstance(tree.op, gast.Add)
    if same and isinstance(s.args[0], Var) and s.out.type.dtype == np.float64:
        return gast.BinOp(plain(2.0), gast.Mult(), tree.left)
    return tree


def _number_first(tree: Any, s: Apply, has_minus: HasMinus) -> Any:
    """``2.0 * a`` for ``a * 2.0``, ``-2.0 * a`` for ``2.0 * -a``, and ``-a`` for ``-1.0 * a``."""
    left, right = tree.left, tree.right
    if is_number(right) and not is_number(left) and not isinstance(left, gast.BinOp):
        left, right = right, left
    other = s.args[0] if left is tree.right else s.args[1]
    positive = without_minus(left)
    inner = without_minus(right) if is_number(left) and has_minus(other) else None
    if inner is not None:
        return gast.BinOp(positive or gast.UnaryOp(gast.USub(), left), tree.op, inner)
    same = isinstance(other, Var) and other.type.dtype == s.out.type.dtype
    if is_number(positive) and positive.value == 1.0 and same and s.out.type.dtype.kind == "f":
        return gast.UnaryOp(gast.USub(), right)
    return gast.BinOp(left, tree.op, right)


def is_number(tree: Any) -> bool:
    """True if a tree is a float literal, with or without a sign."""
    if isinstance(tree, gast.UnaryOp) and isinstance(tree.op, gast.USub):
        tree = tree.operand
    return isinstance(tree, gast.Constant) and type(tree.value) is float


def without_minus(tree: Any) -> Any:
    """The tree of ``-tree`` if that drops a leading minus sign; else None."""
    if isinstance(tree, gast.UnaryOp) and isinstance(tree.op, gast.USub):
        return tree.operand
    if isinstance(tree, gast.BinOp) and isinstance(tree.op, (gast.Mult, gast.Div, gast.MatMult)):
        left = without_minus(tree.left)
        if left is None:
            return None
        if isinstance(tree.op, gast.Mult) and isinstance(left, gast.Constant) and left.value == 1.0:
            return tree.right
        return gast.BinOp(left, tree.op, tree.right)
    return None
