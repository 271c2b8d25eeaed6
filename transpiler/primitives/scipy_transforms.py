"""``scipy.fft`` and ``scipy.fftpack``: Fourier transforms as NumPy has them, and the real ones.

Cosine and sine transforms are linear: the transpose of one is another one, whose first and last
numbers count otherwise (Makhoul, IEEE Trans. ASSP 28, 27, 1980, gives the four types).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.transpiler.ir.builder import FUNCTIONS, Array, current
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.primitives import fourier
from calque.transpiler.primitives.base import Primitive, apply, linear, operand
from calque.transpiler.primitives.sampling import case, cases, single
from calque.transpiler.primitives.scans import along
from calque.transpiler.primitives.scipy_modules import HANDLERS, Lazy, means
from calque.transpiler.primitives.shapes import normalize_axis

_TURNED = {1: 1, 2: 3, 3: 2, 4: 4}  # the type of the inverse, and of the transpose
_NORMS = {None: "backward", "backward": "backward", "forward": "forward", "ortho": "ortho"}
# the numbers that count twice as little as the others, by the letter and the type of a transform
_ENDS = {("c", 1): (0, -1), ("c", 2): (0,), ("c", 3): (0,), ("s", 2): (-1,), ("s", 3): (-1,)}


def _ends_scaled(x: Any, ends: tuple[int, ...], axis: int, factor: float) -> Any:
    x = np.copy(x)
    for end in ends:
        x[along(axis, end)] *= factor
    return x


def _text(name: str) -> Callable[..., str]:
    def spell(args: Any, params: dict[str, Any]) -> str:
        usual = {"type": 2, "axis": args[0].type.ndim - 1, "norm": "backward"}
        changed = "".join(f", {k}={v!r}" for k, v in params.items() if v != usual[k])
        return f"fft.{name}({{0}}{changed})"

    return spell


def _samples() -> Any:
    norms = ("backward", "ortho", "forward", "backward")
    calls = [case((3, 4), type=t, axis=t % 2, norm=norms[t - 1]) for t in (1, 2, 3, 4)]
    calls += [case((5,), type=t, axis=0, norm="backward") for t in (1, 2, 3)]
    return cases(*calls, case(single(4), type=2, axis=0, norm="ortho"))


def _declare(name: str) -> Primitive:
    letter, inverse = name[-2], name.startswith("i")

    @linear(
        f"fft.{name}",
        Lazy("scipy.fft", name),
        lambda x, type, axis, norm: ArrayType(x.dtype, x.dims),
        _text(name),
        fresh=True,
        samples=_samples(),
    )
    def transform(y_bar: Any, x: Any, type: int, axis: int, norm: str) -> Any:
        turned = _TURNED[type]
        if norm == "ortho":
            other = ALL[name[1:] if inverse else f"i{name}"]
            return apply(other, y_bar, type=type, axis=axis, norm=norm)
        own = turned if inverse else type  # the type of the sums
        ends = _ENDS.get((letter, own), ())
        y_bar = _ends_scaled(y_bar, ends, axis, 2.0) if own < 3 else y_bar
        x_bar = apply(ALL[name], y_bar, type=turned, axis=axis, norm=norm)
        return _ends_scaled(x_bar, ends, axis, 0.5) if own in (1, 3) else x_bar

    return transform


ALL: dict[str, Primitive] = {}
ALL.update({name: _declare(name) for name in ("dct", "idct", "dst", "idst")})


def _batched(primitive: Primitive) -> Callable[..., Any]:
    return lambda args, batched, params: apply(
        primitive, *args, **{**params, "axis": params["axis"] + 1}
    )


for _record in ALL.values():
    _record.batch = _batched(_record)


# calls


def _norm(norm: Any) -> str:
    if not isinstance(norm, (str, type(None))) or norm not in _NORMS:
        raise ValueError(
            f'Invalid norm value {norm!r}; should be "backward", "ortho" or "forward".'
        )
    return _NORMS[norm]


def _operand(x: Any) -> Array:
    """An array of the dtypes that SciPy transforms."""
    x = FUNCTIONS[np.asarray](operand(x))
    if x.dtype == np.float16:
        return FUNCTIONS["cast"](x, np.dtype("f4"))
    return x if x.dtype.kind in "fc" else FUNCTIONS["cast"](x, np.dtype("f8"))


def _real_transform(name: str, x: Array, type: Any, axis: int, norm: Any, ends: Any) -> Any:
    """One transform along one axis; ``ends`` is SciPy's option ``orthogonalize``."""
    if isinstance(type, Array):
        raise current().needs_known(type, "The option type")
    if type not in _TURNED:
        raise ValueError(f"Invalid type {type!r}; should be 1, 2, 3 or 4.")
    norm = _norm(norm)
    apt = norm == "ortho"
    if ends is None or bool(ends) == apt or (name[-2], type) not in _ENDS:
        return apply(ALL[name], x, type=type, axis=axis, norm=norm)
    count = 2 * (x.shape[axis] + (type == 1) * (-1 if name[-2] == "c" else 1))
    root = np.sqrt(FUNCTIONS["cast"](count, float))
    if name.startswith("i"):
        root = 1.0 / root
    found = apply(ALL[name], x, type=type, axis=axis, norm="backward" if apt else "ortho")
    factor = 1.0 / root if apt or norm == "forward" else root
    if norm == "forward" and name.startswith("i"):
        factor = 1.0 / root
    return found * FUNCTIONS["cast"](factor, np.empty(0, x.dtype).real.dtype)


def _declare_calls(name: str) -> None:
    def one(
        x: Any,
        type: Any = 2,
        n: Any = None,
        axis: Any = -1,
        norm: Any = None,
        overwrite_x: Any = False,
        workers: Any = None,
        orthogonalize: Any = None,
    ) -> Any:
        x = _operand(x)
        axis = normalize_axis(axis, x.ndim)
        x = x if n is None else fourier._of_length(x, n, axis)
        return _real_transform(name, x, type, axis, norm, orthogonalize)

    def several(
        x: Any,
        type: Any = 2,
        s: Any = None,
        axes: Any = None,
        norm: Any = None,
        overwrite_x: Any = False,
        workers: Any = None,
        *,
        orthogonalize: Any = None,
    ) -> Any:
        x = _operand(x)
        for axis, n in _axes(x, s, axes):
            x = x if n is None else fourier._of_length(x, n, axis)
            x = _real_transform(name, x, type, axis, norm, orthogonalize)
        return x

    means("scipy.fft", name)(one)
    means("scipy.fft", f"{name}n")(several)


def _axes(x: Array, s: Any, axes: Any) -> list[tuple[int, Any]]:
    """The axes with their lengths; SciPy takes a number for a tuple of one."""
    s = (s,) if isinstance(s, (int, Array)) else s
    axes = (axes,) if isinstance(axes, int) else axes
    return fourier._axes(x, s, axes)


def _packed_calls(name: str) -> None:
    """The same of ``scipy.fftpack``, whose inverses are not divided by the length."""
    turned = name.startswith("i")

    def one(
        x: Any,
        type: Any = 2,
        n: Any = None,
        axis: Any = -1,
        norm: Any = None,
        overwrite_x: Any = False,
    ) -> Any:
        kind = _TURNED.get(type, type) if turned else type
        given = name[1:] if turned else name
        return HANDLERS["scipy.fft"][given](x, kind, n, axis, norm)

    def several(
        x: Any,
        type: Any = 2,
        shape: Any = None,
        axes: Any = None,
        norm: Any = None,
        overwrite_x: Any = False,
    ) -> Any:
        kind = _TURNED.get(type, type) if turned else type
        given = name[1:] if turned else name
        return HANDLERS["scipy.fft"][f"{given}n"](x, kind, shape, axes, norm)

    means("scipy.fftpack", name)(one)
    means("scipy.fftpack", f"{name}n")(several)


for _name in ALL:
    _declare_calls(_name)
    _packed_calls(_name)


# Fourier transforms


def _real_only(x: Any) -> Any:
    x = _operand(x)
    if x.dtype.kind == "c":
        raise TypeError("x must be a real sequence")
    return x


def _same(name: str, prepared: Callable[[Any], Any]) -> None:
    """A function along one axis that NumPy has, too."""
    numpys = FUNCTIONS[getattr(np.fft, name)]

    def call(
        x: Any,
        n: Any = None,
        axis: Any = -1,
        norm: Any = None,
        overwrite_x: Any = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Any:
        return numpys(prepared(x), n, axis, _norm(norm))

    means("scipy.fft", name)(call)


def _same_of_several(name: str, prepared: Callable[[Any], Any], default: Any) -> None:
    """A function along several axes; of Hermitian data it is an inverse one, turned around."""
    hermitian = {"h": "irfftn", "i": "rfftn"}.get(name[0]) if "hfft" in name else None
    numpys = FUNCTIONS[getattr(np.fft, hermitian or f"{name[:-1]}n")]

    def call(
        x: Any,
        s: Any = None,
        axes: Any = default,
        norm: Any = None,
        overwrite_x: Any = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Any:
        x, norm = prepared(x), _norm(norm)
        s = (s,) if isinstance(s, (int, Array)) else s
        axes = (axes,) if isinstance(axes, int) else axes
        if hermitian is None:
            return numpys(x, s, axes, norm)
        norm = fourier._OTHER[norm]
        if hermitian == "irfftn":
            return numpys(np.conj(x), s, axes, norm)
        return np.conj(numpys(x, s, axes, norm))

    means("scipy.fft", name)(call)


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _of = _real_only if _name in ("rfft", "ihfft") else _operand
    _same(_name, _of)
    _same_of_several(f"{_name}n", _of, None)
    _same_of_several(f"{_name}2", _of, (-2, -1))


def _packed_same(name: str) -> None:
    """A function of ``scipy.fftpack`` that has no norm."""
    several = not name.endswith("fft")
    default = (-2, -1) if name.endswith("2") else None

    def one(x: Any, n: Any = None, axis: Any = -1, overwrite_x: Any = False) -> Any:
        return HANDLERS["scipy.fft"][name](x, n, axis)

    def call(
        x: Any,
        shape: Any = None,
        axes: Any = default,
        overwrite_x: Any = False,
    ) -> Any:
        return HANDLERS["scipy.fft"][name](x, shape, axes)

    means("scipy.fftpack", name)(call if several else one)


for _name in ("fft", "ifft", "fftn", "ifftn", "fft2", "ifft2"):
    _packed_same(_name)


for _module in ("scipy.fft", "scipy.fftpack"):
    for _name in ("fftshift", "ifftshift", "fftfreq"):
        means(_module, _name)(FUNCTIONS[getattr(np.fft, _name)])
means("scipy.fft", "rfftfreq")(FUNCTIONS[np.fft.rfftfreq])
