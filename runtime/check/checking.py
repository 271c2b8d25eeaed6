"""Checks of derivatives against differences and against each other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.runtime.call.arguments import naming, private_copies
from calque.runtime.check.bisecting import Fault, find_faults, worst
from calque.runtime.check.directional import Comparison, Leaves, Modes, is_float
from calque.runtime.linear_maps import jvp, vjp
from calque.runtime.options import checked
from calque.runtime.outside import outside
from calque.runtime.tracebacks import hide_own_frames
from calque.transpiler.errors import (
    NestedTooDeeply,
    NonFiniteError,
    NotDifferentiable,
    WrongDerivative,
)
from calque.transpiler.ir import pytrees
from calque.transpiler.late import Late

if TYPE_CHECKING:
    from calque.runtime.check import of_matrices
else:
    of_matrices = Late("calque.runtime.check.of_matrices")


@dataclass(frozen=True)
class Report:
    """The findings of ``check``: one comparison for each argument, and the statements at fault."""

    rows: tuple[tuple[str, Comparison], ...]
    faults: tuple[Fault, ...] = ()

    @property
    def agrees(self) -> bool:
        """True if forward mode, reverse mode and differences agree."""
        return all(not row.verdict for _, row in self.rows)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The arguments by which all derivatives are zero: these agree, whatever the rules are."""
        return tuple(name for name, row in self.rows if row.is_zero)

    def with_more(self, other: Report) -> Report:
        """This report, completed by another one, which compared along other directions."""
        pairs = zip(self.rows, other.rows, strict=True)
        rows = tuple(two if one[1].is_zero or two[1].verdict else one for one, two in pairs)
        return Report(rows, self.faults or other.faults)

    def __str__(self) -> str:
        cells: list[tuple[str, ...]] = [("argument", "forward", "reverse", "differences", "agree")]
        for name, row in self.rows:
            found = (row.forward, row.reverse, row.differences)
            numbers = ("refused" if x is None else f"{x:.10g}" for x in found)
            said = "NO" if row.verdict else "all zero" if row.is_zero else "yes"
            said = "a jump" if row.jumps and not row.verdict else said
            cells.append((name, *numbers, said))
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]
        if self.unchecked:
            names = ", ".join(self.unchecked)
            lines.append(f"By {names} nothing was checked: all derivatives are zero here.")
        if jumping := [name for name, row in self.rows if row.jumps]:
            lines.append(f"By {', '.join(jumping)} the function jumps here: try other arguments.")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # so that a notebook shows the table

    def error(self) -> WrongDerivative:
        """The error that ``check`` raises: of the first statement at fault, or of the argument."""
        if self.faults:
            first, *others = self.faults
            told = first.origin.line if first.origin else None
            lines = sorted({f.origin.line for f in others if f.origin} - {told})
            word = "does line" if len(lines) == 1 else "do lines"
            more = f" So {word} {', '.join(map(str, lines))}." if lines else ""
            return WrongDerivative(f"The derivative of {first.message}.{more}", first.origin)
        name, row = next(pair for pair in self.rows if pair[1].verdict)
        return WrongDerivative(
            f"By {name}, {row.verdict}; yet every statement is right by itself.\n{self}"
        )


@outside
def check(fn: Callable[..., Any], *args: Any, seed: int = 0) -> Report:
    """Test the derivatives of ``fn`` at these arguments, and name the statement that fails.

    By each argument, forward mode is compared with reverse mode (the dot-product test,
    ``<w, J v> = <J' w, v>`` for random v and w) and with differences. Where they disagree, every
    statement of ``fn`` is tested by itself, at the values it had in this call. Of a sparse
    derivative, products with its matrix are compared so.

    Returns a report, to print. Raises WrongDerivative (an AssertionError) that shows the line,
    NotDifferentiable where no argument is of a floating dtype, and NonFiniteError where they
    disagree at a NaN or an infinity.

    ``args`` are those of a call; ``seed`` is that of the random directions.

    >>> print(check(lambda x, y: np.sin(x) * y, 0.5, 2.0))
    argument  forward        reverse        differences    agree
    x         ...
    y         ...
    """
    try:
        seed = checked("check", fn=fn, seed=seed)["seed"]
        report = examine(fn, args, seed)
        if not report.agrees:
            raise report.error()
        return report
    except Exception as error:
        hide_own_frames(error)
        raise


def examine(fn: Callable[..., Any], args: tuple[Any, ...], seed: int = 0) -> Report:
    """The report of ``check``, whether or not the derivatives agree."""
    try:
        leaves, structure = pytrees.flatten(args)
    except NestedTooDeeply as error:
        raise naming(error, "check", fn, (args, {})) from None
    names = _names(fn, args)
    owners = [k for k, arg in enumerate(args) for _ in pytrees.flatten(arg)[0]]
    sparse: Any = fn if hasattr(fn, "calque_program") else None  # of which the matrix is tested
    modes = of_matrices.modes_of(sparse, structure) if sparse else _modes(fn, structure)
    rows = []
    for index, name in enumerate(names):
        moving = {k for k, x in enumerate(leaves) if owners[k] == index and is_float(x)}
        if moving and (not sparse or index in sparse.argnums):
            rows.append((name, worst(modes, leaves, moving, seed)))
    if not rows:
        raise NotDifferentiable(
            f"no argument is of a floating dtype ({', '.join(names) or 'none'}): nothing to "
            "differentiate by"
        )
    report = Report(tuple(rows))
    if report.agrees:
        return report
    if not all(row.is_finite for _, row in rows if row.verdict):
        for name, arg in zip(names, args):
            _refuse_unbounded(name, arg)
    function = sparse.function if sparse else fn
    return Report(report.rows, tuple(find_faults(function, private_copies(args), seed)))


def _refuse_unbounded(name: str, arg: Any) -> None:
    """Raise where derivatives cannot agree, because an argument has a NaN or an infinity."""
    for path, leaf in zip(pytrees.paths(arg), pytrees.flatten(arg)[0]):
        if is_float(leaf) and not np.all(np.isfinite(leaf)):
            place = np.argwhere(~np.isfinite(leaf))[0].tolist()
            value = np.asarray(leaf)[tuple(place)]
            where = f"{name}{path}{place}" if place else f"{name}{path}"
            raise NonFiniteError(
                f"{where} is {value}: derivatives are compared at finite numbers",
                hint="give other arguments, or mask these elements in the function",
            )


def _names(fn: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    try:
        names = list(inspect.signature(fn).bind(*args).arguments)
    except (TypeError, ValueError):
        names = []
    return names + [f"argument {k}" for k in range(len(names), len(args))]


def _modes(fn: Callable[..., Any], structure: Any) -> Modes:
    def value(leaves: list[Any]) -> Leaves:
        return pytrees.flatten(fn(*pytrees.unflatten(structure, leaves)))[0]

    def push(leaves: list[Any], dots: list[Any]) -> tuple[Leaves, Leaves]:
        found = jvp(fn, pytrees.unflatten(structure, leaves), pytrees.unflatten(structure, dots))
        return pytrees.flatten(found[0])[0], pytrees.flatten(found[1])[0]

    def pull(leaves: list[Any], bars: list[Any]) -> Leaves:
        out, pullback = vjp(fn, *pytrees.unflatten(structure, leaves))
        cotangent = pytrees.unflatten(pytrees.flatten(out)[1], bars)
        return pytrees.flatten(tuple(pullback(cotangent)))[0]

    return Modes(value, push, pull)


@outside
def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """Compare derivatives with central differences along random directions, as JAX does.

    Raises AssertionError where they disagree.

    ``f`` is called with ``args``. ``order`` is how many times it is differentiated; ``modes`` are
    "fwd", "rev" or both. ``atol`` and ``rtol`` are the tolerances, ``eps`` is the step of the
    differences: by default what suits the dtype.

    >>> check_grads(lambda x: np.sin(x) * x, (0.7,), order=2)
    """
    try:
        found = checked(
            "check_grads", f=f, args=args, order=order, modes=modes, atol=atol, rtol=rtol, eps=eps
        )
        modes, atol, rtol, eps = (found[name] for name in ("modes", "atol", "rtol", "eps"))
        try:
            pytrees.flatten(args)
        except NestedTooDeeply as error:
            raise naming(error, "check_grads", f, (args, {})) from None
        step = 1e-6 if eps is None else eps
        tolerance = {
            "rtol": 1e-5 if rtol is None else rtol,
            "atol": 1e-6 if atol is None else atol,
        }
        rng = np.random.default_rng(0)
        tangents = pytrees.tree_map(lambda x: _direction(x, rng), args)
        expected = _differences(f, args, tangents, step)
        if "fwd" in modes:
            found = jvp(f, args, tangents)[1]
            _close(found, expected, "forward mode against differences", tolerance)
        if "rev" in modes:
            value, pullback = vjp(f, *args)
            weights = pytrees.tree_map(lambda y: _direction(y, rng), value)
            given = _inner(tangents, tuple(pullback(weights)))
            _close(given, _inner(expected, weights), "reverse mode against differences", tolerance)
        if order > 1:
            if "fwd" in modes:
                check_grads(
                    _Tangent(f, len(args)), (*args, *tangents), order - 1, ("fwd",), atol, rtol, eps
                )
            if "rev" in modes:
                weights = pytrees.tree_map(lambda y: _direction(y, rng), vjp(f, *args)[0])
                check_grads(_Pullback(f), (*args, weights), order - 1, ("rev",), atol, rtol, eps)
    except Exception as error:
        hide_own_frames(error)
        raise


def _Tangent(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    pushed = jvp(f)

    def tangent(*args: Any) -> Any:
        return pushed(*args)[1]

    return tangent


def _Pullback(f: Callable[..., Any]) -> Callable[..., Any]:
    return vjp(f)


def _is_float(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def _direction(x: Any, rng: np.random.Generator) -> Any:
    if not _is_float(x):
        return np.zeros(np.shape(x), np.dtype([("float0", "V")]))
    made = rng.standard_normal(np.shape(x))
    if np.asarray(x).dtype.kind == "c":
        made = made + 1j * rng.standard_normal(np.shape(x))
    if isinstance(x, (float, complex)):
        return type(x)(made)
    return np.asarray(made, np.asarray(x).dtype)[()]


def _differences(f: Callable[..., Any], args: Any, tangents: Any, step: float) -> Any:
    def moved(sign: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            return x + sign * step * t if _is_float(x) else x

        return f(*pytrees.tree_map(lambda x, t: _copy(move(x, t)), args, tangents))

    return pytrees.tree_map(
        lambda a, b: (np.asarray(a) - np.asarray(b)) / (2 * step), moved(1.0), moved(-1.0)
    )


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _inner(left: Any, right: Any) -> Any:
    pairs = zip(pytrees.flatten(left)[0], pytrees.flatten(right)[0], strict=True)
    return sum(
        np.sum(np.asarray(a) * np.asarray(b)).real
        for a, b in pairs
        if _is_float(a) and _is_float(b)
    )


def _close(given: Any, expected: Any, what: str, tolerance: dict[str, float]) -> None:
    for a, b in zip(pytrees.flatten(given)[0], pytrees.flatten(expected)[0], strict=True):
        if _is_float(b) and np.asarray(a).dtype.kind in "fc":
            np.testing.assert_allclose(a, b, tolerance["rtol"], tolerance["atol"], err_msg=what)
