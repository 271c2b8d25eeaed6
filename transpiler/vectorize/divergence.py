"""Divergence in a batch: values that differ between examples, and arms that may run for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import current
from calque.transpiler.ir.core import Apply, Atom, Block, Effect, For, If, Slot, Var, While
from calque.transpiler.ir.effects import is_access, is_store
from calque.transpiler.ir.types import ArrayType, dim_symbols
from calque.transpiler.primitives import scalars, transcendental
from calque.transpiler.primitives.axis_collectives import all_to_all, ppermute, psum_scatter
from calque.transpiler.primitives.base import Primitive
from calque.transpiler.primitives.elementwise import astype, multiply, power, square
from calque.transpiler.primitives.growing import room, widened
from calque.transpiler.primitives.histograms import bincount, unique
from calque.transpiler.primitives.indexing import add_at, getitem, update, update_add
from calque.transpiler.primitives.integer_conversions import conversions
from calque.transpiler.primitives.selecting import argwhere, flatnonzero, nonzero

_SQUARES = (power, square, transcendental.hypot, scalars.hypot)
# the size of the result depends on the data
_LOOSE = frozenset((nonzero, argwhere, flatnonzero, unique, bincount))

# over the batch's own axis: results that differ from one example to the next
_DEALT = frozenset((ppermute, all_to_all, psum_scatter))


_NONE: frozenset[Primitive] = frozenset()


def mapped(block: Block, inputs: Iterable[Any], apart: frozenset[Primitive] = _NONE) -> set[Any]:
    """The Vars that depend on ``inputs``, through data or through control flow.

    Results of the primitives ``apart`` do not count. ``inputs`` may have
    the batch's own named axis among them: what its collectives reduce is the same for all examples.
    """
    found = set(inputs)
    while True:
        before = len(found)
        _visit(block, found, apart)
        if len(found) == before:
            return found


def _is(atom: Atom, found: set[Var]) -> bool:
    return isinstance(atom, Var) and atom in found


def _visit(block: Block, found: set[Any], apart: frozenset[Primitive]) -> None:
    for s in block.statements:
        match s:
            case Apply(primitive=primitive, outs=outs) if over_own_axis(s, found):
                if primitive in _DEALT:
                    found.update(outs)
            case Apply(primitive=primitive) if primitive.kind == "size":
                if any(name in found for name in _size_symbols(s)):
                    found.update(s.outs)
            case Apply(primitive=primitive, args=args, outs=outs):
                if primitive not in apart and any(_is(a, found) for a in args):
                    found.update(outs)
                    found.update(_own_sizes(s, found))
            case If(then=then, orelse=orelse, outs=outs, test=test):
                _visit(then, found, apart)
                _visit(orelse, found, apart)
                for out, *arms in zip(outs, then.results, orelse.results, strict=True):
                    if _is(test, found) or any(_is(a, found) for a in arms):
                        found.add(out)
            case For() | While():
                _visit_loop(s, found, apart)


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
    if s.primitive in (room, widened) or not (chosen or s.primitive in _LOOSE):
        return set()  # an array that grows has room for the longest
    given = {n for a in s.args if isinstance(a, Var) for n in _symbols(a)}
    return {n for o in s.outs for n in _symbols(o)} - given


def differs_in_size(s: Apply, found: set[Any]) -> bool:
    """True if the shape of a result differs between examples."""
    return any(name in found for o in s.outs for name in _symbols(o))


def _symbols(var: Var) -> set[str]:
    resolve = current().dims.resolve
    return {n for d in var.type.dims for n in dim_symbols(resolve(d))}


def over_own_axis(s: Apply, found: set[Any]) -> bool:
    """True if a statement is a collective over the axis that is being batched."""
    return s.primitive.kind == "collective" and s.params["axis"] in found


def _visit_loop(s: For | While, found: set[Var], apart: frozenset[Primitive]) -> None:
    for phi, init, after in zip(s.phis, s.inits, s.body.results, strict=True):
        if _is(init, found) or _is(after, found):
            found.add(phi)
    if isinstance(s, While):
        _visit(s.test, found, apart)
    _visit(s.body, found, apart)
    if own_pace(s, found):
        found.update(p for p, after in zip(s.phis, s.body.results, strict=True) if after is not p)
    found.update(o for o, p in zip(s.outs, s.phis, strict=True) if p in found)


def own_pace(s: For | While, found: set[Var]) -> bool:
    """True if the trip count of a loop differs between examples."""
    if isinstance(s, While):
        return _is(s.test.results[0], found)
    return any(_is(a, found) for a in (s.start, s.stop, s.step))


def diverges(block: Block, found: set[Var]) -> bool:
    """True if control flow differs between examples: in loops' trip counts, or in costly arms."""
    for s in block.statements:
        if isinstance(s, (For, While)) and own_pace(s, found):
            return True
        if isinstance(s, If) and _is(s.test, found):
            if not (is_total(s.then) and is_total(s.orelse)):
                return True
        if any(diverges(b, found) for b in core.blocks_of(s)):
            return True
    return False


def fits_a_thread(block: Block) -> bool:
    """True if one thread can run an example: numbers, and arrays made or stored into."""

    def fits(s: core.Statement) -> bool:
        if isinstance(s, Effect):
            return False
        if not isinstance(s, Apply):
            return True
        kept = s.primitive.kind in ("creation", "store")
        return kept or not any(o.type.ndim for o in s.outs)

    return all(map(fits, core.walk(block)))


def can_be_masked(block: Block) -> bool:
    """True if examples whose control flow differs can still be computed together, masked.

    All operations must be arithmetic on numbers; a loop runs until the last example has ended.
    """
    for s in block.statements:
        match s:
            case While():
                if not (is_total(s.test) and is_total(s.body)):
                    return False
            case If():
                if not (is_total(s.then) and is_total(s.orelse)):
                    return False
            case Apply():
                if any(o.type.ndim for o in s.outs) or not total_statement(s):
                    return False
            case _:
                return False
    return True


def is_total(block: Block, read: Collection[Any] = (), reversed: bool = False) -> bool:
    """True if a block may run for examples that do not take it: cheap, and defined everywhere.

    ``read`` holds the elements that have been read before, and so exist (see ``element``). If a
    reverse sweep is to come (``reversed``), no slope may be infinite: it would be multiplied by a
    cotangent of zero.

    >>> is_total(Block())
    True
    """
    if reversed and any(_has_unbounded_slope(s) for s in core.walk(block)):
        return False
    return all(total_statement(s, read) for s in block.statements)


def _has_unbounded_slope(s: core.Statement) -> bool:
    if not isinstance(s, Apply) or s.outs[0].type.dtype.kind not in "fc":
        return False
    factors = [a for a in s.args if isinstance(a, Var)]
    product = s.primitive is multiply and len(factors) > 1
    return product or s.primitive in _SQUARES


def element(s: Apply) -> Any:
    """The array and the index that a statement reads, as a key of ``read`` (see ``is_total``)."""
    return s.args, repr(s.params["index"])


def _in_range(s: Apply) -> bool:
    """True if an index is known to be in range: slices, and numbers below the size."""
    axes = iter(s.args[0].type.dims)
    for item in s.params["index"]:
        if item is None:
            continue
        if item is Ellipsis:
            return not any(isinstance(i, int | Slot) for i in s.params["index"])
        dim = next(axes)
        if isinstance(item, slice):
            continue
        if not isinstance(item, int) or not isinstance(dim, int) or not -dim <= item < dim:
            return False
    return True


def total_statement(s: core.Statement, read: Collection[Any] = ()) -> bool:
    """True if a statement may run for examples that do not take it (see ``is_total``)."""
    match s:
        case Apply(primitive=primitive, args=args, outs=outs):
            if any(o.type.dtype.kind not in "fb" and not _small(o.type) for o in outs):
                return False
            if primitive is getitem:
                return _in_range(s) or element(s) in read
            if primitive is power:
                return type(args[1]) in (int, float) and args[1] in (1, 2, 3, 4)
            if primitive is astype:
                return outs[0].type.dtype.kind == "f"
            if conversions(s):
                return False  # NumPy may refuse an integer
            if primitive.kind == "elementwise" and current().quiet:
                return all(o.type.dtype.kind in "fb" for o in outs)
            return primitive.total or primitive.kind == "size"
        case If(then=then, orelse=orelse):
            return is_total(then, read) and is_total(orelse, read)
    return False


def needs_lanes(block: Block, batched: Collection[Var]) -> bool:
    """True if a block may fail, or not end, where no example takes it."""
    found = mapped(block, batched)
    return any(_may_fail_on_none(s, found) for s in core.walk(block))


def _may_fail_on_none(s: core.Statement, found: Collection[Var]) -> bool:
    match s:
        case Apply(primitive=primitive, args=args):
            if not any(a in found for a in args if isinstance(a, Var)):
                return primitive.kind != "creation" and not total_statement(s)
            if primitive in (getitem, update, update_add, add_at):
                return not _in_range(s) and not _by_lanes(s, found)
            return primitive.kind not in ("elementwise", "size", "linear", "bilinear", "store")
        case For() | While():
            return not own_pace(s, set(found))
    return False


def _by_lanes(s: Apply, found: Collection[Var]) -> bool:
    """True if every item of an index is batched; NumPy checks others where no lane is, too."""
    given = s.args[s.primitive.first_index :]
    fixed = any(isinstance(part, int) for part in s.params.get("index", ()))
    return bool(given) and not fixed and all(a in found for a in given)


def _indices(s: Apply) -> list[Var]:
    return [a for a in s.args[s.primitive.first_index :] if isinstance(a, Var)]


def stored_roots(block: Block) -> dict[Var, Var]:
    """Versions of arrays that stores at plain indices make, and the arrays they were made from."""
    roots: dict[Var, Var] = {}
    for s in block.statements:
        if is_store(s) and isinstance(s.args[0], Var):
            if s.primitive is room or has_plain_index(s):
                roots[s.out] = roots.get(s.args[0], s.args[0])
    return roots


def read_by_element(blocks: Iterable[Block]) -> set[Var]:
    """Arrays of which blocks read single places alone, or slices."""
    found: set[Var] = set()
    otherwise: set[Var] = set()
    for block in blocks:
        otherwise.update(a for a in block.results if isinstance(a, Var))
        for s in block.statements:
            otherwise.update(v for b in core.blocks_of(s) for v in core.free_vars(b))
            used = [a for a in core.operands(s) if isinstance(a, Var)]
            if isinstance(s, Apply) and s.primitive is getitem and has_plain_index(s):
                found.add(used.pop(0))
            otherwise.update(used)
    return found - otherwise


def has_plain_index(s: Apply) -> bool:
    """True if a statement reads, or stores, at numbers and at slices with known bounds."""
    if not is_access(s):
        return False
    if any(a.type.ndim for a in _indices(s)):
        return False
    return all(
        isinstance(item, int | Slot)
        or (isinstance(item, slice) and not any(isinstance(b, Slot) for b in _bounds(item)))
        for item in s.params["index"]
    )


def _bounds(item: slice) -> tuple[Any, Any]:
    return item.start, item.stop


def _small(t: ArrayType) -> bool:
    return t.dtype.kind in "iu"
