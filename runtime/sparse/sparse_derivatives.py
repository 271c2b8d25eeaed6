"""Sparse Jacobians and Hessians: coloured once, computed by one batched program, given to SciPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from calque.runtime.api import value_and_grad
from calque.runtime.options import checked
from calque.runtime.sparse.coloring import ColoredPattern, colored, colored_symmetric
from calque.runtime.sparse.detecting import Detected, detect, value_like
from calque.runtime.sparse.evaluation import SparseDerivative, matrix_alone
from calque.runtime.sparse.patterns import SparsityPattern
from calque.runtime.trees import tree_leaves
from calque.transpiler.errors import DtypeError, NotDifferentiable
from calque.transpiler.frontend.source import UNQUOTED

Argnums = int | Sequence[int]
UNQUOTED.add(__file__)


def jacobian(
    fun: Callable[..., Any],
    *args: Any,
    argnums: Argnums = 0,
    has_aux: bool = False,
    mode: str | None = None,
    chunk_size: int | None = None,
    sparsity: Any = None,
    format: str = "csr",
) -> SparseDerivative:
    """The function that gives the sparse Jacobian of ``fun``, in the sizes of ``args``.

    The Jacobian has a row for each number of the result and a column for each number of the
    arguments that ``argnums`` chooses, an int or several, both in the order of ``ravel_pytree``.
    Its pattern is detected once, for all inputs of these sizes, and its columns (``mode``
    "forward") or rows ("reverse"; None: what needs fewer) are coloured. ``chunk_size`` bounds how
    many colours are computed at a time; ``sparsity`` is the pattern where it is known: a matrix, or
    a SparsityPattern. ``format`` is "csr", "csc", "coo" or "dense". With ``has_aux``, ``fun``
    returns ``(value, aux)``, and the function ``(jacobian, aux)``. Warns with DenseBlockWarning of
    operations whose pattern is not known, and raises SparsityUndecided where the sizes within the
    program depend on the inputs.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> jac = jacobian(lambda x: x[1:] * x[:-1], x)
    >>> jac(x).toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    gives = _with_aux if has_aux else matrix_alone
    options = {"chunk_size": chunk_size, "format": format, "mode": mode}
    return _jacobian("jacobian", fun, args, argnums, has_aux, sparsity, gives, options)


def value_and_jacobian(
    fun: Callable[..., Any],
    *args: Any,
    argnums: Argnums = 0,
    has_aux: bool = False,
    mode: str | None = None,
    chunk_size: int | None = None,
    sparsity: Any = None,
    format: str = "csr",
) -> SparseDerivative:
    """The function that gives ``(value, jacobian)``; with aux ``((value, aux), jacobian)``.

    Parameters, ``fun``, ``args``, ``argnums``, ``has_aux``, ``mode``, ``chunk_size``, ``sparsity``
    and ``format``, are those of ``jacobian``.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> value, matrix = value_and_jacobian(lambda x: x[1:] * x[:-1], x)(x)
    >>> value, matrix.nnz
    (array([2., 6.]), 4)
    """
    gives = _with_value_and_aux if has_aux else _with_value
    options = {"chunk_size": chunk_size, "format": format, "mode": mode}
    return _jacobian("value_and_jacobian", fun, args, argnums, has_aux, sparsity, gives, options)


def hessian(
    fun: Callable[..., Any],
    *args: Any,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    sparsity: Any = None,
    format: str = "csr",
) -> SparseDerivative:
    """The function that gives the sparse Hessian of ``fun``, which returns a number.

    Its pattern is that of the gradient's Jacobian, its colours are those of a star colouring: fewer
    than the Jacobian's, because of two symmetric entries one is computed. Parameters,
    ``fun``, ``args``, ``argnums``, ``has_aux``, ``chunk_size``, ``sparsity`` and ``format``, are
    those of ``jacobian``, and so are warnings and errors.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2), x)(x).toarray()
    array([[4., 2., 0.],
           [2., 6., 4.],
           [0., 4., 0.]])
    """
    gives = _with_aux_of_gradient if has_aux else matrix_alone
    options = {"chunk_size": chunk_size, "format": format}
    return _hessian("hessian", fun, args, argnums, has_aux, sparsity, gives, options)


def value_and_hessian(
    fun: Callable[..., Any],
    *args: Any,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    sparsity: Any = None,
    format: str = "csr",
) -> SparseDerivative:
    """The function that gives ``(value, hessian)``; with ``has_aux``, ``((value, aux), hessian)``.

    Parameters, ``fun``, ``args``, ``argnums``, ``has_aux``, ``chunk_size``, ``sparsity`` and
    ``format``, are those of ``jacobian``.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0])
    >>> value, matrix = value_and_hessian(lambda x: x[0] * x[1], x)(x)
    >>> value, matrix.nnz
    (np.float64(2.0), 2)
    """
    gives = _with_value_and_aux_of_gradient if has_aux else _with_value_of_gradient
    options = {"chunk_size": chunk_size, "format": format}
    return _hessian("value_and_hessian", fun, args, argnums, has_aux, sparsity, gives, options)


def jacobian_sparsity(
    fun: Callable[..., Any], *args: Any, argnums: Argnums = 0, has_aux: bool = False
) -> SparsityPattern:
    """The pattern of the Jacobian of ``fun``, for all inputs in the sizes of ``args``.

    Parameters, ``fun``, ``args``, ``argnums`` and ``has_aux``, are those of ``jacobian``, and so
    are warnings and errors.

    >>> import numpy as np
    >>> pattern = jacobian_sparsity(lambda x: x[1:] - x[:-1], np.zeros(4))
    >>> pattern.shape, pattern.rows.tolist(), pattern.cols.tolist()
    ((3, 4), [0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 3])
    """
    pair, numbers = _taken("jacobian_sparsity", fun, args, argnums, has_aux)
    return detect(pair, args, numbers).pattern


def hessian_sparsity(
    fun: Callable[..., Any], *args: Any, argnums: Argnums = 0, has_aux: bool = False
) -> SparsityPattern:
    """The pattern of the Hessian of ``fun``, for all inputs in the sizes of ``args``.

    Parameters, ``fun``, ``args``, ``argnums`` and ``has_aux``, are those of ``jacobian``, and so
    are warnings and errors.

    >>> import numpy as np
    >>> hessian_sparsity(lambda x: np.sum(x[1:] * x[:-1]), np.zeros(3)).nnz
    4
    """
    pair, numbers = _taken("hessian_sparsity", fun, args, argnums, has_aux)
    _check_number("hessian_sparsity", pair, args)
    return detect(_gradient(pair, numbers), args, numbers).pattern.symmetric()


def jacobian_coloring(
    fun: Any, *args: Any, argnums: Argnums = 0, has_aux: bool = False, mode: str | None = None
) -> ColoredPattern:
    """The colours of a Jacobian's columns or rows; ``fun`` is a function, or a pattern.

    Parameters, ``args``, ``argnums``, ``has_aux`` and ``mode``, are those of ``jacobian``.

    >>> import numpy as np
    >>> coloring = jacobian_coloring(np.eye(3) + np.eye(3, k=1))
    >>> coloring.num_colors, coloring.colors.tolist(), coloring.mode
    (2, [0, 1, 0], 'forward')
    """
    mode = checked("jacobian_coloring", mode=mode)["mode"]
    return colored(_pattern(jacobian_sparsity, fun, args, argnums, has_aux), mode)


def hessian_coloring(
    fun: Any, *args: Any, argnums: Argnums = 0, has_aux: bool = False
) -> ColoredPattern:
    """The star colouring of a Hessian; ``fun`` is a function, or a pattern.

    Parameters, ``args``, ``argnums`` and ``has_aux``, are those of ``hessian``.

    >>> import numpy as np
    >>> hessian_coloring(np.eye(4) + np.eye(4, k=1)).num_colors
    3
    """
    return colored_symmetric(_pattern(hessian_sparsity, fun, args, argnums, has_aux))


def jacobian_from_coloring(
    fun: Callable[..., Any],
    coloring: ColoredPattern,
    *args: Any,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    format: str = "csr",
) -> SparseDerivative:
    """``jacobian(fun, *args)`` with colours that are known: saved ones, or another function's.

    ``coloring`` has a mode "forward" or "reverse". Other parameters, ``fun``, ``args``,
    ``argnums``, ``has_aux``, ``chunk_size`` and ``format``, are those of ``jacobian``.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> coloring = jacobian_coloring(np.eye(3))
    >>> jacobian_from_coloring(lambda x: x**2, coloring, x)(x).toarray().diagonal()
    array([2., 4., 6.])
    """
    pair, numbers = _taken("jacobian_from_coloring", fun, args, argnums, has_aux)
    options = checked("jacobian_from_coloring", chunk_size=chunk_size, format=format)
    gives = _with_aux if has_aux else matrix_alone
    make = functools.partial(_given, False, coloring)
    return SparseDerivative(pair, make, args, numbers, gives, **options)


def hessian_from_coloring(
    fun: Callable[..., Any],
    coloring: ColoredPattern,
    *args: Any,
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    format: str = "csr",
) -> SparseDerivative:
    """``hessian(fun, *args)`` with the colours of a ``coloring`` that is known.

    Other parameters, ``fun``, ``args``, ``argnums``, ``has_aux``, ``chunk_size`` and ``format``,
    are those of ``hessian``.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> coloring = hessian_coloring(np.eye(3))
    >>> hessian_from_coloring(lambda x: np.sum(x**2), coloring, x)(x).toarray().diagonal()
    array([2., 2., 2.])
    """
    pair, numbers = _taken("hessian_from_coloring", fun, args, argnums, has_aux)
    options = checked("hessian_from_coloring", chunk_size=chunk_size, format=format)
    gives = _with_aux_of_gradient if has_aux else matrix_alone
    make = functools.partial(_given, True, coloring)
    return SparseDerivative(_gradient(pair, numbers), make, args, numbers, gives, **options)


def _jacobian(
    owner: str,
    fun: Any,
    args: Sequence[Any],
    argnums: Any,
    has_aux: Any,
    sparsity: Any,
    gives: Callable[[Any, Any, Any], Any],
    options: dict[str, Any],
) -> SparseDerivative:
    pair, numbers = _taken(owner, fun, args, argnums, has_aux)
    options = checked(owner, **options)
    make = functools.partial(_colored_jacobian, pair, numbers, options.pop("mode"), sparsity)
    return SparseDerivative(pair, make, args, numbers, gives, **options)


def _hessian(
    owner: str,
    fun: Any,
    args: Sequence[Any],
    argnums: Any,
    has_aux: Any,
    sparsity: Any,
    gives: Callable[[Any, Any, Any], Any],
    options: dict[str, Any],
) -> SparseDerivative:
    pair, numbers = _taken(owner, fun, args, argnums, has_aux)
    _check_number(owner, pair, args)
    slopes = _gradient(pair, numbers)
    make = functools.partial(_colored_hessian, slopes, numbers, sparsity)
    return SparseDerivative(slopes, make, args, numbers, gives, **checked(owner, **options))


# what a call gives: of the matrix, the value and aux


def _with_aux(matrix: Any, value: Any, aux: Any) -> Any:
    return matrix, aux


def _with_value(matrix: Any, value: Any, aux: Any) -> Any:
    return value, matrix


def _with_value_and_aux(matrix: Any, value: Any, aux: Any) -> Any:
    return (value, aux), matrix


def _with_aux_of_gradient(matrix: Any, value: Any, aux: Any) -> Any:
    return matrix, aux[1]


def _with_value_of_gradient(matrix: Any, value: Any, aux: Any) -> Any:
    return aux[0], matrix


def _with_value_and_aux_of_gradient(matrix: Any, value: Any, aux: Any) -> Any:
    return aux, matrix


# functions that return pairs


def _taken(
    owner: str, fun: Any, args: Sequence[Any], argnums: Any, has_aux: Any
) -> tuple[Callable[..., Any], tuple[int, ...]]:
    """The function with a pair ``(value, aux)`` for its result, and the arguments' numbers."""
    given = checked(owner, fun=fun, argnums=argnums, has_aux=has_aux)
    numbers = _numbers(owner, given["argnums"], len(args))
    for leaf in [leaf for k in numbers for leaf in tree_leaves(args[k])]:
        _check_floats(owner, leaf)
    return _paired(given["fun"], given["has_aux"]), numbers


def _check_floats(owner: str, leaf: Any) -> None:
    """Raise where an argument that a derivative is by holds no floats, or such as SciPy has not."""
    if not isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex)):
        return  # tracing says what it is
    dtype = np.result_type(leaf)
    if dtype.kind == "c":
        hint = "differentiate by its real and imaginary part"
        raise NotDifferentiable(f"{owner}: an argument is complex", hint=hint)
    if dtype.kind != "f":
        hint = "pass x.astype(float), or choose other arguments by argnums"
        raise NotDifferentiable(f"{owner}: an argument is of {dtype}, not of floats", hint=hint)
    if dtype.itemsize == 2:
        raise DtypeError(f"{owner}: no sparse matrix is of float16", hint="pass float32 or float64")


def _paired(function: Callable[..., Any], has_aux: bool) -> Callable[..., Any]:
    if has_aux:
        return function

    def pair(*args: Any) -> Any:
        return function(*args), None

    own = function if isinstance(function, (FunctionType, MethodType)) else type(function).__call__
    if isinstance(own, (FunctionType, MethodType)) and not _is_library(function):
        return functools.wraps(function)(pair)
    pair.__name__ = getattr(function, "__name__", "function")  # a ufunc, or a partial: no text
    return pair


def _is_library(function: Any) -> bool:
    """True for a function of NumPy or SciPy, which is told by its module."""
    return str(getattr(function, "__module__", "")).partition(".")[0] in ("numpy", "scipy")


def _gradient(pair: Callable[..., Any], numbers: tuple[int, ...]) -> Callable[..., Any]:
    """The function that gives the gradient, and ``(value, aux)`` as its aux."""
    slopes = value_and_grad(pair, argnums=numbers, has_aux=True)

    @functools.wraps(pair)
    def gradient(*args: Any) -> Any:
        told, slope = slopes(*args)
        return slope, told

    return gradient


def _numbers(owner: str, argnums: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    """The numbers of the arguments chosen, from 0 on."""
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    found = tuple(k % count for k in chosen if -count <= k < count)
    if len({*found}) != len(chosen):
        raise ValueError(f"{owner}: argnums is {argnums}, and there are {count} arguments")
    return found


def _pattern(
    sparsity: Callable[..., SparsityPattern], fun: Any, args: Any, argnums: Any, has_aux: bool
) -> SparsityPattern:
    if callable(fun):
        return sparsity(fun, *args, argnums=argnums, has_aux=has_aux)
    return SparsityPattern.of(fun)


def _colored_jacobian(
    pair: Callable[..., Any], numbers: tuple[int, ...], mode: str | None, sparsity: Any, args: Any
) -> tuple[ColoredPattern, Detected | None]:
    if sparsity is not None:
        return colored(SparsityPattern.of(sparsity), mode), None
    found = detect(pair, args, numbers)
    if mode == "reverse" and found.mode == "forward":
        raise NotDifferentiable(
            "a complex result of real arguments has no Jacobian in reverse mode"
        )
    return colored(found.pattern, mode or found.mode), found


def _colored_hessian(
    slopes: Callable[..., Any], numbers: tuple[int, ...], sparsity: Any, args: Any
) -> tuple[ColoredPattern, Detected | None]:
    if sparsity is not None:
        return colored_symmetric(SparsityPattern.of(sparsity)), None
    found = detect(slopes, args, numbers)
    return colored_symmetric(found.pattern), found


_FITTING = {
    False: "of a Jacobian they are 'forward' or 'reverse', as jacobian_coloring makes them",
    True: "of a Hessian they are 'symmetric', as hessian_coloring makes them",
}


def _given(symmetric: bool, coloring: ColoredPattern, args: Any) -> tuple[ColoredPattern, None]:
    if not isinstance(coloring, ColoredPattern):
        raise TypeError(f"coloring must be a ColoredPattern, and is {type(coloring).__name__}")
    if symmetric != (coloring.mode == "symmetric"):
        raise ValueError(f"these are colours of mode {coloring.mode!r}: {_FITTING[symmetric]}")
    return coloring, None


def _check_number(owner: str, pair: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raise ValueError if a function's result, which has a Hessian, is no number."""
    found = tree_leaves(value_like(pair, args))
    if len(found) != 1 or np.ndim(found[0]):
        shown = (
            f"an array of shape {found[0].shape}" if len(found) == 1 else f"{len(found)} results"
        )
        name = getattr(pair, "__name__", "the function")
        raise ValueError(f"{owner}: {name} must return one number, and returns {shown}")
