"""``scipy.spatial.transform``: rotations as unit quaternions, smooth at the identity.

The functions of quaternions take stacks: their last axis has the numbers x, y, z and w.
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

import numpy as np

from calque.runtime.api import stop_gradient
from calque.runtime.scipy_twins.distances import root
from calque.transpiler.frontend.library.scipy_twins import twin, twin_of_objects
from calque.transpiler.frontend.library.twin_questions import is_known, read_by_python

SPACE = "scipy.spatial.transform"
_SMALL = 1e-6  # squares of angles, below which series are summed


def _norm(x: Any) -> Any:
    return root(np.sum(x * x, axis=-1, keepdims=True))


def _normalized(quat: Any) -> Any:
    norm = _norm(quat)
    if np.any(norm == 0):
        raise ValueError("Found zero norm quaternions in `quat`.")
    return quat / norm


def _canonical(quat: Any) -> Any:
    """The quaternion of the two of a rotation whose last number that is not zero is positive."""
    x, y, z, w = quat[..., 0], quat[..., 1], quat[..., 2], quat[..., 3]
    first = np.where(w != 0, w, np.where(x != 0, x, np.where(y != 0, y, z)))
    return np.where((first < 0)[..., None], -quat, quat)


def _of_vectors(vectors: Any) -> Any:
    """The quaternion of a rotation about a vector by its length."""
    square = np.sum(vectors * vectors, axis=-1, keepdims=True)
    small = square <= _SMALL
    angle = np.sqrt(np.where(small, 1.0, square))
    series = 0.5 - square / 48.0 + square * square / 3840.0
    scale = np.where(small, series, np.sin(0.5 * angle) / angle)
    cosine = np.where(small, 1.0 - square / 8.0 + square * square / 384.0, np.cos(0.5 * angle))
    return np.concatenate([vectors * scale, cosine], axis=-1)


def _vectors(quat: Any) -> Any:
    """The vector about which a rotation turns by its length, which is at most pi."""
    quat = _canonical(quat)
    vector, w = quat[..., :3], quat[..., 3][..., None]
    square = np.sum(vector * vector, axis=-1, keepdims=True)
    small = square <= _SMALL
    sine = np.sqrt(np.where(small, 1.0, square))
    ratio = square / (w * w)
    series = 2.0 * (1.0 - ratio / 3.0 + ratio * ratio / 5.0) / w
    safe = np.where(small, series, 2.0 * np.arctan2(sine, w) / sine)
    return vector * safe


def _product(p: Any, q: Any) -> Any:
    """The quaternion of the rotation by ``q``, then by ``p``."""
    a, b, c, d = p[..., 0], p[..., 1], p[..., 2], p[..., 3]
    x, y, z, w = q[..., 0], q[..., 1], q[..., 2], q[..., 3]
    return np.stack(
        [
            d * x + w * a + b * z - c * y,
            d * y + w * b + c * x - a * z,
            d * z + w * c + a * y - b * x,
            d * w - a * x - b * y - c * z,
        ],
        axis=-1,
    )


def _matrices(quat: Any) -> Any:
    x, y, z, w = quat[..., 0], quat[..., 1], quat[..., 2], quat[..., 3]
    rows = [
        [x * x - y * y - z * z + w * w, 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _cofactors(m: Any) -> Any:
    """The matrix whose rows are cross products: the inverse's transpose times the determinant."""
    a, b, c = m[..., 0, :], m[..., 1, :], m[..., 2, :]
    return np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=-2)


def _determinants(m: Any, cofactors: Any) -> Any:
    return np.sum(m[..., :1, :] * cofactors[..., :1, :], axis=-1, keepdims=True)


def _halfway(m: Any) -> Any:
    """The mean of a matrix and its inverse's transpose (Higham 1986, Newton's iteration)."""
    cofactors = _cofactors(m)
    return 0.5 * (m + cofactors / _determinants(m, cofactors))


def _orthogonal(m: Any) -> Any:
    """The rotation matrix closest to a matrix; as SciPy, one that is nearly so stays as it is.

    The last four iterations are enough for derivatives of high order of a rotation matrix.
    """
    determinants = _determinants(m, _cofactors(m))
    if np.any(determinants <= 0):
        raise ValueError("Non-positive determinant (left-handed or null coordinate frame).")
    found, unit = m / np.cbrt(determinants), np.eye(3)
    while np.max(np.abs(found @ np.swapaxes(found, -1, -2) - unit)) > 1e-3:
        found = _halfway(found)
    for _ in range(4):
        found = _halfway(found)
    near = np.abs(m @ np.swapaxes(m, -1, -2) - unit) <= 1e-12 + 1e-5 * unit
    keeps = np.all(np.all(near, axis=-1), axis=-1)[..., None, None]
    return found + stop_gradient(np.where(keeps, m - found, 0.0))


def _of_matrices(m: Any) -> Any:
    """The quaternion of a rotation matrix, by its largest number (Shepperd 1978)."""
    a, b, c = m[..., 0, 0], m[..., 1, 1], m[..., 2, 2]
    trace = a + b + c
    xy, yz, zx = (m[..., i, j] + m[..., j, i] for i, j in ((0, 1), (1, 2), (2, 0)))
    z, x, y = (m[..., j, i] - m[..., i, j] for i, j in ((0, 1), (1, 2), (2, 0)))
    ways = [
        np.stack([1.0 - trace + 2.0 * a, xy, zx, x], axis=-1),
        np.stack([xy, 1.0 - trace + 2.0 * b, yz, y], axis=-1),
        np.stack([zx, yz, 1.0 - trace + 2.0 * c, z], axis=-1),
        np.stack([x, y, z, 1.0 + trace], axis=-1),
    ]
    choice = np.argmax(np.stack([a, b, c, trace], axis=-1), axis=-1)[..., None]
    found = ways[3]
    for k in range(3):
        found = np.where(choice == k, ways[k], found)
    return found / _norm(found)


def _axes(seq: str, least: int) -> Any:
    """The numbers of the axes of a sequence, and True if they turn with the body."""
    if not least <= len(seq) <= 3:
        expected = "3 axes" if least == 3 else "a non-empty string of up to 3 characters"
        raise ValueError(f"Expected axis specification to be {expected}, got {seq}")
    intrinsic = all(name in "XYZ" for name in seq)
    if not intrinsic and not all(name in "xyz" for name in seq):
        raise ValueError(
            f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}"
        )
    if any(seq[i] == seq[i + 1] for i in range(len(seq) - 1)):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(name) for name in seq.lower()], intrinsic


def _about_axis(axis: int, angle: Any) -> Any:
    numbers = [np.zeros_like(angle)] * 3 + [np.cos(0.5 * angle)]
    numbers[axis] = np.sin(0.5 * angle)
    return np.stack(numbers, axis=-1)


def _angle(y: Any, x: Any) -> Any:
    """The angle of a point; at the origin its derivatives are zero."""
    origin = (x == 0) & (y == 0)
    return np.where(origin, 0.0, np.arctan2(y, np.where(origin, 1.0, x)))


def _euler_angles(quat: Any, seq: str) -> Any:
    """The angles about three axes (Bernardes and Viollet 2022)."""
    axes, intrinsic = _axes(seq, 3)
    i, j, k = axes[::-1] if intrinsic else axes
    symmetric = i == k
    k = 3 - i - j if symmetric else k
    sign = float((i - j) * (j - k) * (k - i) // 2)
    a, b, c, d = quat[..., 3], quat[..., i], quat[..., j], quat[..., k] * sign
    if not symmetric:
        a, b, c, d = a - c, b + d, c + a, d - b
    total, difference = _angle(b, a), _angle(d, c)
    middle = 2.0 * _angle(root(c * c + d * d), root(a * a + b * b))
    low, high = np.abs(middle) <= 1e-7, np.abs(middle - np.pi) <= 1e-7
    alone = np.where(low, 2.0 * total, 2.0 * difference * (1.0 if intrinsic else -1.0))
    locked = low | high
    first = np.where(locked, 0.0 if intrinsic else alone, total - difference)
    third = np.where(locked, alone if intrinsic else 0.0, total + difference)
    if not symmetric:
        third, middle = third * sign, middle - 0.5 * np.pi
    angles = [third, middle, first] if intrinsic else [first, middle, third]
    return (np.stack(angles, axis=-1) + np.pi) % (2.0 * np.pi) - np.pi


def _last_axis(x: Any, size: int, name: str) -> Any:
    x = np.asarray(x)
    x = x.astype(np.result_type(x.dtype, np.float64))
    if x.ndim == 0 or x.shape[-1] != size:
        raise ValueError(f"Expected `{name}` to have shape (..., {size}), got {x.shape}.")
    return x


@read_by_python
@functools.cache
def _orthogonalizes() -> bool:
    """True if this version of SciPy takes the closest rotation matrix."""
    rotation = importlib.import_module(SPACE).Rotation
    sheared = rotation.from_matrix([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    return abs(math.tan(sheared.magnitude()) - 0.25) < 1e-6


class Rotation:
    """Rotations that a program computes, as a stack of unit quaternions."""

    def __init__(
        self, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False
    ):
        quat = _last_axis(quat, 4, "quat")
        if scalar_first:
            quat = np.roll(quat, -1, axis=-1)
        self._quat = _normalized(quat) if normalize else quat

    @property
    def single(self) -> bool:
        """True for one rotation, False for a stack."""
        return self._quat.ndim == 1

    @property
    def shape(self) -> Any:
        """The shape of the stack."""
        return self._quat.shape[:-1]

    def __len__(self) -> int:
        if self._quat.ndim == 1:
            raise TypeError("Single rotation has no len().")
        return self._quat.shape[0]

    def __getitem__(self, indexer: Any) -> Any:
        if self._quat.ndim == 1:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self._quat[indexer], normalize=False)

    def __iter__(self) -> Any:
        if self._quat.ndim == 1:
            raise TypeError("Single rotation is not iterable.")
        for k in range(self._quat.shape[0]):
            yield Rotation(self._quat[k], normalize=False)

    def __mul__(self, other: Any) -> Any:
        return Rotation(_product(self._quat, other.as_quat()), normalize=True)

    def __rmul__(self, other: Any) -> Any:
        return Rotation(_product(other.as_quat(), self._quat), normalize=True)

    def __pow__(self, n: Any, modulus: None = None) -> Any:
        if modulus is not None:
            raise NotImplementedError("modulus not supported")
        if is_known(n) and n == 1:
            return self
        if is_known(n) and n == -1:
            return self.inv()
        return Rotation(_of_vectors(n * _vectors(self._quat)), normalize=False)

    def inv(self) -> Any:
        """The inverse rotation."""
        return Rotation(self._quat * np.array([-1.0, -1.0, -1.0, 1.0]), normalize=False)

    def magnitude(self) -> Any:
        """The angle, at most pi; its derivatives at the identity are zero."""
        sine = _norm(self._quat[..., :3])[..., 0]
        return 2.0 * np.arctan2(sine, np.abs(self._quat[..., 3]))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The rotated vectors."""
        vectors = np.asarray(vectors)
        if vectors.ndim == 0 or vectors.shape[-1] != 3:
            raise ValueError(f"Expected input of shape (..., 3), got {vectors.shape}.")
        matrices = _matrices(self._quat)
        if inverse:
            matrices = np.swapaxes(matrices, -1, -2)
        return np.sum(matrices * vectors[..., None, :], axis=-1)

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        """The quaternions."""
        quat = _canonical(self._quat) if canonical else self._quat
        return np.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_matrix(self) -> Any:
        """The matrices."""
        return _matrices(self._quat)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """The vectors about which the rotations turn by their lengths."""
        found = _vectors(self._quat)
        return np.rad2deg(found) if degrees else found

    def as_euler(self, seq: str, degrees: bool = False, *, suppress_warnings: bool = False) -> Any:
        """The angles about the axes of a sequence."""
        found = _euler_angles(self._quat, seq)
        return np.rad2deg(found) if degrees else found

    def as_mrp(self) -> Any:
        """The modified Rodrigues parameters."""
        w = self._quat[..., 3][..., None]
        vector = self._quat[..., :3]
        return np.where(w < 0, -vector, vector) / (1.0 + np.abs(w))

    def mean(self, weights: Any = None, axis: Any = None) -> Any:
        """The mean rotation: the eigenvector of the largest eigenvalue (Markley et al. 2007)."""
        if axis is not None:
            raise ValueError("The mean along an axis is not known to calque: omit axis.")
        quat = self._quat.reshape(-1, 4)
        weights = np.ones(quat.shape[0]) if weights is None else np.asarray(weights).reshape(-1)
        if np.any(weights < 0):
            raise ValueError("`weights` must be non-negative.")
        _, vectors = np.linalg.eigh((weights[:, None] * quat).T @ quat)
        return Rotation(vectors[:, -1], normalize=True)

    @staticmethod
    def from_quat(quat: Any, *, scalar_first: bool = False) -> Any:
        """Rotations of quaternions, which are normalized."""
        return Rotation(quat, scalar_first=scalar_first)

    @staticmethod
    def from_matrix(matrix: Any, *, assume_valid: bool = False) -> Any:
        """Rotations of the rotation matrices closest to matrices."""
        matrix = _last_axis(matrix, 3, "matrix")
        if matrix.ndim < 2 or matrix.shape[-2] != 3:
            raise ValueError(f"Expected `matrix` to have shape (..., 3, 3), got {matrix.shape}")
        if _orthogonalizes() and not assume_valid:
            matrix = _orthogonal(matrix)
        return Rotation(_of_matrices(matrix), normalize=False)

    @staticmethod
    def from_rotvec(rotvec: Any, degrees: bool = False) -> Any:
        """Rotations about vectors by their lengths."""
        rotvec = _last_axis(rotvec, 3, "rot_vec")
        return Rotation(_of_vectors(np.deg2rad(rotvec) if degrees else rotvec), normalize=False)

    @staticmethod
    def from_mrp(mrp: Any) -> Any:
        """Rotations of modified Rodrigues parameters."""
        mrp = _last_axis(mrp, 3, "mrp")
        square = np.sum(mrp * mrp, axis=-1, keepdims=True)
        quat = np.concatenate([2.0 * mrp, 1.0 - square], axis=-1)
        return Rotation(quat / (1.0 + square), normalize=False)

    @staticmethod
    def from_euler(seq: str, angles: Any, degrees: bool = False) -> Any:
        """Rotations about the axes of a sequence, one after another."""
        axes, intrinsic = _axes(seq, 1)
        angles = np.asarray(angles)
        angles = angles.astype(np.result_type(angles.dtype, np.float64))
        if degrees:
            angles = np.deg2rad(angles)
        if len(axes) == 1 and (angles.ndim == 0 or angles.shape[-1] != 1):
            angles = angles[..., None]
        if angles.ndim == 0 or angles.shape[-1] != len(axes):
            raise ValueError(
                "Expected last dimension of `angles` to match number of sequence axes specified, "
                f"got {angles.shape}."
            )
        quat = _about_axis(axes[0], angles[..., 0])
        for k in range(1, len(axes)):
            other = _about_axis(axes[k], angles[..., k])
            quat = _product(quat, other) if intrinsic else _product(other, quat)
        return Rotation(quat, normalize=False)

    @staticmethod
    def concatenate(rotations: Any) -> Any:
        """One stack of rotations and stacks."""
        parts = [np.atleast_2d(rotation.as_quat()) for rotation in rotations]
        return Rotation(np.concatenate(parts), normalize=False)


twin(SPACE, "Rotation")(Rotation)
for _name in "from_quat from_matrix from_rotvec from_mrp from_euler concatenate".split():
    twin(SPACE, f"Rotation.{_name}")(getattr(Rotation, _name))


@twin_of_objects(SPACE, "Rotation")
def _known_rotation(rotation: Any) -> Any:
    return Rotation(rotation.as_quat(), normalize=False)


@twin(SPACE, "Slerp")
class Slerp:
    """Rotations between given ones, at constant speed along the shortest way."""

    def __init__(self, times: Any, rotations: Any):
        times = np.asarray(times)
        if rotations.single or len(rotations) <= 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        if times.ndim != 1:
            raise ValueError(
                f"Expected times to be specified in a 1 dimensional array, got {times.ndim} "
                "dimensions."
            )
        if times.shape[0] != len(rotations):
            raise ValueError(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {times.shape[0]} timestamps."
            )
        self.times = times
        self.timedelta = times[1:] - times[:-1]
        if np.any(self.timedelta <= 0):
            raise ValueError("Times must be in strictly increasing order.")
        self.rotations = rotations[:-1]
        self.rotvecs = (self.rotations.inv() * rotations[1:]).as_rotvec()

    def __call__(self, times: Any) -> Any:
        times = np.asarray(times)
        if times.ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        if np.any((times < self.times[0]) | (times > self.times[-1])):
            raise ValueError(
                f"Interpolation times must be within the range [{self.times[0]}, "
                f"{self.times[-1]}], both inclusive."
            )
        index = np.maximum(np.searchsorted(self.times, times) - 1, 0)
        share = (times - self.times[index]) / self.timedelta[index]
        step = _of_vectors(self.rotvecs[index] * share[..., None])
        return Rotation(_product(self.rotations.as_quat()[index], step), normalize=True)


@twin_of_objects(SPACE, "Slerp")
def _known_slerp(slerp: Any) -> Any:
    last = slerp.rotations[-1] * Rotation.from_rotvec(slerp.rotvecs[-1])
    return Slerp(slerp.times, Rotation.concatenate([slerp.rotations, last]))
