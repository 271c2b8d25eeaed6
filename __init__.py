"""calque writes the derivative of a NumPy function as NumPy source that a person can review."""

import sys
from typing import TYPE_CHECKING

from calque.runtime.gc_pause import uncollected as _uncollected
from calque.transpiler.late import Late as _Late
from calque.transpiler.late import names_from as _names_from

with _uncollected():  # what is imported stays: no search for cycles finds any
    from calque.runtime import interpreted as _interpreted  # noqa: F401  (teaches the interpreter)
    from calque.runtime.api import (
        grad,
        hessian,
        jacfwd,
        jacrev,
        jit,
        parallel,
        stop_gradient,
        value_and_grad,
        vmap,
    )
    from calque.runtime.debug_nans import debug_nans
    from calque.runtime.linear_maps import hvp, jvp, linear_transpose, linearize, vjp
    from calque.runtime.spec import spec
    from calque.runtime.version import __version__
    from calque.transpiler.frontend.library.scipy_twins import HOMES as _HOMES

if TYPE_CHECKING:
    from calque.runtime import bridges, random, sparse, tree
    from calque.runtime.call.fallback import JitFallback
    from calque.runtime.check.checking import check, check_grads
    from calque.runtime.collectives import (
        all_gather,
        all_to_all,
        axis_index,
        axis_size,
        pcast,
        pmax,
        pmean,
        pmin,
        ppermute,
        psum,
        psum_scatter,
    )
    from calque.runtime.custom import checkpoint, custom_jvp, custom_vjp, remat
    from calque.runtime.custom_root import custom_root, fixed_point
    from calque.runtime.devices.placing import (
        NamedSharding,
        block_until_ready,
        default_device,
        device_get,
        device_put,
        shard,
        unshard,
    )
    from calque.runtime.devices.pmapped import pmap
    from calque.runtime.devices.sharded import shard_map
    from calque.runtime.meshes import (
        Device,
        Mesh,
        P,
        device_count,
        devices,
        local_device_count,
        local_devices,
        make_mesh,
        process_count,
        process_index,
    )
    from calque.runtime.more_derivatives import (
        hessian_diag,
        jacobian,
        jet,
        laplacian,
        value_and_hessian,
        value_and_jacobian,
    )
    from calque.runtime.primitive import bilinear, elementwise, linear, opaque, reduction
    from calque.runtime.random.reuse import debug_keys
    from calque.runtime.registering import (
        register_dataclass,
        register_pytree_node,
        register_pytree_node_class,
    )
    from calque.runtime.saving.reading import explain, save, source
    from calque.runtime.saving.viewing import view
    from calque.runtime.trees import (
        keystr,
        ravel_pytree,
        tree_all,
        tree_flatten,
        tree_flatten_with_path,
        tree_leaves,
        tree_leaves_with_path,
        tree_map,
        tree_map_with_path,
        tree_reduce,
        tree_structure,
        tree_transpose,
        tree_unflatten,
    )

else:  # the rest is imported when it is asked for
    _LATE = {
        "calque.runtime": "bridges random sparse tree",
        "calque.runtime.call.fallback": "JitFallback",
        "calque.runtime.check.checking": "check check_grads",
        "calque.runtime.collectives": (
            "all_gather all_to_all axis_index axis_size pcast pmax pmean pmin "
            "ppermute psum psum_scatter"
        ),
        "calque.runtime.custom": "checkpoint custom_jvp custom_vjp remat",
        "calque.runtime.custom_root": "custom_root fixed_point",
        "calque.runtime.devices.placing": (
            "NamedSharding block_until_ready default_device device_get device_put "
            "shard unshard"
        ),
        "calque.runtime.devices.pmapped": "pmap",
        "calque.runtime.devices.sharded": "shard_map",
        "calque.runtime.meshes": (
            "Device Mesh P device_count devices local_device_count local_devices "
            "make_mesh process_count process_index"
        ),
        "calque.runtime.more_derivatives": (
            "hessian_diag jacobian jet laplacian value_and_hessian "
            "value_and_jacobian"
        ),
        "calque.runtime.primitive": "bilinear elementwise linear opaque reduction",
        "calque.runtime.random.reuse": "debug_keys",
        "calque.runtime.registering": (
            "register_dataclass register_pytree_node register_pytree_node_class"
        ),
        "calque.runtime.saving.reading": "explain save source",
        "calque.runtime.saving.viewing": "view",
        "calque.runtime.trees": (
            "keystr ravel_pytree tree_all tree_flatten tree_flatten_with_path "
            "tree_leaves tree_leaves_with_path tree_map tree_map_with_path "
            "tree_reduce tree_structure tree_transpose tree_unflatten"
        ),
    }
    __getattr__ = _names_from("calque", _LATE)

__all__ = [
    "Device",
    "JitFallback",
    "Mesh",
    "NamedSharding",
    "P",
    "__version__",
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "bilinear",
    "block_until_ready",
    "bridges",
    "check",
    "check_grads",
    "checkpoint",
    "custom_jvp",
    "custom_root",
    "custom_vjp",
    "debug_keys",
    "debug_nans",
    "default_device",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "elementwise",
    "explain",
    "fixed_point",
    "grad",
    "hessian",
    "hessian_diag",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jet",
    "jit",
    "jvp",
    "keystr",
    "laplacian",
    "linear",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "make_mesh",
    "opaque",
    "parallel",
    "pcast",
    "pmap",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "process_count",
    "process_index",
    "psum",
    "psum_scatter",
    "random",
    "ravel_pytree",
    "reduction",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "remat",
    "save",
    "shard",
    "shard_map",
    "source",
    "sparse",
    "spec",
    "stop_gradient",
    "tree",
    "tree_all",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "unshard",
    "value_and_grad",
    "value_and_hessian",
    "value_and_jacobian",
    "view",
    "vjp",
    "vmap",
]

_HOMES.append("calque.runtime.scipy_twins")  # imported where a program calls SciPy
# a file of this name would hide Python's own in this folder
sys.modules["calque.random"] = _Late("calque.runtime.random")


def __dir__() -> list[str]:
    return sorted(__all__)
