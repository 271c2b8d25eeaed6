"""The last of several parts, of which less is read than of the others.

The way back through the first layer needs no adjoint of what comes in: its statements are those of
the other layers, but for some. Where these are few and cheap the function serves there, too, and
what it computes in vain is not read.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from calque.transpiler.ir.core import Apply, Atom, Statement, Var
from calque.transpiler.outlining.part_forms import Occurrence, PartFormer
from calque.transpiler.primitives.elementwise import divide

_READ = 0.3  # the share of the statements that is there at least


def last_part(
    statements: Sequence[Statement],
    groups: Sequence[Sequence[Occurrence]],
    number: int,
    former: PartFormer,
) -> Occurrence | None:
    """The part behind the last one of a group that equals these but for needless statements.

    ``statements`` are those of the block up to the next that belongs to a part. None if there is
    no such part.
    """
    group = groups[number]
    model, start = group[0], group[-1].places.stop
    same: dict[Var, Var] = {}
    missing: list[Statement] = []
    at = 0
    for s in model.statements:
        if at < len(statements) and _corresponds(s, statements[at], same, missing, former):
            at += 1
        else:
            missing.append(s)
    if not missing or at < _READ * len(model.statements) or not all(map(_is_cheap, missing)):
        return None
    made = {o for s in missing for o in s.outs}
    values: list[Var] = []
    for v in model.form.values:
        if v in made:
            values.append(Var(v.type, v.name, v.origin))
            continue
        found = same.get(v) or _alike(v, same, groups, number)
        if found is None or former.kind(found) != former.kind(v):
            return None
        values.append(found)
    here = dict(zip(model.form.values, values, strict=True))
    divisors = {_divisor(s) for parts in groups for p in parts for s in p.statements}
    if not all(_is_quiet(s, here, divisors) for s in missing):
        return None
    form = model.form._replace(values=tuple(values))
    return Occurrence(start, [*statements[:at]], form)


def _corresponds(
    s: Statement,
    here: Statement,
    same: dict[Var, Var],
    missing: Sequence[Statement],
    former: PartFormer,
) -> bool:
    """True if a statement is one of the model's; then ``same`` gains its values."""
    if type(s) is not type(here) or s.phase != here.phase:
        return False
    if isinstance(s, Apply) and isinstance(here, Apply) and s.primitive is not here.primitive:
        return False
    one, other = former.part([s]), former.part([here])
    if one.text != other.text or one.floats != other.floats or other.renaming_of(one):
        return False
    lost = {o for t in missing for o in t.outs}
    pairs = list(zip(one.values, other.values, strict=True))
    if any(v in lost or same.get(v, w) is not w for v, w in pairs):
        return False
    same.update(pairs)
    return True


def _is_cheap(s: Statement) -> bool:
    """True for work on elements, and for sums of them."""
    if not isinstance(s, Apply):
        return False
    return s.primitive.kind == "elementwise" or bool(s.primitive.reduction)


def _is_quiet(s: Statement, here: Mapping[Var, Var], divisors: Container[Atom]) -> bool:
    """True if a statement warns of nothing, and raises nothing, that others do not.

    It divides by sizes, or by what is divided by elsewhere.
    """
    if not isinstance(s, Apply) or s.primitive.kind != "elementwise" or s.primitive.total:
        return True
    by = _divisor(s)
    if not isinstance(by, Var):
        return by is not None
    return here[by] in divisors or (not by.type.ndim and by.type.dtype.kind in "iu")


def _divisor(s: Statement) -> Atom:
    """The value that a statement divides by; None for other statements."""
    return s.args[1] if isinstance(s, Apply) and s.primitive is divide else None


def _alike(
    v: Var, same: Mapping[Var, Var], groups: Sequence[Sequence[Occurrence]], number: int
) -> Var | None:
    """The value that only missing statements read: as all read it, or of the layer's other part."""
    model, *others = groups[number]
    k = model.numbers[v]
    if all(p.form.values[k] is v for p in others):
        return v
    for g, parts in enumerate(groups):
        own = [p for p in parts if v in p.numbers] if g != number else []
        if len(own) == 1:
            found = {
                id(p): p
                for x, y in same.items()
                if x in own[0].numbers
                for p in parts
                if p.numbers.get(y) == own[0].numbers[x]
            }
            if len(found) == 1:
                return next(iter(found.values())).form.values[own[0].numbers[v]]
    return None
