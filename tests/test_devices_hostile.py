"""`pmap` and `shard_map` where they are easy to get wrong: rules within, calls by name, stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calque import P, checkpoint, custom_jvp, custom_vjp, grad, hessian, make_mesh, psum, shard_map


@pytest.fixture(autouse=True)
def four_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_CPU_DEVICES", "4")


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


# calls with rules, where devices share a value


x = np.linspace(-1.0, 1.5, 8)


@custom_jvp
def ruled(w: Any, x: Any) -> Any:
    return np.sin(w * x) * psum(w * x, "i")


@ruled.defjvp
def ruled_jvp(primals: Any, tangents: Any) -> Any:
    (w, x), (w_dot, x_dot) = primals, tangents
    dot = w_dot * x + w * x_dot
    return ruled(w, x), np.cos(w * x) * dot * psum(w * x, "i") + np.sin(w * x) * psum(dot, "i")


def plain(w: Any, x: Any) -> Any:
    return np.sin(w * x) * psum(w * x, "i")


def once(w: Any, x: Any) -> Any:
    return checkpoint(lambda w: plain(w, x))(w)


def twice(w: Any, x: Any) -> Any:
    return checkpoint(lambda w: checkpoint(plain)(w, x) * w)(w)


def rounds(w: Any, x: Any, wrap: Any) -> Any:
    y = x
    for _ in range(3):
        y = np.sin(w * y) + wrap(lambda w, y: w * psum(np.sum(y), "i"))(w, y)
    return y


def whole(w: Any, parts: Any) -> Any:
    return np.sum(np.sin(w * parts) * np.sum(w * parts, axis=0))


def whole_rounds(w: Any, parts: Any) -> Any:
    for _ in range(3):
        parts = np.sin(w * parts) + w * np.sum(parts)
    return np.sum(parts)


CALLS = {
    "custom_jvp": (ruled, whole),
    "checkpoint": (once, whole),
    "checkpoint twice": (twice, lambda w, parts: w * whole(w, parts)),
    "checkpoint in a loop": (lambda w, x: rounds(w, x, checkpoint), whole_rounds),
    "loop": (lambda w, x: rounds(w, x, lambda f: f), whole_rounds),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_shared_value_in_a_call_with_a_rule(name: str) -> None:
    f, wanted = CALLS[name]
    mesh = make_mesh((4,), ("i",))

    def found(ask: Any) -> Any:
        own = shard_map(lambda w, x: ask(lambda w: np.sum(f(w, x)))(w), mesh=mesh, in_specs=(P(), P("i")), out_specs=P())
        return own(0.7, x)

    parts, tiny = x.reshape(4, 2), 1e-30  # the reference: complex differences of the whole sum
    close(found(grad), np.imag(wanted(0.7 + tiny * 1j, parts)) / tiny)
    small = 1e-4
    slopes = [np.imag(wanted(0.7 + s + tiny * 1j, parts)) / tiny for s in (small, -small)]
    np.testing.assert_allclose(found(hessian), (slopes[0] - slopes[1]) / (2.0 * small), rtol=1e-4)


def test_a_shared_argument_of_a_custom_vjp() -> None:
    @custom_vjp
    def total(w: Any, x: Any) -> Any:
        return np.sum(w * x)

    total.defvjp(lambda w, x: (np.sum(w * x), (w, x)), lambda kept, g: (g * np.sum(kept[1]), g * kept[0] * np.ones_like(kept[1])))
    own = shard_map(grad(total), mesh=make_mesh((4,), ("i",)), in_specs=(P(), P("i")), out_specs=P())
    close(own(2.0, x), np.sum(x))
