"""The benchmark's NumPy programs on small inputs: values as in plain Python, gradients against JAX."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy_programs import PROGRAMS, loss_of
from sampling import sampled

import calque
import measuring
from programs.record import Program

EACH = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@pytest.fixture(scope="module", autouse=True)
def x64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def same(found, expected) -> None:
    mine, theirs = measuring.leaves(found), measuring.leaves(expected)
    for left, right in zip(mine, theirs, strict=True):
        assert np.asarray(left).dtype == np.asarray(right).dtype
    assert not measuring.difference(found, expected)


@pytest.mark.parametrize("program", sampled(PROGRAMS, 6), ids=lambda program: program.name)
def test_the_peers_agree(program: Program) -> None:
    args = program.inputs(program.small)
    expected = program.numpy(*measuring.copied(args))
    peer = jax.jit(program.jax, static_argnums=program.static())
    assert not measuring.difference(peer(*args), expected)
    assert not measuring.difference(program.numba(*measuring.copied(args)), expected)


@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if p.wrt], ids=lambda program: program.name
)
def test_value_and_gradient(program: Program) -> None:
    args = program.inputs(program.small)
    loss = loss_of(program.numpy, np)
    value, gradients = calque.value_and_grad(loss, argnums=program.wrt)(*args)
    assert value == loss(*measuring.copied(args))
    peer = jax.grad(loss_of(program.jax, jnp), argnums=program.wrt)
    same(gradients, jax.jit(peer, static_argnums=program.static())(*args))
