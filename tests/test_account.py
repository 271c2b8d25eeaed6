"""Programs generated and compiled for a function, with reasons: ``cache_info``, CALQUE_DEBUG."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import calque
from calque.runtime.call import loading

X = np.linspace(-1.0, 2.0, 7)


def wave(x):
    return np.sum(np.maximum(np.exp(-x), 0.5) * x)


def test_a_new_shape_compiles_nothing() -> None:
    @calque.jit
    @calque.value_and_grad
    def energy(x, w):
        return np.sum(np.tanh(x @ w) ** 2)

    for n, m in ((3, 4), (2, 5), (17, 2), (0, 3), (40, 7)):
        energy(np.ones((n, m)), np.ones(m))
    info = energy.cache_info()
    assert info.programs == 1 and info.reasons == ("first call",)
    kernels = [(k.kernel, k.version, k.types) for k in info.kernels]
    assert kernels and len(kernels) == len(set(kernels))


scale = 2.0


def test_reasons(monkeypatch) -> None:
    @calque.jit(static_argnums=1)
    def f(x, power, p=None):
        return scale * np.sum(x**power) + (0.0 if p is None else np.sum(p["w"]))

    x = np.ones((3, 4))
    f(x, 2)
    for args, reason in [
        ((x, 3), "power: the value 3, and before: the value 2"),
        ((x[0], 3), "x: float64[:], contiguous, and before: float64[:, :], contiguous"),
        ((x.astype("f4"), 3), "x: float32[:, :], contiguous, and before: float64[:, :], contiguous"),
        ((x[:1], 3), "x: float64[1, :], contiguous, and before: float64[:, :], contiguous"),
        ((x.T, 3), "x: float64[:, :], strided, and before: float64[:, :], contiguous"),
        ((x, 3, {"w": x}), "p['w']: float64[:, :], contiguous, and before: absent"),
    ]:
        f(*args)
        assert f.cache_info().reasons[-1] == reason
    monkeypatch.setitem(globals(), "scale", 3.0)
    assert f(x, 2) == 36.0
    assert f.cache_info().reasons[-1] == "a captured value changed"
    assert f.cache_info().programs == 8
    f.cache_clear()
    assert f.cache_info().programs == 0 and f(x, 2) == 36.0
    assert str(f.cache_info()).splitlines()[1:] == ["- first call"]


def test_the_reason_is_printed(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CALQUE_DEBUG", "1")
    monkeypatch.setattr(loading, "_modules", {})
    f = calque.jit(wave)
    f(X)
    f(X.astype("f4"))
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("# wave_")]
    assert lines[0] == "# wave_jit generated: first call"
    assert lines[2].startswith("# wave_jit generated: x: float32[:], contiguous, and before: ")
    assert all(line.startswith("# wave_kernel (serial) ") for line in (lines[1], lines[3]))


def test_the_account_of_a_method() -> None:
    class Model:
        @calque.jit
        def energy(self, x):
            return np.sum(x * x)

    model = Model()
    model.energy(X)
    assert model.energy.cache_info().programs == 1
    model.energy.cache_clear()
    assert model.energy.cache_info().programs == 0


def test_threads_share_one_compilation() -> None:
    jitted, results = calque.jit(lambda x: np.sum(np.cosh(x) - x)), []
    threads = [threading.Thread(target=lambda: results.append(jitted(X))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and len(set(results)) == 1
    assert jitted.cache_info().programs == 1 and len(jitted.cache_info().kernels) == 1
