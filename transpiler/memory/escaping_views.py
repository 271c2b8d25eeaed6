"""Copy results of transformations that are read-only views, since callers may store into them.

An adjoint with equal elements is ``np.broadcast_to`` of a scalar or a row: a read-only view whose
elements share memory. Before::

    x_bar: float64[n] = np.broadcast_to(0.5, n)
    yield x_bar

After, a copy of it is the result.
"""

from __future__ import annotations

from calque.transpiler.ir.core import Apply, Atom, Function, If, Var, walk
from calque.transpiler.ir.versions import Versions
from calque.transpiler.primitives.indexing import copy
from calque.transpiler.primitives.shapes import read_only

_DERIVED = "reverse"  # the phase of statements that a transformation made


def copy_escaping_views(function: Function, transformed: bool) -> None:
    """Copy read-only results, in place; without ``transformed``, adjoints only."""
    made_by = {o: s for s in walk(function.body) if isinstance(s, (Apply, If)) for o in s.outs}
    versions = Versions(made_by, _viewed)
    made: dict[Atom, Var] = {}
    for k, result in enumerate(function.body.results):
        if not isinstance(result, Var) or not result.type.ndim:
            continue
        closed = _closed(result, versions)
        if closed is None or not (transformed or closed.phase == _DERIVED):
            continue
        if result not in made:
            own = made[result] = Var(result.type, result.name, result.origin)
            s = Apply((own,), copy, (result,), {}, closed.origin, phase=closed.phase)
            function.body.statements.append(s)
        function.body.results[k] = made[result]


def _closed(result: Atom, versions: Versions) -> Apply | None:
    """The statement that makes the read-only view that a result is or views; None if writable."""
    for var in versions.earlier(result):
        s = versions.made.get(var)
        if isinstance(s, Apply) and s.primitive.view_back is read_only:
            return s
    return None


def _viewed(s: Apply) -> tuple[Atom, ...]:
    """The array that a view is of."""
    return s.args[:1] if s.primitive.view_back not in (None, read_only) else ()
