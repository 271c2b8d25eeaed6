"""Public functions about programs, which interpreted code cannot call."""

from __future__ import annotations

from typing import Any

from calque.runtime import debug_nans, primitive, registering
from calque.runtime.check import checking
from calque.runtime.saving import reading
from calque.runtime.spec import spec
from calque.transpiler.errors import UnsupportedFunction
from calque.transpiler.frontend.library.python_builtins import builtin
from calque.transpiler.frontend.machine import Args, Kwargs, Machine

_OUTSIDE = (
    *(reading.source, reading.save, reading.explain, checking.check, checking.check_grads),
    *(primitive.elementwise, primitive.linear, primitive.bilinear, primitive.reduction),
    *(primitive.opaque, debug_nans.debug_nans, registering.register_dataclass),
    *(registering.register_pytree_node, registering.register_pytree_node_class),
)


def _refusal(public: Any) -> Any:
    def refuse(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
        raise UnsupportedFunction(
            f"calque.{public.__name__} is called in a function that is transformed.",
            hint="call it outside",
        )

    return refuse


for _public in _OUTSIDE:
    builtin(_public)(_refusal(_public))


@builtin(spec)
def _spec(machine: Machine, node: Any, args: Args, kwargs: Kwargs) -> Any:
    return spec(*args, **kwargs)
