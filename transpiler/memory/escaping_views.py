"""Copy results of transformations that are read-only views, since callers may store into them.

An adjoint with equal elements is ``np.broadcast_to`` of a scalar or a row: a read-only view whose
elements share memory. Before::

    x_bar: float64[n] = np.broadcast_to(0.5, n)
    yield x_bar

After, a copy of it is the result.
"""

from __future__ import annotations

from calque.transpiler.ir.core import Apply, Atom, Function, If, Statement, Var, walk
from calque.transpiler.primitives.indexing import copy
from calque.transpiler.primitives.shapes import read_only

_DERIVED = "reverse"  # the phase of statements that a transformation made


def copy_escaping_views(function: Function, transformed: bool) -> None:
    """Copy read-only results, in place; without ``transformed``, adjoints only."""
    definitions = {out: s for s in walk(function.body) for out in s.outs}
    made: dict[Atom, Var] = {}
    for k, result in enumerate(function.body.results):
        if not isinstance(result, Var) or not result.type.ndim:
            continue
        closed = _closed(result, definitions)
        if closed is None or not (transformed or closed.phase == _DERIVED):
            continue
        if result not in made:
            own = made[result] = Var(result.type, result.name, result.origin)
            s = Apply((own,), copy, (result,), {}, closed.origin, phase=closed.phase)
            function.body.statements.append(s)
        function.body.results[k] = made[result]


def _closed(result: Atom, definitions: dict[Var, Statement]) -> Statement | None:
    """The statement that makes the read-only view that a result is or views; None if writable."""
    pending, seen = [result], set[Var]()
    while pending:
        var = pending.pop()
        if not isinstance(var, Var) or var in seen:
            continue
        seen.add(var)
        match definitions.get(var):
            case Apply() as s if s.primitive.view_back is read_only:
                return s
            case Apply() as s if s.primitive.view_back is not None:
                pending.append(s.args[0])
            case If() as s:
                place = s.outs.index(var)
                pending += [s.then.results[place], s.orelse.results[place]]
            case _:
                pass
    return None
