"""calque writes the derivative of a NumPy function as NumPy source that a person can review."""

from calque.runtime import interpreted as _interpreted  # noqa: F401  (teaches the interpreter)
from calque.runtime.api import (
    grad,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jit,
    jvp,
    linear_transpose,
    linearize,
    stop_gradient,
    value_and_grad,
    vjp,
    vmap,
)
from calque.runtime.checking import check, check_grads
from calque.runtime.collectives import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
)
from calque.runtime.custom import checkpoint, custom_jvp, custom_vjp, remat
from calque.runtime.debugging import debug_nans
from calque.runtime.implicit import custom_root, fixed_point
from calque.runtime.primitive import bilinear, elementwise, linear, opaque, reduction
from calque.runtime.reading import explain, save, source
from calque.runtime.spec import spec
from calque.runtime.version import __version__
from calque.transpiler.tree import (
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    tree_map,
)

__all__ = [
    "__version__",
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "bilinear",
    "check",
    "check_grads",
    "checkpoint",
    "custom_jvp",
    "custom_root",
    "custom_vjp",
    "debug_nans",
    "elementwise",
    "explain",
    "fixed_point",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linear",
    "linear_transpose",
    "linearize",
    "opaque",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
    "reduction",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "remat",
    "save",
    "source",
    "spec",
    "stop_gradient",
    "tree_map",
    "value_and_grad",
    "vjp",
    "vmap",
]
