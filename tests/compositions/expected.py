"""The oracle for compositions of transformations, by Taylor polynomials of the program.

Every operator is linear algebra on polynomials: a Jacobian differentiates terms, ``vmap`` shifts
the variables of one example to its place. A polynomial is a dict from a sorted tuple of variables
to a coefficient; arrays hold them as objects.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from battery.oracle import leaves, rebuilt
from compositions import programs
from compositions.taylor import Series, TaylorNumPy, space

Poly = dict[tuple[int, ...], float]
ORDERS = {
    **{name: 1 for name in ("grad", "jvp", "vjp", "jacfwd", "jacrev")},
    **{"hessian": 2, "vmap": 0, "checkpoint": 0},
}
OPERATORS = tuple(ORDERS)


def twins(numpy: Any) -> dict[str, Any]:
    """The programs, with another module in NumPy's place."""
    text = Path(programs.__file__).read_text().replace("import numpy as np", "")
    scope = {"np": numpy, "__name__": "twins"}
    exec(compile(text, programs.__file__, "exec", dont_inherit=True), scope)
    return {name: function for name, (function, _) in scope["PROGRAMS"].items()}


taylor_twins = functools.cache(lambda: twins(TaylorNumPy()))


def lane(argument: Any, number: int) -> Any:
    """Example ``number`` of a program's argument."""
    factor = 1.0 + 0.13 * np.sin(2.3 * number)
    whole = np.asarray
    if isinstance(argument, list) or not isinstance(argument, (dict, tuple)):
        return whole(argument, float) * factor if isinstance(argument, list) else argument * factor
    if isinstance(argument, dict):
        return {k: lane(v, number) for k, v in argument.items()}
    return tuple(lane(v, number) for v in argument)


def point(argument: Any, sizes: tuple[int, ...], number: int = 0) -> Any:
    """An argument with a batch axis for each ``vmap`` around the program, outermost first."""
    if not sizes:
        return lane(argument, number)
    if not sizes[0]:
        one = point(argument, sizes[1:], 0)
        return rebuilt(one, iter([np.zeros((0, *np.shape(x))) for x in leaves(one)]))
    every = [point(argument, sizes[1:], sizes[0] * number + k) for k in range(sizes[0])]
    columns = zip(*map(leaves, every), strict=True)
    return rebuilt(every[0], iter([np.stack(c) for c in columns]))


@functools.cache
def expansion(name: str, number: int) -> Any:
    """The Taylor polynomials of a program's results at one example."""
    x = lane(programs.PROGRAMS[name][1], number)
    flat = [np.asarray(leaf, float) for leaf in leaves(x)]
    base = space(sum(a.size for a in flat))
    made, count = [], 0
    for a in flat:
        variables = np.empty(a.shape, object)
        for k in np.ndindex(a.shape):
            terms = np.zeros(base.size)
            terms[0], terms[1 + count] = a[k], 1.0
            variables[k] = Series(base, terms)
            count += 1
        made.append(variables if a.ndim else variables[()])
    result = taylor_twins()[name](rebuilt(x, iter(made)))
    return rebuilt(result, iter([_polys(leaf) for leaf in leaves(result)]))


def _polys(leaf: Any) -> np.ndarray:
    whole = np.asarray(leaf, object)
    found = np.empty(whole.shape, object)
    for k in np.ndindex(whole.shape):
        value = whole[k]
        if isinstance(value, Series):
            terms = zip(value.space.monomials, value.terms, strict=True)
            found[k] = {m: float(c) for m, c in terms if c}
        else:
            found[k] = {(): float(value)}
    return found


def composed(
    operators: tuple[str, ...], name: str, sizes: tuple[int, ...] | None = None
) -> tuple[Any, Any]:
    """The argument and the result of ``operators[0](operators[1](... program))``."""
    argument = programs.PROGRAMS[name][1]
    sizes = (2,) * operators.count("vmap") if sizes is None else sizes
    x = point(argument, sizes)
    polys = _expand(operators, name, sizes, 0, 0)
    constants = [_constants(leaf) for leaf in leaves(polys)]
    return x, rebuilt(polys, iter(constants))


def is_scalar(operators: tuple[str, ...], name: str) -> bool:
    """True if the result of a composition is a single number."""
    polys = _expand(operators, name, (1,) * operators.count("vmap"), 0, 0)
    return isinstance(polys, np.ndarray) and not polys.ndim


def _constants(polys: np.ndarray) -> np.ndarray:
    found = [p.get((), 0.0) for p in polys.ravel()]
    return np.array(found, float).reshape(polys.shape)


def _expand(
    operators: tuple[str, ...], name: str, sizes: tuple[int, ...], number: int, degree: int
) -> Any:
    """Polynomials to ``degree`` in the deviations of the composition's argument."""
    if not operators:
        whole = expansion(name, number)
        cut = [_each(leaf, lambda p: _truncated(p, degree)) for leaf in leaves(whole)]
        return rebuilt(whole, iter(cut))
    first, rest = operators[0], operators[1:]
    x = point(programs.PROGRAMS[name][1], sizes, number)
    if first == "checkpoint":
        return _expand(rest, name, sizes, number, degree)
    if first == "vmap":
        return _batched(rest, name, sizes, number, degree, x)
    inner = _expand(rest, name, sizes, number, degree + ORDERS[first])
    match first:
        case "grad":
            return _pulled(inner, _scaling(inner), x)
        case "jacfwd" | "jacrev":
            return _jacobian(inner, x)
        case "hessian":
            return _jacobian(_jacobian(inner, x), x)
        case "jvp":
            flat = np.concatenate([np.ravel(a) for a in leaves(x)])
            scale = np.concatenate([weights(np.shape(a)).ravel() for a in leaves(x)])
            tangent = [{(): w * v, (j,): w} for j, (v, w) in enumerate(zip(flat, scale))]
            made = [_each(a, lambda p: _pushed(p, tangent)) for a in leaves(inner)]
            return rebuilt(inner, iter(made))
        case "vjp":
            scaled = []
            for a in leaves(inner):
                w = weights(a.shape)
                products = np.empty(a.shape, object)
                for k in np.ndindex(a.shape):
                    products[k] = {m: c * float(w[k]) for m, c in a[k].items()}
                scaled.append(products)
            return _pulled(inner, scaled, x)
    raise AssertionError(first)


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """The fixed numbers with which vectors of results and tangents are weighed."""
    return np.cos(1.0 + np.arange(np.prod(shape, dtype=int)).reshape(shape))


def _scaling(inner: Any) -> list[np.ndarray]:
    """Return the weights of the results in the sum that ``grad`` differentiates: 1 for one number."""
    if isinstance(inner, np.ndarray) and not inner.ndim:
        one = np.empty((), object)
        one[()] = {(): 1.0}
        return [one]
    return [_each(weights(a.shape), lambda w: {(): float(w)}) for a in leaves(inner)]


def _each(array: np.ndarray, function: Any) -> np.ndarray:
    found = np.empty(array.shape, object)
    for k in np.ndindex(array.shape):
        found[k] = function(array[k])
    return found


def _truncated(p: Poly, degree: int) -> Poly:
    return {m: c for m, c in p.items() if len(m) <= degree}


def _derivatives(p: Poly) -> dict[int, Poly]:
    """The derivatives that are not zero, by variable."""
    found: dict[int, Poly] = {}
    for m, c in p.items():
        for j in set(m):
            rest = list(m)
            rest.remove(j)
            found.setdefault(j, {})[tuple(rest)] = c * m.count(j)
    return found


def _add_product(total: Poly, a: Poly, b: Poly) -> None:
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted(m + n))
            total[key] = total.get(key, 0.0) + c * d


def _pushed(p: Poly, tangent: list[Poly]) -> Poly:
    total: Poly = {}
    for j, slope in _derivatives(p).items():
        _add_product(total, slope, tangent[j])
    return total


def _pulled(inner: Any, cotangents: list[np.ndarray], x: Any) -> Any:
    size = sum(np.size(a) for a in leaves(x))
    totals: list[Poly] = [{} for _ in range(size)]
    for array, cotangent in zip(leaves(inner), cotangents, strict=True):
        for k in np.ndindex(array.shape):
            for j, slope in _derivatives(array[k]).items():
                _add_product(totals[j], slope, cotangent[k])
    return _as_argument(totals, x)


def _as_argument(polys: list[Poly], x: Any) -> Any:
    given = iter(polys)
    made = []
    for a in leaves(x):
        piece = np.empty(np.shape(a), object)
        for k in np.ndindex(piece.shape):
            piece[k] = next(given)
        made.append(piece)
    return rebuilt(x, iter(made))


def _jacobian(inner: Any, x: Any) -> Any:
    made = []
    for array in leaves(inner):
        slopes = {k: _derivatives(array[k]) for k in np.ndindex(array.shape)}
        pieces, offset = [], 0
        for a in leaves(x):
            piece = np.empty(array.shape + np.shape(a), object)
            for k in np.ndindex(array.shape):
                for n, j in enumerate(np.ndindex(np.shape(a))):
                    piece[k + j] = slopes[k].get(offset + n, {})
            pieces.append(piece)
            offset += np.size(a)
        made.append(rebuilt(x, iter(pieces)))
    return rebuilt(inner, iter(made))


def _batched(
    rest: tuple[str, ...], name: str, sizes: tuple[int, ...], number: int, degree: int, x: Any
) -> Any:
    size, inner = sizes[0], sizes[1:]
    one = point(programs.PROGRAMS[name][1], inner, 0)
    places: list[list[int]] = [[] for _ in range(size)]  # of the variables of each example
    offset = 0
    for a in leaves(one):
        for k in range(size):
            places[k] += range(offset + k * np.size(a), offset + (k + 1) * np.size(a))
        offset += size * np.size(a)
    if not size:
        found = _expand(rest, name, inner, 0, degree)
        return rebuilt(found, iter([np.empty((0, *a.shape), object) for a in leaves(found)]))
    every = []
    for k in range(size):
        found = _expand(rest, name, inner, size * number + k, degree)
        move = functools.partial(_moved, places=places[k])
        every.append([_each(leaf, move) for leaf in leaves(found)])
    return rebuilt(found, iter([np.stack(column) for column in zip(*every, strict=True)]))


def _moved(p: Poly, places: list[int]) -> Poly:
    return {tuple(sorted(places[j] for j in m)): c for m, c in p.items()}
