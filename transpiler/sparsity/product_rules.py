"""The rules of sums of products."""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_letters
from typing import Any

import numpy as np

from calque.transpiler.primitives import einsum, linalg, products, signals
from calque.transpiler.sparsity.place_rules import scattered
from calque.transpiler.sparsity.reached_inputs import ReachedInputs, none, together, union
from calque.transpiler.sparsity.rules import Question, Shape, like, reaches


@reaches(products.matmul, products.dot)
def _matmul(q: Question) -> ReachedInputs:
    left, right = np.ndim(like(q.operands[0])), np.ndim(like(q.operands[1]))
    if left == 0 or right == 0:
        return union(q.unknown(), q.shapes[0])
    if q.apply.primitive is products.dot and right > 2:
        a, b = "abcdefg"[: left - 1], "mnopqrs"[: right - 2]
        return contracted(q, [a + "k", b + "kj"], a + b + "j")
    if left > 2 or right > 2:
        return _batched_matmul(q, left, right)
    a = "i" * (left == 2) + "k"
    b = "k" + "j" * (right == 2)
    return contracted(q, [a, b], (a + b).replace("k", ""))


def _batched_matmul(q: Question, left: int, right: int) -> ReachedInputs:
    batch = "abcdefgh"[: max(left, right) - 2]
    a = (batch[len(batch) - (left - 2) :] if left > 1 else "") + "i" * (left > 1) + "k"
    b = (batch[len(batch) - (right - 2) :] if right > 1 else "") + "k" + "j" * (right > 1)
    return contracted(q, [a, b], batch + "i" * (left > 1) + "j" * (right > 1))


@reaches(products.inner)
def _inner(q: Question) -> ReachedInputs:
    left, right = np.ndim(like(q.operands[0])), np.ndim(like(q.operands[1]))
    if left == 0 or right == 0:
        return union(q.unknown(), q.shapes[0])
    a, b = "abcd"[: left - 1], "efgh"[: right - 1]
    return contracted(q, [a + "k", b + "k"], a + b)


@reaches(products.vdot)
def _vdot(q: Question) -> ReachedInputs:
    every = [u.over(range(u.ndim)) for u in q.unknown()]
    return union(every, ())


@reaches(products.outer)
def _outer(q: Question) -> ReachedInputs:
    a, b = (q.reach(k).reshaped((q.reach(k).size,)) for k in range(2))
    parts = [a.moved(lambda p: p[:, None]), b.moved(lambda p: p[None, :])]
    return union(parts, q.shapes[0])


@reaches(products.tensordot)
def _tensordot(q: Question) -> ReachedInputs:
    left, right = q.params["axes"]
    ranks = [np.ndim(like(a)) for a in q.operands]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names = [[next(letters) for _ in range(rank)] for rank in ranks]
    for i, j in zip(left, right, strict=True):
        names[1][j] = names[0][i]
    contracted_names = {names[0][i] for i in left}
    out = [n for n in (*names[0], *names[1]) if n not in contracted_names]
    return contracted(q, ["".join(n) for n in names], "".join(out))


@reaches(einsum.einsum)
def _einsum(q: Question) -> ReachedInputs:
    subscripts = q.params["subscripts"].replace(" ", "")
    operands, arrow, out = subscripts.partition("->")
    terms = operands.split(",")
    if not arrow:
        letters = operands.replace(",", "").replace("...", "")
        out = "..." * ("..." in operands)
        out += "".join(sorted(c for c in {*letters} if letters.count(c) == 1))
    spread = [
        np.ndim(like(a)) - len(term.replace("...", "")) if "..." in term else 0
        for a, term in zip(q.operands, terms, strict=True)
    ]
    free = [c for c in ascii_letters if c not in subscripts][: max(spread)]
    named = ["".join(free[len(free) - n :]) for n in (*spread, len(free))]
    terms = [t.replace("...", names) for t, names in zip(terms, named, strict=False)]
    return contracted(q, terms, out.replace("...", named[-1]))


@reaches(products.cross)
def _cross(q: Question) -> ReachedInputs:
    """Each component is made of the other two of both operands."""
    parts = []
    for x in q.unknown():
        split = [x.moved(_component(k)) for k in range(3)]
        pairs = [union([split[k - 1], split[k - 2]], split[k].shape) for k in range(3)]
        parts.append(together(pairs, lambda planes: np.stack(planes, axis=-1)))
    return union(parts, q.shapes[0])


def _component(k: int) -> Callable[[Any], Any]:
    return lambda plane: plane[..., k]


@reaches(signals.convolve)
def _convolve(q: Question) -> ReachedInputs:
    """Element i is made of those elements whose places add up to i, which modes cut."""
    a, b = (q.reach(k) for k in range(2))
    full = a.size + b.size - 1
    parts = [none((full,), q.inputs)]
    for x, other, length in ((a, q.operands[1], b.size), (b, q.operands[0], a.size)):
        known = not isinstance(other, ReachedInputs)
        shifts = np.flatnonzero(other).tolist() if known else range(length)
        if not x.is_empty:
            parts += [x.moved(_shifted(k, full)) for k in shifts]
            parts = [union(parts, (full,))]
    size = q.shapes[0][0]
    start = 0 if q.params["mode"] == "full" else (full - size) // 2
    if q.params["mode"] == "valid":
        start = min(a.size, b.size) - 1
    return parts[0].moved(lambda plane: plane[start : start + size])


def _shifted(k: int, size: int) -> Callable[[Any], Any]:
    """Return the function that puts a vector behind k zeros, among ``size`` numbers in all."""
    return lambda plane: np.pad(plane, (k, size - k - len(plane)))


@reaches(linalg.multi_dot)
def _multi_dot(q: Question) -> ReachedInputs:
    letters = iter(ascii_letters)
    last, terms = next(letters) if np.ndim(like(q.operands[0])) == 1 else "", list[str]()
    for operand in q.operands:
        missing = np.ndim(like(operand)) - len(last)
        terms.append(last + "".join(next(letters) for _ in range(missing)))
        last = terms[-1][-1]
    return contracted(q, terms, terms[0][:-1] + terms[-1][1:])


@reaches(products.kron)
def _kron(q: Question) -> ReachedInputs:
    rank = len(q.shapes[0])
    parts = []
    for k in range(2):
        x = q.reach(k)
        shape = (1,) * (rank - x.ndim) + x.shape
        spread = [n for size in shape for n in ((size, 1) if k == 0 else (1, size))]
        parts.append(x.reshaped(tuple(spread)))
    both = np.broadcast_shapes(parts[0].shape, parts[1].shape)
    return union(parts, both).reshaped(q.shapes[0])


def contracted(q: Question, terms: list[str], out: str) -> ReachedInputs:
    """The sets of a sum of products, its axes named as einsum names them.

    A known factor of two decides, by its zeros, which elements of the other one count.
    """
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, q.operands, strict=True):
        for letter, size in zip(term, np.shape(like(operand)), strict=True):
            if size != 1 or letter not in sizes:
                sizes[letter] = size
    shape = tuple(sizes[letter] for letter in out)
    if len(terms) == 2 and len(q.unknown()) == 1:
        k = next(k for k, a in enumerate(q.operands) if isinstance(a, ReachedInputs))
        factor = np.asarray(q.operands[1 - k])
        plain = all(
            len({*t}) == len(t) and np.shape(like(a)) == tuple(sizes[c] for c in t)
            for t, a in zip(terms, q.operands, strict=True)
        )
        if plain and not np.all(factor):
            found = _by_zeros(q.reach(k), terms[k], factor, terms[1 - k], out, sizes)
            if found is not None:
                return found
    parts = []
    for term, operand in zip(terms, q.operands, strict=True):
        if isinstance(operand, ReachedInputs) and not operand.is_empty:
            parts.append(_term(operand, term, out, shape))
    return union(parts or [none((), q.inputs)], shape)


def _term(operand: ReachedInputs, term: str, out: str, shape: Shape) -> ReachedInputs:
    """One operand's sets, joined over the axes that the result does not have, and placed in it."""
    while len({*term}) != len(term):
        operand, term = _diagonal(operand, term)
    gone = [k for k, letter in enumerate(term) if letter not in out]
    found = operand.over(gone)
    left = [letter for letter in term if letter in out]
    order = sorted(range(len(left)), key=lambda k: out.index(left[k]))
    places = {out.index(letter) for letter in left}
    index = tuple(slice(None) if k in places else None for k in range(len(out)))
    return found.moved(lambda plane: np.transpose(plane, order)[index]).broadcast(shape)


def _diagonal(operand: ReachedInputs, term: str) -> tuple[ReachedInputs, str]:
    """One operand along the diagonal of two axes of one name, which is its last axis then."""
    letter = next(c for c in term if term.count(c) > 1)
    i = term.index(letter)
    j = term.index(letter, i + 1)
    rest = term[:i] + term[i + 1 : j] + term[j + 1 :]
    return operand.moved(lambda plane: np.diagonal(plane, axis1=i, axis2=j)), rest + letter


def _by_zeros(
    value: ReachedInputs, term: str, factor: Any, other: str, out: str, sizes: dict[str, int]
) -> ReachedInputs | None:
    """The union over the elements that a known factor does not multiply by zero."""
    if [*term] == [*dict.fromkeys(term)] and len(term) <= 2 and len(other) == 2 and len(out) <= 2:
        summed = [c for c in term if c not in out]
        if len(summed) != 1 or summed[0] not in other:
            return None
        (k,) = summed
        (i,) = (c for c in other if c != k)
        columns = [c for c in term if c != k]
        if i not in out or i in term:
            return None
        rows = np.nonzero(factor if other == i + k else factor.T)
        gathered = value.moved(lambda p: np.moveaxis(p, term.index(k), 0)[rows[1]])
        shape = (sizes[i], *(sizes[c] for c in columns))
        widths = int(np.prod(shape[1:], dtype=int))
        places = rows[0][:, None] * widths + np.arange(widths)
        flat = gathered.reshaped((len(rows[0]), widths))
        found = scattered(flat, places, (shape[0] * widths,)).reshaped(shape)
        names = [i, *columns]
        return found.moved(lambda p: np.transpose(p, [names.index(c) for c in out]))
    return None
