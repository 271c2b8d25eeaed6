"""Batching: which values differ between examples, and which arms may run for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler import core
from calque.transpiler.core import Apply, Atom, Block, For, If, Var, While
from calque.transpiler.types import ArrayType

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


_NONE: frozenset[str] = frozenset()


def mapped(block: Block, inputs: Iterable[Var], apart: frozenset[str] = _NONE) -> set[Var]:
    """The Vars that depend on ``inputs``, through data or through control flow.

    Results of the primitives of the names ``apart`` do not count.
    """
    found = set(inputs)
    while True:
        before = len(found)
        _visit(block, found, apart)
        if len(found) == before:
            return found


def _is(atom: Atom, found: set[Var]) -> bool:
    return isinstance(atom, Var) and atom in found


def _visit(block: Block, found: set[Var], apart: frozenset[str]) -> None:
    for s in block.statements:
        match s:
            case Apply(primitive=primitive, args=args, outs=outs):
                if primitive.kind == "size" or primitive.name in apart:
                    continue
                if any(_is(a, found) for a in args):
                    found.update(outs)
            case If(then=then, orelse=orelse, outs=outs, test=test):
                _visit(then, found, apart)
                _visit(orelse, found, apart)
                for out, *arms in zip(outs, then.results, orelse.results, strict=True):
                    if _is(test, found) or any(_is(a, found) for a in arms):
                        found.add(out)
            case For() | While():
                _visit_loop(s, found, apart)


def _visit_loop(s: For | While, found: set[Var], apart: frozenset[str]) -> None:
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
    """Whether each example goes round the loop its own number of times."""
    if isinstance(s, While):
        return _is(s.test.results[0], found)
    return any(_is(a, found) for a in (s.start, s.stop, s.step))


def diverges(block: Block, found: set[Var]) -> bool:
    """Whether examples go ways of their own: through loops of their own length, or costly arms."""
    for s in block.statements:
        if isinstance(s, (For, While)) and own_pace(s, found):
            return True
        if isinstance(s, If) and _is(s.test, found):
            if not (is_total(s.then) and is_total(s.orelse)):
                return True
        if any(diverges(b, found) for b in core.blocks_of(s)):
            return True
    return False


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
