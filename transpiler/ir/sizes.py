"""Dimensions of a program under construction, and requests for values that must be known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.transpiler.errors import NeedsKnownValue, Origin, SpecializationNeeded
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, EqualDims, Var
from calque.transpiler.ir.dims import Dims
from calque.transpiler.ir.types import DimLike, dim_symbols


class Sizes:
    """The dimensions of a program that is being built."""

    dims: Dims
    origin: Origin | None
    definitions: dict[Var, core.Statement]
    dim_values: dict[Var, DimLike]
    leaf_of_param: dict[Var, int]
    numbers: dict[Var, Any]
    equal_dims: list[EqualDims]
    doubted: list[tuple[DimLike, DimLike]]  # to be equal, and known when the program runs only
    spread: set[frozenset[DimLike]]  # of these, where one is spread if it turns out to be 1
    compared: set[frozenset[DimLike]]  # of these, what the program has compared by now

    def unify(self, left: DimLike, right: DimLike, origin: Origin | None = None) -> None:
        """Assume that two dimensions are equal, and remember to check it.

        Nothing is assumed of dimensions known only at run time: each operation on them checks its
        own where it is reached, and one of them may be 1.
        """
        left, right = self.dims.resolve(left), self.dims.resolve(right)
        unknown = self.dims.beyond_arguments(left - right)
        if frozenset((left, right)) in self.compared:
            return
        beyond = len(unknown) > 1 or not unknown <= self.dims.solvable
        if beyond or self.dims.is_tangled(left, right):
            self.doubted.append((left, right))
        elif self.dims.unify(left, right):
            self.equal_dims.append(EqualDims(left, right, None, self.origin))

    def broadcast(self, shapes: Sequence[Sequence[DimLike]]) -> tuple[DimLike, ...]:
        """The dimensions of operands broadcast together; those not known equal are unified."""
        rank = max(map(len, shapes), default=0)
        result: list[DimLike] = [1] * rank
        for dims in shapes:
            for axis, dim in enumerate(dims, rank - len(dims)):
                dim = self.dims.resolve(dim)
                if result[axis] == 1:
                    result[axis] = dim
                elif dim != 1:
                    result[axis] = self._common(result[axis], dim)
        return tuple(self.dims.resolve(d) for d in result)

    def _common(self, left: DimLike, right: DimLike) -> DimLike:
        """The broadcast size of an axis of two operands; if one is 1 at run time, the other one."""
        self.unify(left, right)
        if frozenset((left, right)) in self.compared:
            return left
        if self.dims.same(left, right):
            return left
        self.spread.add(frozenset((left, right)))
        for size, whole in ((left, right), (right, left)):
            if self.dims.is_spread_over(size, whole):
                return whole
        known = [d for d in (left, right) if not self.dims.beyond_arguments(d)]
        if known and self.dims.assume_never_one(known[0]):
            return known[0]
        return self.dims.unknown("broadcast", left, right)

    # values that must be known

    def needs_known(self, value: Any, why: str, hint: str | None = None) -> Exception:
        """The exception that asks to make the arguments static on which ``value`` depends."""
        leaves: set[int] = set()
        symbols: set[str] = set()
        numbers: set[Any] = set()
        pending, seen, possible = [getattr(value, "atom", value)], set(), True
        while pending and possible:
            var = pending.pop()
            if not isinstance(var, Var) or var in seen:
                continue
            seen.add(var)
            if var in self.leaf_of_param:
                possible = var.type.ndim == 0 and var.type.dtype.kind in "iub"
                leaves.add(self.leaf_of_param[var])
            elif var in self.numbers:
                numbers.add(self.numbers[var])
            elif var in self.dim_values and self._only_arguments(self.dim_values[var]):
                symbols |= dim_symbols(self._of_arguments(self.dim_values[var]))
            elif isinstance(statement := self.definitions.get(var), Apply):
                if statement.primitive.kind == "size":
                    possible = self._explain_sizes(statement.args[0], pending, symbols)
                else:
                    pending += statement.args
            elif isinstance(statement, core.If):
                where = statement.outs.index(var)
                pending += [statement.test, statement.then.results[where]]
                pending += [statement.orelse.results[where]]
            else:
                possible = False
        if possible and (leaves or symbols or numbers):
            wanted = (frozenset(leaves), frozenset(symbols))
            return SpecializationNeeded(*wanted, self.origin, why, frozenset(numbers))
        message = f"{why} must be known when the code is generated, and depends on "
        message += f"{self._run_time_data(value)}."
        return NeedsKnownValue(message, self.origin, hint or _way_to_know(value))

    def _run_time_data(self, value: Any) -> str:
        """A text for the run-time values that determine a value: arguments by name, if any."""
        found: dict[str, None] = {}
        pending, seen = [getattr(value, "atom", value)], set[Any]()
        while pending:
            var = pending.pop()
            if not isinstance(var, Var) or var in seen:
                continue
            seen.add(var)
            made = self.definitions.get(var)
            if made is None and var.name:
                if var.type.ndim or var.type.dtype.kind not in "iub":
                    found[f"the elements of {var.name}" if var.type.ndim else var.name] = None
            elif isinstance(made, Apply) and made.primitive.kind != "size":
                pending += made.args
        names = list(found)[:3]
        return f"run-time data: {', '.join(reversed(names))}" if names else "run-time data"

    def needs_dims(self, dims: Sequence[DimLike], why: str) -> Exception:
        """The exception that asks to make static what the given sizes depend on."""
        symbols: set[str] = set()
        sources: list[Any] = []
        possible = [self._explain(dim, sources, symbols) for dim in dims]
        if all(possible):
            wanted = [self.needs_known(source, why) for source in sources]
            if all(isinstance(w, SpecializationNeeded) for w in wanted):
                leaves = frozenset(i for w in wanted for i in getattr(w, "leaves", ()))
                symbols |= {s for w in wanted for s in w.symbols}  # type: ignore[attr-defined]
                numbers = frozenset(n for w in wanted for n in getattr(w, "numbers", ()))
                if leaves or symbols or numbers:
                    found = frozenset(symbols)
                    return SpecializationNeeded(leaves, found, self.origin, why, numbers)
        return NeedsKnownValue(f"{why} must be known when the code is generated.", self.origin)

    def _explain_sizes(self, array: Var, pending: list[Any], symbols: set[str]) -> bool:
        """Collect the arguments' sizes and integers behind an array's sizes; True if complete."""
        explained = [self._explain(dim, pending, symbols) for dim in array.type.dims]
        if all(explained):
            return True
        made = self.definitions.get(array)
        if isinstance(made, Apply) and made.primitive.kind == "elementwise":
            arrays = (a for a in made.args if isinstance(a, Var) and a.type.ndim)
            return all(self._explain_sizes(a, pending, symbols) for a in arrays)
        if not isinstance(made, Apply) or made.primitive.view_back is None:
            return False
        base, *rest = made.args
        if any(isinstance(r, Var) and r.type.ndim for r in rest):
            return False
        pending += rest
        return self._explain_sizes(base, pending, symbols)

    def _explain(self, dim: DimLike, pending: list[Any], symbols: set[str]) -> bool:
        """Add a dimension's symbols to ``symbols``, the integers behind others to ``pending``."""
        for name in dim_symbols(self._of_arguments(dim)):
            if name in self.dims.arguments:
                symbols.add(name)
                continue
            parts = self.dims.made_of(name)
            if parts is not None and all(self._explain(p, pending, symbols) for p in parts):
                continue
            behind = [v for v, d in self.dim_values.items() if dim_symbols(d) == {name}]
            behind = [v for v in behind if not _is_size(self.definitions.get(v))]
            if not behind:
                return False
            pending += behind[:1]
        return True

    def _only_arguments(self, dim: DimLike) -> bool:
        return dim_symbols(self._of_arguments(dim)) <= self.dims.arguments

    def _of_arguments(self, dim: DimLike) -> DimLike:
        """A dimension, with known equalities substituted unless it is one of arguments' sizes."""
        return dim if dim_symbols(dim) <= self.dims.arguments else self.dims.resolve(dim)


def _is_size(statement: Any) -> bool:
    return not isinstance(statement, Apply) or statement.primitive.kind == "size"


def _way_to_know(value: Any) -> str:
    """Advice for a value that must be known and depends on run-time data."""
    kind = value.dtype.kind if hasattr(value, "dtype") else "i"
    if kind in "iu":
        return "pass it as an integer argument of the function"
    return "take it from outside the function: a captured number is known, as in functools.partial"
