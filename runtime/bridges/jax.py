"""``calque.bridges.jax.wrap``: a plain NumPy function as a function of JAX arrays.

The function, and each derivative of it that JAX asks for, is a call of one primitive of JAX's, with
a parameter that says which NumPy program runs on the host. The primitive's rules for tangents,
transposes and batches call the primitive again, with a program that calque derives; JAX composes
them. The host sees NumPy arrays only: a callback that computes with JAX may wait for itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.runtime.bridges.leaf_functions import FixedArgument
from calque.runtime.bridges.leaf_programs import LeafProgram, flattened
from calque.runtime.fitting import fitting, flag
from calque.runtime.options import checked
from calque.runtime.spec import Spec
from calque.transpiler.errors import CalqueError, UnsupportedOption

try:
    import jax as framework
    from jax import numpy as jnp
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except ImportError as error:
    raise ImportError(
        f"calque.bridges.jax needs JAX, which cannot be imported: {error}. "
        'pip install "calque[jax]"'
    ) from None

Results = list[Any]
Dims = tuple[int | None, ...]
NUMERIC = (framework.Array, np.ndarray, np.generic, int, float, complex)
PYTHON = {"i": np.dtype("i8"), "f": np.dtype("f8"), "c": np.dtype("c16")}


def wrap(f: Callable[..., Any], jit: bool = True) -> Callable[..., Any]:
    """Return a function of JAX arrays that runs ``f``, a function of NumPy arrays, on the host.

    JAX's transformations take it as they take JAX's own functions: ``jax.jit``, ``grad``, ``jvp``,
    ``vmap``, ``hessian`` and so on, of any order, in ``lax.scan`` and ``lax.cond``. Arguments and
    results are pytrees. Texts, bools and other values that are no numbers are part of the program,
    and so are Python integers that decide a size or a structure. Dtypes are JAX's: without
    ``jax_enable_x64``, results of float64 arrive as float32.

    ``jit``: calque compiles the programs by Numba, where Numba is installed.

    >>> import jax
    >>> float(jax.grad(wrap(lambda x: x**3))(2.0))
    12.0
    """
    checked("wrap", fun=f)
    kernels = fitting(flag, jit, "wrap", "jit")
    name = getattr(f, "__name__", type(f).__name__)
    programs: dict[Any, Any] = {}

    def program(structure: Any, kinds: tuple[Any, ...]) -> Any:
        found = programs.get((structure, kinds))
        if found is None:
            given = framework.tree_util.tree_unflatten(structure, [0] * len(kinds))
            found = programs[structure, kinds] = flattened(f, given, kinds, kernels)
        return found

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = framework.tree_util.tree_flatten((args, kwargs))
        arrays = [jnp.asarray(x) if _is_numeric(x) else x for x in leaves]
        kinds = tuple([_kind(x, name) for x in arrays])
        try:
            flat, unflattened = program(structure, kinds)
        except CalqueError:  # where an integer decides a size, its value must be known
            if not any(type(x) is int for x in leaves):
                raise
            pairs = zip(leaves, kinds)
            kinds = tuple([FixedArgument.of(x) if type(x) is int else kind for x, kind in pairs])
            flat, unflattened = program(structure, kinds)
        given = [x for x, kind in zip(arrays, kinds) if isinstance(kind, Spec)]
        return unflattened(bound(JaxOperation(flat), given))

    return wrapped


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, NUMERIC) and not isinstance(leaf, bool)


def _kind(leaf: Any, name: str) -> Any:
    """The type of an argument that is an array of JAX's; others are part of the program."""
    if not isinstance(leaf, framework.Array):
        return FixedArgument.of(leaf, name, "a tree (see jax.tree_util.register_dataclass)")
    dtype = leaf.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biufc":
        raise TypeError(
            f"{name}: an argument has dtype {dtype}, which NumPy has not: pass numbers, such as "
            "x.astype('float32') of bfloat16"
        )
    if leaf.weak_type and not leaf.shape and dtype.kind in PYTHON:
        return Spec(PYTHON[dtype.kind], (), weak=True)
    return Spec(np.dtype(dtype), tuple(leaf.shape))


@dataclass(frozen=True)
class JaxOperation:
    """The program of one call of the primitive; of tangents also how they are transposed.

    The tangents of ``base`` along its ``wanted`` leaves are linear in the leaves behind ``base``'s.
    ``batches`` has the axes and the size of each batch, the innermost first.
    """

    flat: LeafProgram
    base: LeafProgram | None = None
    wanted: tuple[int, ...] = ()
    batches: tuple[tuple[Dims, int], ...] = ()

    def __repr__(self) -> str:
        return self.flat.name

    def types(self) -> Results:
        """JAX's types of the results."""
        canonical = framework.dtypes.canonicalize_dtype
        return [framework.core.ShapedArray(g.dims, canonical(g.dtype)) for g in self.flat.gives]

    def batched(self, dims: Dims, size: int) -> JaxOperation:
        """The operation for all examples at once."""
        batches = (*self.batches, (dims, size)) if self.base else ()
        return JaxOperation(self.flat.batched(dims, size), self.base, self.wanted, batches)

    def transposed(self, outs: tuple[int, ...], leaves: Results, cts: Results) -> Results:
        """The cotangents of all tangents, for those of the results ``outs``."""
        assert self.base is not None
        places = self.base.differentiable_results()
        cotangent = self.base.cotangent(self.wanted, tuple([places[i] for i in outs]))
        for dims, size in self.batches:
            own = (*dims[: len(leaves)], *[0] * len(outs))
            cotangent = cotangent.batched(own, size)
        found = bound(JaxOperation(cotangent), [*leaves, *cts])
        for i, (dims, _) in enumerate(self.batches):
            axis = len(self.batches) - 1 - i  # of this batch: those before it have gone
            found = [_from_axis(x, axis, to) for x, to in zip(found, dims[len(leaves) :])]
        return found


def _from_axis(x: Any, axis: int, to: int | None) -> Any:
    """An array whose examples lie along ``axis`` and belong along ``to``; added up if nowhere."""
    return x.sum(axis) if to is None else jnp.moveaxis(x, axis, axis + to)


call = Primitive("calque")
call.multiple_results = True


def bound(operation: JaxOperation, leaves: Results) -> Results:
    """The results of an operation, of arrays that JAX may be tracing."""
    found: Results = call.bind(*leaves, operation=operation)
    return found


@call.def_abstract_eval
def _types(*leaves: Any, operation: JaxOperation) -> Results:
    if any(_varying(leaf) for leaf in leaves):
        raise UnsupportedOption(
            f"{operation}: shard_map with check_vma=True follows which values vary over devices, "
            "and cannot follow them through a NumPy program.",
            hint="pass check_vma=False to jax.shard_map",
        )
    return operation.types()


def _varying(leaf: Any) -> Any:
    """The axes of a mesh along which shard_map says that a value varies, in any version of JAX."""
    return getattr(leaf, "vma", None) or getattr(getattr(leaf, "mat", None), "varying", None)


@functools.lru_cache(maxsize=1024)
def _compiled(operation: JaxOperation) -> Callable[..., Results]:
    return framework.jit(functools.partial(call.bind, operation=operation))


@call.def_impl
def _run(*leaves: Any, operation: JaxOperation) -> Results:
    return _compiled(operation)(*leaves)


def _lowered(context: Any, *leaves: Any, operation: JaxOperation) -> Any:
    """A call of the host; on several devices as JAX's own callbacks, which know where they run."""
    types = context.avals_out
    host = functools.partial(_host, operation.flat, tuple([x.dtype for x in types]))
    if getattr(context.module_context.axis_context, "num_devices", 0) != 1:
        shapes = [framework.ShapeDtypeStruct(x.shape, x.dtype) for x in types]
        run = functools.partial(framework.pure_callback, host, shapes)
        return mlir.lower_fun(run, multiple_results=True)(context, *leaves)
    emit = mlir.emit_python_callback
    return emit(context, host, None, leaves, context.avals_in, types, has_side_effect=False)[0]


mlir.register_lowering(call, _lowered)


def _host(flat: LeafProgram, dtypes: tuple[Any, ...], *leaves: Any) -> tuple[Any, ...]:
    """The results, in JAX's dtypes; nothing here may call JAX."""
    results = flat(*map(np.asarray, leaves))
    return tuple([np.asarray(x, dtype) for x, dtype in zip(results, dtypes)])


def _tangents(primals: Results, tangents: Results, operation: JaxOperation) -> Any:
    """Results and their tangents; of one scalar result by its gradient, which is computed once."""
    flat = operation.flat
    given = [i for i in flat.differentiable() if type(tangents[i]) is not ad.Zero]
    wanted, places = tuple(given), flat.differentiable_results()
    zeros = [ad.Zero(x.to_tangent_aval()) for x in operation.types()]
    if not wanted or not places:
        return bound(operation, primals), zeros
    along = [tangents[i] for i in wanted]
    if flat.has_gradient():
        found = bound(JaxOperation(flat.with_gradient(wanted)), primals)
        results, gradient = found[: len(zeros)], found[len(zeros) :]
        parts = [jnp.sum(g * t).real for g, t in zip(gradient, along)]
        moved = [sum(parts[1:], parts[0]).astype(results[places[0]].dtype)]
    else:
        results = bound(operation, primals)
        moved = bound(JaxOperation(flat.tangent(wanted), flat, wanted), [*primals, *along])
    for i, tangent in zip(places, moved):
        zeros[i] = tangent
    return results, zeros


ad.primitive_jvps[call] = _tangents


def _transposed(cts: Results, *leaves: Any, operation: JaxOperation) -> Results:
    """Cotangents of the tangents that are unknown; None for all that is known."""
    count = len(leaves) - len(operation.wanted) if operation.base else len(leaves)
    unknown = [ad.is_undefined_primal(leaf) for leaf in leaves]
    if any(unknown[:count]):
        raise UnsupportedOption(
            f"{operation}: JAX asks for the transpose of a program that may not be linear.",
            hint="linear functions are transposed by jax.vjp",
        )
    outs = tuple([i for i, ct in enumerate(cts) if type(ct) is not ad.Zero])
    if not outs:
        return [ad.Zero(x.aval.to_ct_aval()) if u else None for x, u in zip(leaves, unknown)]
    found = operation.transposed(outs, list(leaves[:count]), [cts[i] for i in outs])
    return [None] * count + [ct if u else None for ct, u in zip(found, unknown[count:])]


ad.primitive_transposes[call] = _transposed


def _batched(leaves: Results, dims: Dims, operation: JaxOperation) -> tuple[Results, list[int]]:
    """The results for all examples, along axis 0."""
    mapped = [(leaf, dim) for leaf, dim in zip(leaves, dims) if dim is not None]
    size = mapped[0][0].shape[mapped[0][1]]
    results = bound(operation.batched(tuple(dims), size), leaves)
    return results, [0] * len(results)


batching.primitive_batchers[call] = _batched
