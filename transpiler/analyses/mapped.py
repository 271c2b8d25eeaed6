"""Batching: which values differ between examples, and which arms may run for all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calque.transpiler import core
from calque.transpiler.builder import current
from calque.transpiler.core import Apply, Atom, Block, For, If, Var, While
from calque.transpiler.types import ArrayType, dim_symbols

# defined, and without a warning, for every finite number
_TOTAL = frozenset(
    """
    np.add np.subtract np.multiply np.negative np.positive np.square np.abs np.fabs np.sign
    np.less np.less_equal np.greater np.greater_equal np.equal np.not_equal np.maximum np.minimum
    np.logical_and np.logical_or np.logical_xor np.logical_not np.bitwise_and np.bitwise_or
    np.bitwise_xor np.invert np.isnan np.isfinite np.isinf np.signbit np.floor np.ceil np.trunc
    np.rint np.clip np.copysign np.heaviside np.tanh np.arctan np.sin np.cos np.where not and
    np.fmax np.fmin math.fabs math.tanh math.atan stop_gradient float np.zeros_like np.ones_like
    np.hypot math.hypot special.expit special.erf
    """.split()
)


# the size of the result depends on the data
_LOOSE = frozenset(("np.nonzero", "np.argwhere", "np.flatnonzero", "np.unique", "np.bincount"))

# over the batch's own axis: results that differ from one example to the next
_DEALT = frozenset(("ppermute", "all_to_all", "psum_scatter"))


def mapped(block: Block, inputs: Iterable[Any]) -> set[Any]:
    """The Vars that depend on ``inputs``, through data or through control flow.

    ``inputs`` may have the batch's own named axis among them: what its collectives reduce is the
    same for all examples.
    """
    found = set(inputs)
    while True:
        before = len(found)
        _visit(block, found)
        if len(found) == before:
            return found


def _is(atom: Atom, found: set[Var]) -> bool:
    return isinstance(atom, Var) and atom in found


def _visit(block: Block, found: set[Any]) -> None:
    for s in block.statements:
        match s:
            case Apply(primitive=primitive, outs=outs) if over_own_axis(s, found):
                if primitive.name in _DEALT:
                    found.update(outs)
            case Apply(primitive=primitive) if primitive.kind == "size":
                if any(name in found for name in _size_symbols(s)):
                    found.update(s.outs)
            case Apply(args=args, outs=outs):
                if any(_is(a, found) for a in args):
                    found.update(outs)
                    found.update(_own_sizes(s, found))
            case If(then=then, orelse=orelse, outs=outs, test=test):
                _visit(then, found)
                _visit(orelse, found)
                for out, *arms in zip(outs, then.results, orelse.results, strict=True):
                    if _is(test, found) or any(_is(a, found) for a in arms):
                        found.add(out)
            case For() | While():
                _visit_loop(s, found)


def _size_symbols(s: Apply) -> set[str]:
    """The symbols of the dimensions that a statement reads."""
    dims = s.args[0].type.dims
    axis = s.params.get("axis")
    resolve = current().dims.resolve
    return {
        n
        for d in (dims if axis is None else dims[axis : axis + 1])
        for n in dim_symbols(resolve(d))
    }


def _own_sizes(s: Apply, found: set[Any]) -> set[str]:
    """The symbols of sizes that depend on the values of one example: they differ too."""
    chosen = any(
        _is(a, found) and a.type.dtype.kind in "iub" and (k or not a.type.ndim)
        for k, a in enumerate(s.args)
    )
    if s.primitive.name == "room" or not (chosen or s.primitive.name in _LOOSE):
        return set()  # an array that grows has room for the longest
    given = {n for a in s.args if isinstance(a, Var) for n in _symbols(a)}
    return {n for o in s.outs for n in _symbols(o)} - given


def differs_in_size(s: Apply, found: set[Any]) -> bool:
    """Whether a result has another shape for each example."""
    return any(name in found for o in s.outs for name in _symbols(o))


def _symbols(var: Var) -> set[str]:
    resolve = current().dims.resolve
    return {n for d in var.type.dims for n in dim_symbols(resolve(d))}


def over_own_axis(s: Apply, found: set[Any]) -> bool:
    """Whether a statement is a collective over the axis that is being batched."""
    return s.primitive.kind == "collective" and s.params["axis"] in found


def _visit_loop(s: For | While, found: set[Var]) -> None:
    for phi, init, after in zip(s.phis, s.inits, s.body.results, strict=True):
        if _is(init, found) or _is(after, found):
            found.add(phi)
    if isinstance(s, While):
        _visit(s.test, found)
    _visit(s.body, found)
    if own_pace(s, found):
        found.update(p for p, after in zip(s.phis, s.body.results, strict=True) if after is not p)
    found.update(o for o, p in zip(s.outs, s.phis, strict=True) if p in found)


def own_pace(s: For | While, found: set[Var]) -> bool:
    """Whether each example goes round the loop its own number of times."""
    if isinstance(s, While):
        return _is(s.test.results[0], found)
    return any(_is(a, found) for a in (s.start, s.stop, s.step))


def is_total(block: Block) -> bool:
    """Whether a block may run for examples that do not take it: cheap, and defined everywhere.

    >>> is_total(Block())
    True
    """
    return all(_total_statement(s) for s in block.statements)


def _total_statement(s: core.Statement) -> bool:
    match s:
        case Apply(primitive=primitive, args=args, outs=outs):
            if any(o.type.dtype.kind not in "fb" and not _small(o.type) for o in outs):
                return False
            if primitive.name == "getitem":
                return all(not isinstance(a, Var) or not a.type.ndim for a in args[1:])
            if primitive.name == "np.power":
                return type(args[1]) in (int, float) and args[1] in (1, 2, 3, 4)
            if primitive.name == "astype":
                return outs[0].type.dtype.kind == "f"
            return primitive.name in _TOTAL or primitive.kind == "size"
        case If(then=then, orelse=orelse):
            return is_total(then) and is_total(orelse)
    return False


def _small(t: ArrayType) -> bool:
    return t.dtype.kind in "iu"
