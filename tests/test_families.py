"""The benchmark's families of derivatives, on small inputs and as Python, against JAX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import pytest
from families import ROWS
from sampling import sampled

import calque
import measuring
from programs.family import Row


@pytest.fixture(scope="module", autouse=True)
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("row", sampled(ROWS, 3), ids=lambda row: row.name)
def test_derivatives(row: Row, monkeypatch: Any) -> None:
    monkeypatch.setenv("CALQUE_JIT", "0")
    args = row.inputs(row.small)
    static = tuple(k for k, value in enumerate(args) if type(value) is int)
    expected = jax.jit(row.jax, static_argnums=static)(*args)
    assert not measuring.difference(calque.jit(row.ours)(*measuring.copied(args)), expected)
