"""Arrays of PyTorch and JAX on the host, beside CuPy's: the message names them, and what to write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, standin
from cuda_emulator.running import ON_CARD, installed

import calque
from calque.transpiler.errors import MixedDevices

pytestmark = [
    pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING)),
    pytest.mark.skipif(ON_CARD, reason="the arrays are the stand-in's"),
]
X, Y = np.linspace(-1.0, 2.0, 5), np.linspace(3.0, 1.0, 5)


@pytest.fixture(autouse=True)
def cupy() -> Iterator[Any]:
    with installed() as module:
        yield module


class CpuTensor:
    """PyTorch's tensor on the host, which has both protocols and says so when it is asked."""

    def __init__(self, array: np.ndarray):
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise AttributeError("it lies on the host")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self.array


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries_on_the_host(library):
    """The message names the one that lies there, wherever it stands among the arguments."""
    made = CpuTensor if library == "torch" else pytest.importorskip("jax.numpy").asarray
    x, y = standin.asarray(X), made(Y)
    f = calque.jit(lambda w, x: np.sum(w * x))
    for args, on_host, on_gpu in (((x, y), "1 (x)", "0 (w)"), ((y, x), "0 (w)", "1 (x)")):
        with pytest.raises(MixedDevices) as caught:
            f(*args)
        said = str(caught.value)
        assert f"argument {on_host} on the host" in said
        assert f"argument {on_gpu} on cuda:0" in said
        assert said.endswith(f"Instead: cupy.asarray({on_host[3]})")
    with pytest.raises(MixedDevices, match=r"argument 0 \(p\['x'\]\) on the host"):
        calque.grad(lambda p: np.sum(p["w"] * p["x"]))({"w": x, "x": y})
    with pytest.raises(MixedDevices, match=r"Instead: cupy.asarray\(x\)"):
        f(x, x=y)


def test_an_argument_by_keyword_is_named_in_what_to_write():
    f = calque.jit(lambda w, x: np.sum(w * x))
    with pytest.raises(MixedDevices, match=r'device_put\(x, "cuda:0"\) or cupy.asarray\(x\)'):
        f(standin.asarray(X), x=Y)
