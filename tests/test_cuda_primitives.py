"""Every primitive on a GPU: value and derivatives of each sample, as Core evaluates them.

What CuPy has not is said in other words, or refused with what to write instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, standin
from cuda_emulator.running import ON_CARD, check_with_nvrtc, cuda_text, on_cuda, prepare
from primitives_on_cuda import OnCuda, programs
from sampling import sampled
from test_primitives import EVERY, UNDETERMINED, outputs, samples_of, split
from tracing import trace_any_and_builder

import calque
from calque import random
from calque.transpiler.codegen.cuda.cuda_target import CUDA
from calque.transpiler.codegen.text.spelling import template
from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.ir import core
from calque.transpiler.primitives.base import apply
from calque.transpiler.primitives.record import PRIMITIVES, Lacking

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
# what devices tell each other has a text within a mesh alone
COLLECTIVE = set("all_gather all_to_all axis_number pcast pmax pmean pmin ppermute psum".split())
COLLECTIVE |= {"psum_invariant", "psum_scatter"}
# kernels take the second operand for the extremum of the first, and samples have any number there
CONTRACTS = {"is largest", "is smallest"}
# the signs of the vectors are the library's
SIGNS = {"linalg.eigh"}
RUN = [name for name in EVERY if name not in COLLECTIVE | CONTRACTS]
CHOSEN = sampled(RUN, 16)


@pytest.fixture(scope="module")
def made() -> dict[str, list[OnCuda]]:
    """The programs of each primitive; their kernels are compiled together."""
    found = {name: list(programs(PRIMITIVES[name])) for name in CHOSEN}
    prepare(program.text for several in found.values() for program in several)
    return found


@pytest.mark.parametrize("name", CHOSEN)
def test_samples(name: str, made: dict[str, list[OnCuda]]) -> None:
    for program in made[name]:
        if program.refused is not None:
            assert says_lacking(name), program.label
            assert program.refused.hint
            continue
        check_with_nvrtc(program.text)
        assert list(unknown_names(program.text)) == [], program.label
        for got, want in zip(program.results(), program.expected, strict=True):
            assert np.shape(got) == np.shape(want), program.label
            if name not in UNDETERMINED:
                compare(name, program, np.asarray(got), np.asarray(want))


def says_lacking(name: str) -> bool:
    """True if a primitive's record says that CuPy has no function for it, for some operands at least."""
    found = PRIMITIVES[name].cupy
    return isinstance(found, Lacking) or callable(found)


def compare(name: str, program: OnCuda, got: np.ndarray, want: np.ndarray) -> None:
    """Equal up to the order of sums."""
    assert got.dtype.kind == want.dtype.kind, program.label
    single = any(np.asarray(v).dtype.itemsize <= 4 for v in (*program.inputs, want))
    single |= any(np.asarray(v).dtype == np.complex64 for v in (*program.inputs, want))
    if name in SIGNS:
        if " " in program.label.removeprefix(name).strip():
            return  # derivatives are of the vectors as they are
        got, want = np.abs(got), np.abs(want)
    tolerance = 2e-5 if single else 1e-9
    np.testing.assert_allclose(
        got, want, rtol=tolerance, atol=tolerance if single else 1e-12, err_msg=program.label
    )


def unknown_names(text: str) -> Iterator[str]:
    """Yield the names that a text uses of CuPy, as ``cp`` or ``np``, and that CuPy does not have."""
    homes = {"np": "", "cp": "", "cupyx": "", "linalg": "scipy.linalg.", "special": "scipy.special."}
    for node in ast.walk(ast.parse(text)):
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in homes or not parts:
            continue
        path = homes[node.id] + ".".join(reversed(parts))
        known = path in standin.API or any(k.startswith(f"{path}.") for k in standin.API)
        if not known and not (node.id == "np" and isinstance(getattr(np, path, None), type)):
            yield path


def test_every_name_is_one_of_cupys() -> None:
    """Whatever the printer may say of a primitive outside of kernels."""
    for name in EVERY:
        if name in COLLECTIVE:
            continue
        for args, params in samples_of(PRIMITIVES[name]):
            inputs, rebuild = split(args, params)

            def value(*values: Any, rebuild: Any = rebuild, params: Any = params) -> Any:
                return outputs(apply(PRIMITIVES[name], *rebuild(values), **params))

            with np.errstate(all="ignore"):
                function, builder = trace_any_and_builder(value, *inputs)
            with builder.active():
                texts = [t for s in core.walk(function.body) for t in outside(s)]
            assert [n for text in texts for n in unknown_names(text)] == [], name


def outside(s: core.Statement) -> list[str]:
    """The text of a statement, with letters for its operands; none where it is refused."""
    if not isinstance(s, core.Apply):
        return []
    try:
        text = CUDA.outside(s)
    except UnsupportedFunction:
        return []
    if text is None:
        text = template(s.primitive, s.args, s.params)
        text = f"called{text}" if s.primitive.imported else text
    return [re.sub(r"\{(\d+)\}", r"operand_\1", text)]


def test_an_unknown_name_is_seen() -> None:
    assert list(unknown_names("np.linalg.multi_dot([a, b]) + np.maximum.accumulate(a)")) == [
        "linalg.multi_dot",
        "maximum.accumulate",
    ]
    assert list(unknown_names("linalg.sqrtm(np.exp(a.astype(np.float32)))")) == [
        "scipy.linalg.sqrtm"
    ]


def noisy(key, x):
    key, sub = random.split(key)
    folded = random.fold_in(key, 5)
    noise = random.normal(sub, (40,)) + random.uniform(folded, (40,))
    return np.sum(noise * x) + random.exponential(folded, (3,))[1]


def single(key):
    return random.normal(key, (9,), np.float32), random.bits(key, (2, 3), np.uint32)


def test_random_numbers_are_drawn_on_the_gpu() -> None:
    key, x = random.key(3), np.linspace(0.0, 1.0, 40)
    before = len(standin.transfers)
    got = on_cuda(calque.value_and_grad(noisy, argnums=1), key, x)
    assert ON_CARD or standin.transfers[before:].count("get") == 2  # of the results
    want = calque.value_and_grad(noisy, argnums=1)(key, x)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-12)
    normal, bits = on_cuda(single, key)
    np.testing.assert_allclose(normal, random.normal(key, (9,), np.float32), rtol=1e-5)
    np.testing.assert_array_equal(bits, random.bits(key, (2, 3), np.uint32))


def rejected(key, x):
    return x * random.gamma(key, 2.0, (3,))


def test_what_cupy_lacks_is_refused_where_it_stands() -> None:
    with pytest.raises(UnsupportedFunction) as caught:
        cuda_text(rejected, random.key(1), np.ones(3))
    assert re.sub(r"(?m)^.*?(test_cuda_primitives.py, line )\d+", r"\1N", str(caught.value)) == (
        "test_cuda_primitives.py, line N, in rejected\n"
        "    return x * random.gamma(key, 2.0, (3,))\n"
        "               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "random.gamma has no like in CuPy: no GPU computes it.\n"
        "Instead: draw on the host, before the call, and give the function what was drawn"
    )
