"""Decorators that give the transformations their types for type checkers, and do nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calque.runtime import type_protocols


def gradient(declared: Any) -> type_protocols.Gradient:
    """The same, with the types of ``grad``."""
    return declared


def value_and_gradient(declared: Any) -> type_protocols.ValueAndGradient:
    """The same, with the types of ``value_and_grad``."""
    return declared


def jacobian(declared: Any) -> type_protocols.Jacobian:
    """The same, with the types of ``jacfwd``."""
    return declared


def value_and_jacobian(declared: Any) -> type_protocols.ValueAndJacobian:
    """The same, with the types of ``value_and_jacobian``."""
    return declared


def second_derivative(declared: Any) -> type_protocols.SecondDerivative:
    """The same, with the types of ``hessian_diag``."""
    return declared


def forward_mode(declared: Any) -> type_protocols.ForwardMode:
    """The same, with the types of ``jvp``."""
    return declared


def hessian_product(declared: Any) -> type_protocols.HessianProduct:
    """The same, with the types of ``hvp``."""
    return declared


def reverse_mode(declared: Any) -> type_protocols.ReverseMode:
    """The same, with the types of ``vjp``."""
    return declared


def linearization(declared: Any) -> type_protocols.Linearization:
    """The same, with the types of ``linearize``."""
    return declared


def compilation(declared: Any) -> type_protocols.JitFunction:
    """The same, with the types of ``jit``."""
    return declared


def parallelization(declared: Any) -> type_protocols.Parallelization:
    """The same, with the types of ``parallel``."""
    return declared


def batching(declared: Any) -> type_protocols.Batching:
    """The same, with the types of ``vmap``."""
    return declared


def mapping(declared: Any) -> type_protocols.Mapping:
    """The same, with the types of ``pmap``."""
    return declared


def shard_mapping(declared: Any) -> type_protocols.ShardMapping:
    """The same, with the types of ``shard_map``."""
    return declared


def checkpointing(declared: Any) -> type_protocols.Checkpointing:
    """The same, with the types of ``checkpoint``."""
    return declared


def tangent_rules(declared: Any) -> type_protocols.TangentRules:
    """The same, with the types of ``custom_jvp``."""
    return declared


def cotangent_rules(declared: Any) -> type_protocols.CotangentRules:
    """The same, with the types of ``custom_vjp``."""
    return declared
