"""``scipy.spatial.transform``: rotations that a program makes, and such made outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_scipy_spatial import check

import calque

transform = pytest.importorskip("scipy.spatial.transform")
Rotation = transform.Rotation

RNG = np.random.default_rng(5)
V, W = RNG.normal(size=(2, 3))
Q = RNG.normal(size=4)
VECTORS, MANY = RNG.normal(size=(2, 4, 3))
KNOWN = Rotation.from_rotvec([0.3, -0.2, 0.5])
STACK = Rotation.from_rotvec(VECTORS)
M = KNOWN.as_matrix()
TIMES = np.array([0.0, 0.5, 1.5, 2.0])
BETWEEN = transform.Slerp(TIMES, STACK)

MADE: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "vector": (lambda v, x: Rotation.from_rotvec(v).apply(x), (V, W)),
    "vector in degrees": (lambda v, x: Rotation.from_rotvec(v, degrees=True).apply(x), (9 * V, W)),
    "vectors": (lambda v, x: Rotation.from_rotvec(v).apply(x), (VECTORS, MANY)),
    "vectors of one": (lambda v, x: Rotation.from_rotvec(v).apply(x), (VECTORS, W)),
    "one of vectors": (lambda v, x: Rotation.from_rotvec(v).apply(x, inverse=True), (V, MANY)),
    "small vector": (lambda v, x: Rotation.from_rotvec(1e-4 * v).apply(x), (V, W)),
    "identity": (lambda v, x: Rotation.from_rotvec(v).apply(x), (np.zeros(3), W)),
    "there and back": (lambda v: Rotation.from_rotvec(v).as_rotvec(), (V,)),
    "small, there and back": (lambda v: Rotation.from_rotvec(v).as_rotvec(), (1e-4 * V,)),
    "zero, there and back": (lambda v: Rotation.from_rotvec(v).as_rotvec(), (np.zeros(3),)),
    "long vector": (lambda v: Rotation.from_rotvec(v).as_rotvec(degrees=True), (4 * V,)),
    "quaternion": (lambda q, x: Rotation.from_quat(q).apply(x), (Q, W)),
    "constructor": (lambda q, x: Rotation(q).apply(x), (Q, W)),
    "quaternion's vector": (lambda q: Rotation.from_quat(q).as_rotvec(), (Q,)),
    "canonical": (lambda q: Rotation.from_quat(-q).as_quat(canonical=True), (Q,)),
    "magnitude": (lambda q: Rotation.from_quat(q).magnitude(), (Q,)),
    "matrix": (lambda v: Rotation.from_rotvec(v).as_matrix(), (V,)),
    "matrices": (lambda v: Rotation.from_rotvec(v).as_matrix(), (VECTORS,)),
    "rotated matrix": (lambda v: Rotation.from_matrix(M @ _turn(v)).as_quat(), (V,)),
    "of a matrix": (lambda m: Rotation.from_matrix(m).as_rotvec(), (M,)),
    "of a far matrix": (
        lambda m: Rotation.from_matrix(m).as_rotvec(),
        (M + 0.3 * RNG.normal(size=(3, 3)),),
    ),
    "of matrices": (
        lambda m: Rotation.from_matrix(m).as_rotvec(),
        (STACK.as_matrix() * 1.5,),
    ),
    "parameters": (lambda p: Rotation.from_mrp(p).as_matrix(), (V,)),
    "as parameters": (lambda q: Rotation.from_quat(q).as_mrp(), (Q,)),
    "composition": (
        lambda v, w: (Rotation.from_rotvec(v) * Rotation.from_rotvec(w)).as_rotvec(),
        (V, W),
    ),
    "with a known one": (lambda v: (KNOWN * Rotation.from_rotvec(v) * KNOWN).as_rotvec(), (V,)),
    "inverse": (lambda v, x: Rotation.from_rotvec(v).inv().apply(x), (V, W)),
    "square root": (lambda v: (Rotation.from_rotvec(v) ** 0.5).as_quat(), (V,)),
    "index": (lambda v: Rotation.from_rotvec(v)[1:3].as_matrix(), (VECTORS,)),
    "loop": (lambda v: sum(r.magnitude() for r in Rotation.from_rotvec(v)), (VECTORS,)),
    "concatenate": (
        lambda v: Rotation.concatenate([Rotation.from_rotvec(v), KNOWN]).as_quat(),
        (VECTORS,),
    ),
    "mean": (lambda v: Rotation.from_rotvec(v).mean().as_matrix(), (0.3 * VECTORS,)),
    "slerp": (
        lambda v, t: transform.Slerp(TIMES, Rotation.from_rotvec(v))(t).as_matrix(),
        (VECTORS, np.array([0.2, 0.7, 1.9])),
    ),
    "known slerp": (lambda t: BETWEEN(t).as_matrix(), (np.array([0.2, 0.7, 1.9]),)),
    "known": (KNOWN.apply, (W,)),
    "known stack": (lambda x: STACK.apply(x, inverse=True), (MANY,)),
}
if abs((Rotation.from_rotvec([1.0, 0.0, 0.0]) ** 0.7).magnitude() - 0.7) < 1e-12:
    # exponents of 64 bits; before its version 1.17 SciPy has them of 32
    EXPONENT = np.array([0.7])
    MADE["power"] = (lambda v, n: (Rotation.from_rotvec(v) ** n[0]).as_rotvec(), (V, EXPONENT))
    MADE["known power"] = (lambda n: (KNOWN ** n[0]).as_rotvec(), (EXPONENT,))


def _turn(v: Any) -> Any:
    return Rotation.from_rotvec(v).as_matrix()


@pytest.mark.parametrize("name", MADE)
def test_rotations(name: str) -> None:
    f, args = MADE[name]
    check(f, *args, reverse=np.shape(args[-1])[-2:] not in ((3, 3), (3,)))


SEQUENCES = "xyz XYZ zyx ZYX zxz ZXZ xyx YZX yxz".split()


@pytest.mark.parametrize("seq", SEQUENCES)
def test_euler_angles(seq: str) -> None:
    angles = np.array([0.3, 0.4, -0.5])
    check(lambda a: Rotation.from_euler(seq, a).as_matrix(), angles, second=False)
    check(lambda v: Rotation.from_rotvec(v).as_euler(seq, degrees=True), V, second=False)


def test_rotations_at_singular_points() -> None:
    eye = np.eye(3)
    turned = calque.jacfwd(lambda v: Rotation.from_rotvec(v).as_matrix())(np.zeros(3))
    np.testing.assert_allclose(turned[1, 0], [0.0, 0.0, 1.0], atol=1e-15)
    assert not calque.grad(lambda v: Rotation.from_rotvec(v).magnitude())(np.zeros(3)).any()
    for seq in ("xyz", "ZXZ"):
        locked = calque.jacrev(lambda m, seq=seq: Rotation.from_matrix(m).as_euler(seq))(eye)
        assert np.isfinite(locked).all()


@pytest.mark.filterwarnings("error::calque.runtime.call.fallback.JitFallback")
def test_rotations_in_compiled_loops() -> None:
    @calque.jit
    def total(vectors: np.ndarray, points: np.ndarray) -> Any:
        found = 0.0
        for i in range(vectors.shape[0]):
            turned = (KNOWN * Rotation.from_rotvec(vectors[i])).apply(points[i])
            found += turned[0] * turned[1]
        return found

    turned = (KNOWN * Rotation.from_rotvec(VECTORS)).apply(MANY)
    np.testing.assert_allclose(total(VECTORS, MANY), np.sum(turned[:, 0] * turned[:, 1]))


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: Rotation.from_quat(0.0 * x).as_matrix(), ValueError, "zero norm"),
        (lambda x: Rotation.from_quat(x[:3]).as_matrix(), ValueError, "4"),
        (lambda x: Rotation.from_rotvec(x).as_matrix(), ValueError, "3"),
        (lambda x: Rotation.from_euler("xYz", x[:3]).as_matrix(), ValueError, "axes"),
        (lambda x: Rotation.from_euler("xxz", x[:3]).as_matrix(), ValueError, "different"),
        (lambda x: len(Rotation.from_quat(x)) * x, TypeError, "Single rotation"),
        (lambda x: Rotation.from_quat(x).apply(x[:1]), ValueError, "Expected input of shape"),
        (lambda x: Rotation.from_quat(x).apply(x[:3, None]), ValueError, "Expected input of shape"),
        (lambda x: BETWEEN(x + 7.0).as_matrix(), ValueError, "within the range"),
    ],
)
def test_wrong_arguments_raise_as_in_scipy(f: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        calque.grad(lambda x: np.sum(f(x)))(Q)
