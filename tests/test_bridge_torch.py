"""``calque.bridges.torch``: derivatives against PyTorch's own of the same formula, and its checkers."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, standin
from cuda_emulator.running import ON_CARD, installed

torch = pytest.importorskip("torch")

from torch_programs import (  # noqa: E402
    F64,
    FORMS,
    FUNC,
    WRAPPED,
    Layer,
    assert_same,
    growing,
    horner,
    horner_of_torch,
    points,
    wrap,
)

import calque  # noqa: E402
from calque.transpiler.errors import DtypeError, ImpureFunction, MixedDevices  # noqa: E402


def test_gradcheck() -> None:
    assert torch.autograd.gradcheck(
        WRAPPED,
        points(),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )


def test_gradgradcheck() -> None:
    assert torch.autograd.gradgradcheck(
        WRAPPED, points(), check_fwd_over_rev=True, check_rev_over_rev=True, check_batched_grad=True
    )


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # PyTorch's, of linearize
def test_transformations_of_torch_func(name: str) -> None:
    x, y = points(requires_grad=False)
    assert_same(FORMS[name](WRAPPED)(x, y), FORMS[name](horner_of_torch)(x, y))


def growing_of_torch(x: Any, p: Any, k: int, scale: float) -> Any:
    y = torch.sin(x)
    for _ in range(k):
        y = y * p["w"] + p["b"][0]
    return scale * y


def test_trees_and_numbers() -> None:
    f = wrap(growing)
    x = torch.linspace(0.0, 3.0, 4, dtype=F64)
    p = {
        "w": torch.rand(4, dtype=F64, requires_grad=True),
        "b": [torch.rand(1, dtype=F64, requires_grad=True), None],
    }
    found = f(x, p, 3, scale=3.0)
    expected = growing_of_torch(x, p, 3, 3.0)
    assert_same(found["y"], expected)
    assert found["count"].dtype is torch.int64 and not found["count"].requires_grad
    leaves = (p["w"], p["b"][0])
    assert_same(
        torch.autograd.grad(found["y"].sum(), leaves), torch.autograd.grad(expected.sum(), leaves)
    )


def misfit(p: Any, x: Any) -> Any:
    return {"loss": np.sum((np.tanh(p["w"]) * x - 1.0) ** 2)}


def test_a_number_comes_with_its_gradient() -> None:
    """One program runs, forth; a gradient that is differentiated again is another."""
    f = wrap(misfit)
    p = {"w": torch.tensor([0.5, 1.0], dtype=F64, requires_grad=True), "unread": torch.ones(1)}
    x = torch.tensor([2.0, 3.0], dtype=F64, requires_grad=True)

    def of_torch(w: Any, x: Any) -> Any:
        return ((torch.tanh(w) * x - 1.0) ** 2).sum()

    found = f(p, x)["loss"]
    expected = of_torch(p["w"], x)
    assert_same(found, expected)
    assert_same(torch.autograd.grad(3.0 * found, (p["w"], x)), torch.autograd.grad(3.0 * expected, (p["w"], x)))
    operation, _ = f._operation((p, x), {})
    assert not [key for key in operation._made if key[0] == "pullback"]
    assert torch.autograd.gradgradcheck(lambda w, x: f({**p, "w": w}, x)["loss"], (p["w"], x))
    found = wrap(measured)(x)  # what cannot be differentiated has a value
    assert found.item() == 5.0
    with pytest.raises(calque.transpiler.errors.CalqueError, match="ruler"):
        found.backward()


@calque.opaque(result=np.sum)
def ruler(x: Any) -> Any:
    return np.sum(x)


def measured(x: Any) -> Any:
    return ruler(x)


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


def swapped(pair: Any) -> Any:
    return Pair(pair.b, pair.a * pair.b)


def test_dataclasses() -> None:
    found = wrap(swapped)(Pair(torch.ones(2), 3.0))
    assert isinstance(found, Pair)
    assert found.a.item() == 3.0 and found.b.tolist() == [3.0, 3.0]


def squares(x: Any, index: Any) -> Any:
    return np.sum(x[index] ** 2)


def test_integer_tensors() -> None:
    x, index = torch.arange(1.0, 5.0, dtype=F64), torch.tensor([[0, 0, 2], [1, 1, 1]])
    found = FUNC.vmap(FUNC.grad(wrap(squares)), in_dims=(None, 0))(x, index)
    assert found.tolist() == [[4.0, 0.0, 6.0, 0.0], [0.0, 12.0, 0.0, 0.0]]


def both(x: Any) -> Any:
    return np.sum(x > 0.0), x * x, x > 0.0


def test_results_without_derivatives() -> None:
    x = torch.tensor([1.0, -2.0], dtype=F64)
    primal, tangent = FUNC.jvp(wrap(both), (x,), (torch.ones(2, dtype=F64),))
    assert primal[0].item() == 1 and primal[2].tolist() == [True, False]
    assert tangent[1].tolist() == [2.0, -4.0]


@pytest.mark.parametrize(
    "view", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[:1].expand(4, 3), lambda x: x[0, 0]]
)
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_strides_and_dtypes(view: Any, dtype: Any) -> None:
    x = view(torch.linspace(0.0, 1.0, 6, dtype=dtype).reshape(2, 3)).requires_grad_()
    found = wrap(tanh)(x)
    torch.testing.assert_close(found, torch.tanh(x))
    (slope,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(slope, 1.0 - torch.tanh(x) ** 2)


def tanh(x: Any) -> Any:
    return np.tanh(x)


def waves(z: Any, w: Any) -> Any:
    return np.exp(z) * w, np.abs(z), np.sum(z * np.conj(z)).real


def test_complex_numbers() -> None:
    z = torch.tensor([1.0 + 2.0j, 0.5 - 1.0j], dtype=torch.complex128, requires_grad=True)
    w = torch.tensor([2.0, 3.0], dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(wrap(waves), (z, w), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(wrap(waves), (z, w))
    assert_same(wrap(waves)(z.conj(), w)[0], torch.exp(z.conj()) * w)
    assert_same(wrap(tanh)(z.conj().imag), torch.tanh(z.conj().imag))


CAPTURED = np.full(3, 3.0)


def overlapping(x: Any) -> Any:
    return x, x[1:], x, CAPTURED, CAPTURED[1:]


def stored(x: Any) -> Any:
    x[0] = 7.0
    return x


@pytest.mark.parametrize("jit", [True, False])
def test_results_share_no_memory(jit: bool) -> None:
    x = torch.arange(3.0, dtype=F64, requires_grad=True)
    found = [
        *wrap(overlapping, jit=jit)(x),
        *torch.autograd.grad(wrap(overlapping, jit=jit)(x)[2].sum(), x),
    ]
    assert len({t.untyped_storage().data_ptr() for t in [x, *found]}) == 7
    with torch.no_grad():
        for tensor in found:
            tensor.fill_(9.0)
    assert x.tolist() == [0.0, 1.0, 2.0] and np.all(CAPTURED == 3.0)


@pytest.mark.parametrize("jit", [True, False])
def test_a_store_into_an_argument_stays_inside(jit: bool) -> None:
    x = torch.arange(3.0, dtype=F64, requires_grad=True)
    found = wrap(stored, jit=jit)(x)
    assert found.tolist() == [7.0, 1.0, 2.0] and x.tolist() == [0.0, 1.0, 2.0]
    assert torch.autograd.grad(found.sum(), x)[0].tolist() == [0.0, 1.0, 1.0]


def test_arguments_share_memory_with_numpy() -> None:
    seen = []
    operation, _ = WRAPPED._operation((torch.ones(2), torch.ones(2)), {})
    keep = operation.call
    x = torch.ones(2)
    try:
        operation.call = lambda *arrays: seen.extend(arrays) or keep(*arrays)
        WRAPPED(x, torch.ones(2))
    finally:
        operation.call = keep
    assert seen[0].__array_interface__["data"][0] == x.data_ptr()


def test_an_argument_changed_before_the_backward_pass_is_noticed() -> None:
    x, y = points()
    inner = x * 1.0
    found = WRAPPED(inner, y)
    inner.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()


def test_a_module_is_trained_copied_and_saved() -> None:
    torch._dynamo.reset()
    layer, x = Layer(), torch.linspace(-1.0, 1.0, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    target = horner_of_torch(x, torch.linspace(0.0, 1.0, 4))
    model = torch.compile(layer, fullgraph=True, backend="aot_eager")
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = ((model(x) - target) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert_same(other(x), layer(x))


def test_checkpoints_and_functional_derivatives() -> None:
    x, y = points()
    kept = torch.utils.checkpoint.checkpoint(WRAPPED, x, y, use_reentrant=False)
    assert_same(
        torch.autograd.grad(kept.sum(), x), torch.autograd.grad(horner_of_torch(x, y).sum(), x)
    )
    found = torch.autograd.functional.jacobian(WRAPPED, (x, y), vectorize=True)
    assert_same(found, torch.autograd.functional.jacobian(horner_of_torch, (x, y)))


def drawn(x: Any) -> Any:
    return x * np.random.normal()


def texts(x: Any) -> Any:
    return "a", x


@pytest.mark.parametrize(
    ("f", "args", "error", "text"),
    [
        (
            tanh,
            (torch.ones(2, dtype=torch.bfloat16),),
            DtypeError,
            r"argument 0 \(x\) is a tensor of torch.bfloat16",
        ),
        (
            swapped,
            ({"a": torch.eye(2).to_sparse()},),
            DtypeError,
            r"argument 0 \(pair\['a'\]\) is a tensor of layout",
        ),
        (horner, (torch.ones(2), {1}), TypeError, "an argument is set"),
        (texts, (torch.ones(2),), TypeError, "a result is str"),
        (drawn, (torch.ones(2),), ImpureFunction, "np.random.normal"),
    ],
)
def test_what_is_refused(f: Any, args: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        wrap(f)(*args)


def test_tensors_of_other_devices_are_refused() -> None:
    class Elsewhere:
        device = torch.device("cuda:0")

    from calque.runtime.bridges.torch_arrays import array_of, why_no_array

    assert "is a tensor on cuda:0" in why_no_array(Elsewhere)[0]

    class Moved(Elsewhere):
        @staticmethod
        def detach() -> Any:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")

    with pytest.raises(MixedDevices, match="pass x.cpu()"):
        array_of(Moved, WRAPPED._operation((torch.ones(1),) * 2, {})[0])


@pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
@pytest.mark.skipif(ON_CARD, reason="the arrays are the stand-in's")
def test_programs_of_operations_run_on_arrays_of_cupy() -> None:
    """Only the programs: tensors on a GPU are refused until a card has run them."""
    x, y = (t.numpy() for t in points(requires_grad=False))
    operation, _ = wrap(horner)._operation((torch.ones(4), torch.ones(4)), {})
    lanes = operation.batched((True, False)).pullback((0,), (0,))
    with installed():
        on_gpu = [standin.asarray(a) for a in (x, y)]
        assert_same(operation.call(*on_gpu).get(), operation.call(x, y))
        cotangent = np.ones(4)
        pulled = operation.pullback((0, 1), (0,)).call
        found = pulled(*on_gpu, standin.asarray(cotangent))
        assert_same([a.get() for a in found], list(pulled(x, y, cotangent)))
        rows = np.stack([x, y])
        (found,) = lanes.call(standin.asarray(rows), on_gpu[1], standin.asarray(np.ones((2, 4))))
        assert_same(found.get(), lanes.call(rows, y, np.ones((2, 4)))[0])


@pytest.mark.filterwarnings("error:.* is generated anew")
@pytest.mark.parametrize("jit", [True, False])
def test_functions_that_capture_places_and_sizes_share_no_programs(jit: bool) -> None:
    def made(place: int) -> Any:
        return lambda *arrays: np.ones(place + 1) * np.sum(arrays[place] ** 3)

    xs = [torch.full((6,), 2.0, dtype=F64, requires_grad=True) for _ in range(6)]
    functions = [wrap(made(place), jit=jit) for place in range(6)]
    for place, f in enumerate(functions):
        found = f(*xs)
        assert_same(found, torch.full((place + 1,), 48.0, dtype=F64))
        (slope,) = torch.autograd.grad(found.sum(), xs[place])
        assert_same(slope, torch.full((6,), 12.0 * (place + 1), dtype=F64))


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="wrap: f must be a function"):
        wrap(3)


def test_numpy_source_serves_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    f = wrap(horner)
    x, y = points(requires_grad=False)
    operation, _ = f._operation((x, y), {})
    assert operation.call.kind == "identity"
    assert_same(f(x, y), horner_of_torch(x, y))


def test_the_missing_framework_is_named() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport calque\ncalque.bridges.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "calque[torch]"' in done.stderr and "FrameworkMissing" in done.stderr


def test_the_program_of_the_documentation(tmp_path: Path) -> None:
    torch._dynamo.reset()
    page = Path(calque.__file__).resolve().parent / "docs" / "bridges.md"
    (text,) = re.findall(r"^```python torch\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    (tmp_path / "page.py").write_text(text)
    runpy.run_path(str(tmp_path / "page.py"))
