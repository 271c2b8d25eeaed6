"""``np.einsum``: the adjoint of an einsum is an einsum."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.transpiler.errors import ShapeError
from calque.transpiler.ir.builder import FUNCTIONS, Array, current, known_int, type_of
from calque.transpiler.ir.types import ArrayType, DimLike
from calque.transpiler.primitives.base import Primitive, apply, finish, implements, register, scale
from calque.transpiler.primitives.sampling import case, cases, single


def expand(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The operands' labels and the result's, with ``...`` spelled out and the result explicit.

    >>> expand("...ij,jk", (3, 2))
    (['Aij', 'jk'], 'Aik')
    """
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(f"einsum: {len(terms)} terms for {len(ranks)} operands", current().origin)
    free = [c for c in string.ascii_letters if c not in text]
    free.sort(key=str.islower)
    hidden = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks)]
    if any(h < 0 or (h and "..." not in t) for h, t in zip(hidden, terms)):
        raise ShapeError(f"einsum: the subscripts {subscripts!r} do not fit the operands' ranks")
    dots = "".join(free[: max([h for h, t in zip(hidden, terms) if "..." in t], default=0)])
    full = [t.replace("...", dots[len(dots) - h :]) for t, h in zip(terms, hidden)]
    if not arrow:
        letters = "".join(full)
        once = [c for c in sorted(set(letters)) if letters.count(c) == 1 and c not in dots]
        return full, dots + "".join(once)
    return full, output.replace("...", dots)


def _label_dims(terms: list[str], args: Sequence[Any]) -> dict[str, DimLike]:
    dims: dict[str, DimLike] = {}
    for term, x in zip(terms, args):
        for label, dim in zip(term, type_of(x).dims):
            (dims[label],) = current().broadcast([[dims.get(label, 1)], [dim]])
    return dims


def _infer_einsum(*args: Any, subscripts: str, **options: Any) -> ArrayType:
    terms, output = expand(subscripts, [type_of(a).ndim for a in args])
    dims = _label_dims(terms, args)
    dtype = np.result_type(*[type_of(a).dtype for a in args])  # a Python float is a float64 here
    return ArrayType(dtype, tuple(dims[c] for c in output))


def _einsum_text(args: Any, params: dict[str, Any]) -> str:
    operands = "".join(f", {{{i}}}" for i in range(len(args)))
    options = "".join(f", {k}={v!r}" for k, v in params.items() if k != "subscripts")
    return f'np.einsum("{params["subscripts"]}"{operands}{options})'


def _einsum_jvp(tangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    total = None
    for i, tangent in enumerate(tangents):
        if tangent is not None:
            term = apply(einsum, *args[:i], tangent, *args[i + 1 :], **params)
            total = term if total is None else total + term
    return (total,)


def _einsum_vjp(cotangents: Any, outs: Any, args: Any, params: Any) -> tuple[Any, ...]:
    terms, output = expand(params["subscripts"], [type_of(a).ndim for a in args])
    return tuple(
        _adjoint(cotangents[0], terms, output, args, i) if isinstance(x, Array) else None
        for i, x in enumerate(args)
    )


def _adjoint(y_bar: Any, terms: list[str], output: str, args: Sequence[Any], i: int) -> Any:
    """Einsum of the cotangent with the other operands; a repeated label becomes a diagonal."""
    operands = [y_bar, *args[:i], *args[i + 1 :]]
    labels = [output, *terms[:i], *terms[i + 1 :]]
    free = [c for c in string.ascii_lowercase if c not in "".join([output, *terms])]
    wanted = ""
    for axis, label in enumerate(terms[i]):
        if label in wanted:
            twin, size = free.pop(0), args[i].shape[axis]
            operands.append(FUNCTIONS[np.eye](size, dtype=args[i].dtype))
            labels.append(label + twin)
            label = twin
        wanted += label
    present = "".join(c for c in wanted if c in "".join(labels))
    if len(operands) == 1 and present == output:
        x_bar = y_bar
    elif len(operands) > 1 and not output:
        product = apply(einsum, *operands[1:], subscripts=",".join(labels[1:]) + "->" + present)
        x_bar = scale(product, y_bar)
    else:
        x_bar = apply(einsum, *operands, subscripts=",".join(labels) + "->" + present)
    if present == wanted:
        return x_bar
    # a label summed within the operand alone: the same cotangent all along it
    return x_bar[tuple(slice(None) if c in present else None for c in wanted)]


def _concrete_einsum(*args: Any, subscripts: str, **options: Any) -> Any:
    return np.einsum(subscripts, *args, **options)


def _is_no_view(*args: Any, subscripts: str, **options: Any) -> bool:
    """NumPy gives a view where one operand's axes are only picked and permuted."""
    terms, output = expand(subscripts, [type_of(a).ndim for a in args])
    return len(args) > 1 or set(terms[0]) != set(output)


def _stored_through(base: Array, new: Array, *, subscripts: str, **options: Any) -> Array:
    """The operand where a view of it, whose axes it picked and permuted, has these elements."""
    terms, output = expand(subscripts, [base.ndim])
    if len(set(terms[0])) == len(terms[0]):
        return FUNCTIONS[np.transpose](new, [output.index(c) for c in terms[0]])
    rank, changed = len(output), FUNCTIONS[np.copy](base)
    places = []
    for label, size in zip(terms[0], base.shape, strict=True):
        around: list[Any] = [None] * rank
        around[output.index(label)] = slice(None)
        places.append(FUNCTIONS[np.arange](size)[tuple(around)])
    changed[tuple(places)] = new
    return changed


einsum = register(
    Primitive(
        "np.einsum",
        _concrete_einsum,
        _infer_einsum,
        _einsum_text,
        kind="multilinear",
        jvp=_einsum_jvp,
        vjp=_einsum_vjp,
        view_back=_stored_through,
        copies=_is_no_view,
        samples=cases(
            case((2, 3), (3, 4), subscripts="ij,jk->ik"),
            case((2, 3), (3, 4), subscripts="ij,jk"),
            case((3, 3), subscripts="ii->i"),
            case((3, 3), subscripts="ii"),
            case((3, 3), (3, 2), subscripts="ii,ij->j"),
            case((2, 3), subscripts="ij->j"),
            case((2, 3), subscripts="ji"),
            case((2, 3), (4,), subscripts="ij,k->k"),
            case((5, 2, 3), (3, 4), subscripts="...ij,jk->...ik"),
            case((5, 2, 3), (2, 3), subscripts="...i,...i->..."),
            case((2,), (2, 3), (3,), subscripts="i,ij,j->"),
            case((2, 3), (3, 4), (4, 2), subscripts="ij,jk,kl->il", optimize=True),
            case((2, 0), (0, 3), subscripts="ij,jk->ik"),
            case(single(2, 3), single(3), subscripts="ij,j->i"),
            case((3, 3, 3), subscripts="iij->ij"),
            case((2, 1), (2, 4), subscripts="ij,ij->ij"),
        ),
    )
)


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """``einsum(a, [0, 1], b, [1, 2], [0, 2])`` as subscripts and operands."""

    def letters(labels: Any) -> str:
        return "".join(
            "..." if c is Ellipsis else string.ascii_letters[known_int(c, "A label")]
            for c in labels
        )

    pairs = len(operands) // 2
    text = ",".join(letters(operands[2 * k + 1]) for k in range(pairs))
    if len(operands) % 2:
        text += "->" + letters(operands[-1])
    return text, [operands[2 * k] for k in range(pairs)]


@implements(np.einsum)
def np_einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Any:
    """``np.einsum``, explicit or implicit, with subscripts or lists of labels."""
    if isinstance(operands[0], str):
        subscripts, values = operands[0], list(operands[1:])
    else:
        subscripts, values = _from_lists(operands)
    arrays = [FUNCTIONS[np.asarray](v) for v in values]
    if options.get("dtype") is not None:
        arrays = [FUNCTIONS["cast"](a, options["dtype"]) for a in arrays]
    extra = {"optimize": optimize} if optimize is not False else {}
    return finish(apply(einsum, *arrays, subscripts=subscripts, **extra), out)
