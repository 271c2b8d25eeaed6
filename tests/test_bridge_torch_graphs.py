"""``calque.bridges.torch`` in graphs: ``torch.compile``, ``torch.export``, tensors without values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_programs import (  # noqa: E402
    F64,
    FORMS,
    WRAPPED,
    Layer,
    assert_same,
    growing,
    horner_of_torch,
    points,
    wrap,
)


def test_opcheck() -> None:
    op, leaves = WRAPPED.custom_op(*points())
    assert set(torch.library.opcheck(op, leaves).values()) == {"SUCCESS"}
    assert torch.autograd.gradcheck(op, leaves) and torch.autograd.gradgradcheck(op, leaves)


@pytest.mark.parametrize("name", ["grad", "jacfwd", "vmap of grad", "jvp"])
def test_a_custom_op_under_torch_func(name: str) -> None:
    x, y = points(requires_grad=False)
    op, _ = WRAPPED.custom_op(x, y)
    assert_same(FORMS[name](op)(x, y), FORMS[name](horner_of_torch)(x, y))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_by_torch(backend: str) -> None:
    torch._dynamo.reset()

    def of(f: Any) -> Any:
        return lambda x, y: (f(x * 2.0, y) ** 2).sum()

    compiled = torch.compile(of(WRAPPED), fullgraph=True, backend=backend)
    x, y = points()
    found, expected = compiled(x, y), of(horner_of_torch)(x, y)
    assert_same(found, expected)
    assert_same(torch.autograd.grad(found, (x, y)), torch.autograd.grad(expected, (x, y)))


@pytest.mark.parametrize("name", ["grad", "vmap", "vmap of grad", "jacfwd"])
def test_torch_func_within_torch_compile(name: str) -> None:
    torch._dynamo.reset()
    x, y = points(requires_grad=False)
    compiled = torch.compile(FORMS[name](WRAPPED), fullgraph=True, backend="aot_eager")
    assert_same(compiled(x, y), FORMS[name](horner_of_torch)(x, y))


def test_trees_numbers_and_sizes_within_torch_compile() -> None:
    """The sizes of results follow from those of arguments, which may be symbols; numbers may change."""
    torch._dynamo.reset()
    f = wrap(growing)

    def total(x: Any, p: Any, k: int) -> Any:
        found = f(x, p, k, scale=2.0, mode="cos")
        return found["y"].sum() + found["ends"][1].sum() * found["count"]

    compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
    for size, k in ((4, 1), (5, 2), (6, 3), (9, 3)):
        p = {
            "w": torch.rand(size, dtype=F64, requires_grad=True),
            "b": [torch.rand(1, dtype=F64, requires_grad=True)],
        }
        x = torch.linspace(0.0, 3.0, size, dtype=F64)
        found, expected = compiled(x, p, k), total(x, p, k)
        assert_same(found, expected)
        leaves = (p["w"], p["b"][0])
        assert_same(torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves))


def chosen(x: Any) -> Any:
    return x[x > 1.0]


def test_sizes_that_depend_on_values() -> None:
    torch._dynamo.reset()
    x = torch.arange(4.0, dtype=F64, requires_grad=True)
    f = wrap(chosen)
    assert torch.autograd.grad(f(x).sum(), x)[0].tolist() == [0.0, 0.0, 1.0, 1.0]
    with pytest.raises(Exception, match="the size of result 0 depends on values"):
        torch.compile(f, fullgraph=True, backend="aot_eager")(x)


def test_fakes_meta_tensors_and_exported_programs() -> None:
    x, y = points(requires_grad=False)
    assert WRAPPED(x.to("meta"), y.to("meta")).shape == (4,)
    with torch._subclasses.FakeTensorMode() as mode:
        assert WRAPPED(mode.from_tensor(x), mode.from_tensor(y)).shape == (4,)
    layer = Layer()
    program = torch.export.export(layer, (torch.ones(4),))
    assert_same(program.module()(torch.ones(4)), layer(torch.ones(4)))


def squeezed(x: Any, z: Any) -> Any:
    return np.squeeze(x) * z


@pytest.mark.parametrize("shape", [(3, 1), (1, 1), (2, 3)])
def test_sizes_of_one(shape: tuple[int, ...]) -> None:
    torch._dynamo.reset()
    f = wrap(squeezed)
    x = torch.rand(shape, dtype=F64, requires_grad=True)
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    for found in (f(x, 2.0), compiled(x, 2.0)):
        assert_same(found, 2.0 * x.squeeze())
        assert_same(torch.autograd.grad(found.sum(), x), (torch.full(shape, 2.0, dtype=F64),))


def test_numbers_alone() -> None:
    torch._dynamo.reset()
    f = wrap(squeezed)
    assert f(2.0, 3.0).item() == 6.0 and f(2.0, 3j).item() == 6j
    compiled = torch.compile(lambda x: f(3.0, 2.0) * x, fullgraph=True, backend="aot_eager")
    assert compiled(torch.ones(2)).tolist() == [6.0, 6.0]
