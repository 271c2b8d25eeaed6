"""The modules that the name `autograd` stands for in its own tests."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

import calque

from . import differences, operators

NUMPY = ("linalg", "fft", "random")
SCIPY = ("integrate", "linalg", "signal", "special", "stats", "misc")
LAWS = ("norm", "multivariate_normal", "dirichlet", "beta", "gamma", "poisson", "t", "chi2")
OPERATORS = (
    "deriv elementwise_grad grad grad_and_aux grad_named hessian hessian_tensor_product"
    " holomorphic_grad jacobian make_ggnvp make_hvp make_jvp make_vjp multigrad_dict"
    " tensor_jacobian_product value_and_grad"
)
CHECKS = "check_equivalent check_grads check_jvp check_vjp combo_check scalar_close"


class OwnMachinery(Exception):
    """A test uses Autograd's internals, of which calque has none."""


class Own:
    """A stand-in for something inside Autograd, which raises when it is used."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OwnMachinery(self.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise OwnMachinery(f"{self.name}.{name}")


def named(name: str, **contents: Any) -> types.ModuleType:
    """A module of this name, in sys.modules; what else is asked of it is Autograd's own."""
    module = types.ModuleType(name)
    module.__path__ = []  # (a package: `import autograd.numpy as np` looks below it)
    module.__dict__.update(contents)

    def missing(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Own(f"{name}.{attribute}")

    module.__getattr__ = missing  # type: ignore[method-assign]
    sys.modules[name] = module
    return module


def install() -> None:
    """Puts the stand-ins under Autograd's names."""
    import scipy

    found = {one: getattr(operators, one) for one in OPERATORS.split()}
    found["checkpoint"] = calque.checkpoint
    found["hessian_vector_product"] = found["hessian_tensor_product"]
    found["vector_jacobian_product"] = found["tensor_jacobian_product"]
    found |= {"list": list, "tuple": tuple, "dict": dict, "isinstance": isinstance, "type": type}
    rules = {"primitive": operators.primitive, "defvjp": operators.defvjp}
    checks = {one: getattr(differences, one) for one in CHECKS.split()}
    sys.modules["autograd.numpy"] = np
    for one in NUMPY:
        sys.modules[f"autograd.numpy.{one}"] = importlib.import_module(f"numpy.{one}")
    sys.modules["autograd.scipy"] = scipy
    for one in SCIPY:
        if importlib.util.find_spec(f"scipy.{one}"):
            sys.modules[f"autograd.scipy.{one}"] = importlib.import_module(f"scipy.{one}")
    laws = sys.modules["autograd.scipy.stats"]
    for law in LAWS:
        sys.modules[f"autograd.scipy.stats.{law}"] = getattr(laws, law)
    within = {
        "test_util": named("autograd.test_util", **checks),
        "extend": named("autograd.extend", **rules),
        "core": named("autograd.core", make_vjp=operators.core_make_vjp, **rules),
        "tracer": named("autograd.tracer", primitive=operators.primitive, isbox=lambda x: False),
        "builtins": named("autograd.builtins", **found),
        "util": named("autograd.util"),
        "wrap_util": named(
            "autograd.wrap_util", unary_to_nary=operators.unary_to_nary, wraps=operators.wraps
        ),
        "differential_operators": named("autograd.differential_operators", **found),
        "misc": named("autograd.misc", flatten=operators.flatten),
    }
    named("autograd.misc.flatten", flatten=operators.flatten, flatten_func=operators.flatten_func)
    named("autograd.misc.fixed_points", fixed_point=operators.fixed_point)
    named("autograd", numpy=np, scipy=scipy, **found, primitive=operators.primitive, **within)


def optimizers(checkout: Path) -> None:
    """Autograd's optimizers, which are plain Python, from its source."""
    module = named("autograd.misc.optimizers")
    path = checkout / "autograd" / "misc" / "optimizers.py"
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    sys.modules["autograd.misc"].optimizers = module
