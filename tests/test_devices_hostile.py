"""`pmap` and `shard_map` where they are easy to get wrong: rules within, calls by name, stores."""

from __future__ import annotations

import pickle
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque import (
    P,
    checkpoint,
    custom_jvp,
    custom_vjp,
    devices,
    grad,
    hessian,
    make_mesh,
    pmap,
    psum,
    save,
    shard_map,
    source,
)
from calque.transpiler.errors import (
    AliasUndecided,
    ImpureFunction,
    NoSuchDevice,
    ShapeError,
    UnsupportedFunction,
    VariesOverDevices,
)


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


def iterations(w: Any, x: Any, wrap: Any) -> Any:
    y = x
    for _ in range(3):
        y = np.sin(w * y) + wrap(lambda w, y: w * psum(np.sum(y), "i"))(w, y)
    return y


def whole(w: Any, parts: Any) -> Any:
    return np.sum(np.sin(w * parts) * np.sum(w * parts, axis=0))


def whole_iterations(w: Any, parts: Any) -> Any:
    for _ in range(3):
        parts = np.sin(w * parts) + w * np.sum(parts)
    return np.sum(parts)


CALLS = {
    "custom_jvp": (ruled, whole),
    "checkpoint": (once, whole),
    "checkpoint twice": (twice, lambda w, parts: w * whole(w, parts)),
    "checkpoint in a loop": (lambda w, x: iterations(w, x, checkpoint), whole_iterations),
    "loop": (lambda w, x: iterations(w, x, lambda f: f), whole_iterations),
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


# calls


def scaled(x: Any, scale: Any = 2.0) -> Any:
    return x * scale


def keyword_only(x: Any, *, scale: Any = 2.0) -> Any:
    return x * scale


def refused(kind: type, f: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as error:
        f(*args, **kwargs)
    return str(error.value)


def test_arguments_by_name_are_mapped_over_their_first_axis() -> None:
    row = np.arange(4.0)
    close(pmap(scaled)(row, scale=row), row * row)
    close(pmap(scaled, in_axes=(None,))(3.0, scale=row), 3.0 * row)
    close(pmap(scaled)(scale=row, x=row), row * row)
    close(pmap(scaled)(row), row * 2.0)
    assert "scale is passed by name" in refused(UnsupportedFunction, pmap(keyword_only), row, scale=row)
    blocks = shard_map(scaled, mesh=make_mesh((4,), ("i",)), in_specs=P("i"), out_specs=P("i"))
    assert "in_specs are of positions" in refused(UnsupportedFunction, blocks, row, scale=3.0)
    assert "by name" in refused(UnsupportedFunction, grad(lambda x: np.sum(blocks(x, scale=3.0))), row)


def test_static_arguments_have_no_axis() -> None:
    row = np.arange(4.0)
    close(pmap(lambda f, x: f(x), static_broadcasted_argnums=0)(np.sin, row), np.sin(row))
    power = pmap(lambda x, n: x**n, static_broadcasted_argnums=-1)
    close(power(row, 3), row**3)
    close(grad(lambda x: np.sum(power(x, 3)))(row), 3.0 * row**2)


def test_no_devices_at_all() -> None:
    assert "asks for 0 devices" in refused(ShapeError, pmap(scaled), np.ones((0, 3)))
    assert "pass 4 devices" in refused(NoSuchDevice, pmap(scaled, devices=devices()[:2]), np.ones(4))


class Model:
    w = 3.0

    @pmap
    def times(self, x: Any) -> Any:
        return x * self.w


parallel = pmap(scaled, axis_name="i")


def test_methods_and_copies_run_on_devices() -> None:
    close(Model().times(np.arange(4.0)), 3.0 * np.arange(4.0))
    assert "9 devices are asked for" in refused(NoSuchDevice, Model().times, np.arange(9.0))
    copied = pickle.loads(pickle.dumps(parallel))
    close(copied(np.arange(4.0)), 2.0 * np.arange(4.0))
    assert "9 devices are asked for" in refused(NoSuchDevice, copied, np.arange(9.0))


def test_stores_into_what_several_devices_have() -> None:
    def adds(total: Any, x: Any) -> Any:
        for k in range(2):
            total[k] += x
        return total[0]

    for f in (pmap(adds, in_axes=(None, 0)), shard_map(lambda total, x: adds(total, x[0]), mesh=make_mesh((4,), ("i",)), in_specs=P(), out_specs=P("i"))):
        for call in (f, lambda *args, f=f: source(f, *args)):
            text = refused(ImpureFunction, call, np.zeros(3), np.arange(4.0))
            assert "total[k] += x" in text and "total = total.copy()" in text
    own = np.zeros((4, 3))
    close(pmap(adds)(own, np.arange(4.0)), np.arange(4.0))
    close(own[:, 1], np.arange(4.0))
    both = np.arange(8.0).reshape(4, 2)

    def reads(own: Any, other: Any) -> Any:
        own[0] = 1.0
        return other[0]

    assert "pass a copy" in refused(AliasUndecided, pmap(reads), both, both[::-1])


def test_the_callers_errstate_holds_on_all_devices() -> None:
    inverse = pmap(lambda x: 1.0 / x)
    zero_on_third = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0], [1.0, 2.0]])
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        inverse(zero_on_third)
    with np.errstate(divide="ignore"):
        assert np.isinf(inverse(zero_on_third)[2, 0])


def test_specs_that_do_not_fit_are_refused_alone_and_within() -> None:
    line, grid = make_mesh((4,), ("i",)), make_mesh((2, 2), ("r", "c"))

    def mapped(mesh: Any, given: Any, whole: Any, f: Any = lambda x: x * x, check: bool = True) -> Any:
        return shard_map(f, mesh=mesh, in_specs=given, out_specs=whole, check_vma=check)

    square, row = np.ones((4, 4)), np.ones(8)
    wrong = [
        (ValueError, "names 'r' twice", mapped(grid, P("r", "r"), P("r")), square),
        (ValueError, "no axis of the mesh", mapped(line, P("j"), P("i")), row),
        (ValueError, "no axis of the mesh", mapped(line, P("i"), P("j"), check=False), row),
        (ShapeError, "of argument 0 has more entries than its 1 axes", mapped(line, P("i", None), P("i")), row),
        (ShapeError, "of the result has more entries than its 1 axes", mapped(line, P("i"), P("i", None)), row),
        (ShapeError, "of the result has more entries than its 0 axes", mapped(line, P("i"), P("i"), np.sum), row),
        (VariesOverDevices, "out_specs has P()", mapped(line, P("i"), P(), lambda x: np.sum(x)), row),
    ]
    for kind, said, f, x in wrong:
        assert said in refused(kind, f, x)
        assert said in refused(kind, grad(lambda x, f=f: np.sum(f(x))), x)


def test_a_saved_module_of_parameters_with_its_own_names(tmp_path: Path) -> None:
    def clash(run: Any, k: Any, k_: Any, arguments: Any, results: Any, comm: Any, i: Any) -> Any:
        return run * psum(k, "i") + k_ * arguments - results / comm + i

    x = [np.arange(1.0, 5.0) + k for k in range(7)]
    save(pmap(clash, "i"), tmp_path / "saved.py", *x)
    found = runpy.run_path(str(tmp_path / "saved.py"))["clash_pmap"](*x)
    close(found, x[0] * np.sum(x[1]) + x[2] * x[3] - x[4] / x[5] + x[6])
