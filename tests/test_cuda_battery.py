"""The battery on a GPU: the CUDA path's value and gradient against the CPU's, program by program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_emulator import building
from cuda_emulator.running import cuda_text, few_blocks, on_cuda, prepare
from sampling import sampled

import calque
from battery import oracle
from battery.registry import Program, load

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
ACCEPTED = [program for program in load() if program.refused is None]
CHOSEN = sampled(ACCEPTED, 8)


@pytest.fixture(scope="module")
def functions() -> dict[str, Any]:
    """The programs with their gradients; their kernels are compiled together."""
    made = {p.id: calque.value_and_grad(p.scalar(), argnums=p.diff) for p in CHOSEN}
    prepare(cuda_text(made[p.id], *p.fresh()) for p in CHOSEN)
    return made


@pytest.mark.parametrize("program", CHOSEN, ids=lambda program: program.id)
def test_value_and_gradient(program: Program, functions: dict[str, Any]) -> None:
    function = functions[program.id]
    with few_blocks(3):
        got, want = on_cuda(function, *program.fresh()), function(*program.fresh())
    assert oracle.structure(got[1]) == oracle.structure(want[1])
    np.testing.assert_allclose(got[0], want[0], rtol=1e-9)
    np.testing.assert_allclose(oracle.flat(got[1]), oracle.flat(want[1]), rtol=1e-9, atol=1e-12)


def test_what_is_prepared_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program = CHOSEN[0]
    function = calque.value_and_grad(program.scalar(), argnums=program.diff)
    prepare([cuda_text(function, *program.fresh())])

    def compiled(*_: Any) -> Any:
        raise AssertionError("a text that is in a unit")

    monkeypatch.setattr(building, "_built", compiled)
    on_cuda(function, *program.fresh())
