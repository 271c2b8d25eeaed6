"""Integers of a program as affine expressions over loop counters and sizes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calque.transpiler.ir.core import Apply, Atom, Statement, Var
from calque.transpiler.ir.inequalities import CONSTANT, Affine, combined
from calque.transpiler.ir.types import Dim


def affine_of(atom: Atom, definitions: Mapping[Var, Statement]) -> Affine:
    """An integer as an affine expression; one that is not affine becomes an unknown of its own."""
    if not isinstance(atom, Var):
        return {CONSTANT: int(atom)} if atom else {}
    made = definitions.get(atom)
    exact = atom.type.dtype == np.int64 and not atom.type.ndim  # a narrow one may wrap around
    if isinstance(made, Apply) and len(made.outs) == 1 and exact:
        args = made.args
        match made.primitive.arithmetic:
            case "add":
                return combined(affine_of(args[0], definitions), affine_of(args[1], definitions))
            case "subtract":
                left, right = (affine_of(a, definitions) for a in args)
                return combined(left, right, -1)
            case "negative":
                return combined({}, affine_of(args[0], definitions), -1)
            case "multiply":
                for factor, other in (args, args[::-1]):
                    if type(factor) is int:
                        return combined({}, affine_of(other, definitions), factor)
        if made.primitive.kind == "size" and isinstance(args[0], Var):
            axis, dims = made.params.get("axis"), args[0].type.dims
            dim = dims[axis] if isinstance(axis, int) else dims[0] if len(dims) == 1 else None
            if isinstance(dim, int):
                return {CONSTANT: dim}
            if isinstance(dim, Dim):
                terms: Affine = dict(dim.terms)
                return combined(terms, {CONSTANT: dim.const})
    return {atom: 1}
