"""NumPy functions as operations of PyTensor, and so in models of PyMC.

``wrap(f)`` is an ``Op``. Its derivatives are Ops of the same class, whose ``steps`` say which
derivative they compute. The linkers that run Python call ``perform``; the files ``pytensor_numba``
and ``pytensor_jax`` teach the other two backends, and are imported when one of these is used.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from calque.runtime.bridges.by_value import UserFunction
from calque.runtime.bridges.leaf_functions import (
    ArgumentTree,
    FixedArgument,
    cotangent,
    of_leaves,
    result_of,
    spec_of_result,
    tangent,
    transformed,
)
from calque.runtime.fitting import shown
from calque.runtime.spec import Spec
from calque.runtime.transformed import Transformed
from calque.runtime.trees import tree_flatten, tree_structure, tree_unflatten
from calque.transpiler.errors import FrameworkMissing, NeedsKnownValue
from calque.transpiler.ir.treedefs import PyTreeDef
from calque.transpiler.late import Late

try:
    import pytensor.tensor as pt
    from pytensor.compile.mode import optdb
    from pytensor.gradient import DisconnectedType, disconnected_type, grad_not_implemented
    from pytensor.graph.basic import Apply, Constant, Variable
    from pytensor.graph.op import Op
    from pytensor.graph.rewriting.basic import GraphRewriter
    from pytensor.tensor.shape import Shape_i
    from pytensor.tensor.type import TensorType
except ImportError as error:
    raise FrameworkMissing(
        f"calque.bridges.pytensor needs PyTensor, which cannot be imported: {error}.",
        hint='pip install "calque[pytensor]", or pip install pymc',
    ) from None

BACKENDS = {
    "numba": Late("calque.runtime.bridges.pytensor_numba"),
    "jax": Late("calque.runtime.bridges.pytensor_jax"),
}


def wrap(f: Callable[..., Any], jit: bool = True, parallel: bool = False) -> NumPyOp:
    """A plain NumPy function as an ``Op`` of PyTensor, with derivatives of any order.

    ``f`` takes and returns arrays, numbers and pytrees of them. The Op is called as ``f`` is, with
    PyTensor's variables in the place of arrays. Arrays of NumPy become constants. All else, and
    Python's numbers above all, is known when code is generated: pass the number of steps of a loop
    or an axis so. The result has the structure that ``f`` returns.

    ``jit``: the code is compiled by Numba, where Numba is installed; otherwise it is NumPy source.
    ``parallel``: large loops run on threads. By default they do not: PyMC runs chains side by side.

    The Op goes through pickle if ``f`` does, and with cloudpickle installed if ``f`` is a lambda or
    a closure. Calls with types that ``f`` cannot take raise the error that calque raises for them.

    >>> import numpy as np, pytensor, pytensor.tensor as pt
    >>> def energy(x, scale):
    ...     total = 0.0
    ...     for i in range(x.size):
    ...         total += scale * x[i] ** 2
    ...     return total
    >>> x = pt.vector("x")
    >>> slope = pytensor.grad(wrap(energy)(x, 0.5), x)
    >>> slope.eval({x: np.array([1.0, 2.0])})
    array([1., 2.])
    """
    if not callable(f):
        raise TypeError(f"wrap: f must be a function, and is {shown(f)}")
    return NumPyOp(UserFunction(f), None, (), bool(jit), bool(parallel))


class DerivativeStep(NamedTuple):
    """A derivative: its kind, by which arguments, and of which results."""

    kind: str  # "vjp" or "jvp"
    wrt: tuple[int, ...]
    of: tuple[int, ...]
    inputs: int  # arguments of the function that is differentiated


class OperationKind(NamedTuple):
    """All that decides which code is generated for an operation."""

    function: UserFunction
    arguments: ArgumentTree
    steps: tuple[DerivativeStep, ...]
    jit: bool
    parallel: bool


@functools.lru_cache(maxsize=512)
def computed(kind: OperationKind) -> Transformed:
    """The function of arrays that an operation runs."""
    found = _of_arrays(kind, flat=True)
    for step in kind.steps:
        derive = cotangent if step.kind == "vjp" else tangent
        found = derive(found, step.inputs, step.wrt, step.of)
    return transformed(found, kind.jit, parallel="auto" if kind.parallel else False)


def _of_arrays(kind: OperationKind, flat: bool) -> Callable[..., Any]:
    """The user's function of arrays alone; ``flat``: its result is a tuple of arrays."""
    copied = [True] * kind.arguments.fixed.count(None)
    return of_leaves(kind.function.function, kind.arguments, copied, flat=flat)


@functools.lru_cache(maxsize=512)
def results(
    kind: OperationKind, types: tuple[Spec, ...]
) -> tuple[tuple[Spec, ...], PyTreeDef | None]:
    """The types of an operation's results, and the structure of the user's result."""
    structure = None
    if not kind.steps:  # a list whose length the data decide is refused here
        structure = tree_structure(result_of(_of_arrays(kind, flat=False), types))
    elif kind.steps[-1].kind == "vjp":  # a cotangent has the shape of its argument
        return tuple(types[place] for place in kind.steps[-1].wrt), None
    found = result_of(computed(kind).function, types, captured=True)
    return tuple(map(spec_of_result, found)), structure


class NumPyOp(Op):
    """A NumPy function of ``OperationKind``, or one of its derivatives.

    ``arguments`` is None until a call says what they are: an Op from ``wrap``.
    """

    __props__ = ("function", "arguments", "steps", "jit", "parallel")

    def __init__(
        self,
        function: UserFunction,
        arguments: ArgumentTree | None,
        steps: tuple[DerivativeStep, ...],
        jit: bool,
        parallel: bool,
    ):
        self.function, self.arguments, self.steps = function, arguments, steps
        self.jit, self.parallel = jit, parallel
        self._shapes: WeakKeyDictionary[Apply, dict[Any, Any]] = WeakKeyDictionary()

    def __reduce__(self) -> Any:
        return NumPyOp, (self.function, self.arguments, self.steps, self.jit, self.parallel)

    def __str__(self) -> str:
        return "_".join([self.function.__name__, *(step.kind for step in self.steps)])

    def __call__(
        self, *args: Any, name: str | None = None, return_list: bool = False, **kwargs: Any
    ) -> Any:
        """Apply to variables; the results have the structure of the function's own."""
        op, arrays = self, list(args)
        if self.arguments is None:
            op, arrays = self._of(args, kwargs)
        node = op.make_node(*arrays)
        structure = op.results_of(node)[1]
        for place, out in enumerate(node.outputs if name else ()):
            out.name = name if len(node.outputs) == 1 else f"{name}_{place}"
        if return_list or structure is None:
            return list(node.outputs)
        return tree_unflatten(structure, node.outputs)

    def make_node(self, *inputs: Any) -> Apply:
        """The application to variables that are arguments one by one."""
        if self.arguments is None:
            op, arrays = self._of(inputs, {})
            return op.make_node(*arrays)
        variables = [pt.as_tensor_variable(x) for x in inputs]
        for x in variables:
            if not isinstance(x.type, TensorType) or x.type.numpy_dtype.kind not in "biufc":
                raise TypeError(f"{self}: arguments must be dense tensors, and {x} is {x.type}")
        made, _ = self._results(types_of(variables))
        outs = [
            TensorType(r.dtype.name, [d if isinstance(d, int) else None for d in r.dims])()
            for r in made
        ]
        return Apply(self, variables, outs)

    def _of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[NumPyOp, list[Any]]:
        """The Op of arguments of this structure, and the arrays in them."""
        leaves, structure = tree_flatten((args, kwargs))
        name = self.function.__name__
        fixed = [None if _is_array(x) else FixedArgument.of(x, name) for x in leaves]
        arguments = ArgumentTree(structure, tuple(fixed))
        op = NumPyOp(self.function, arguments, self.steps, self.jit, self.parallel)
        return op, [x for x in leaves if _is_array(x)]

    def _derivative(self, step: DerivativeStep) -> NumPyOp:
        return NumPyOp(self.function, self.arguments, (*self.steps, step), self.jit, self.parallel)

    @functools.cached_property
    def kind(self) -> OperationKind:
        """All that the generated code depends on, but for the types of arguments."""
        assert self.arguments is not None
        return OperationKind(self.function, self.arguments, self.steps, self.jit, self.parallel)

    def _results(self, types: tuple[Spec, ...]) -> Any:
        try:
            return results(self.kind, types)
        except NeedsKnownValue as error:
            error.hint = (
                f"pass it as a number of Python's, not as a variable: wrap({self.function})(x, 3); "
                "a size, as a static shape: pt.tensor(shape=(3,))"
            )
            raise

    def results_of(self, node: Apply) -> Any:
        """The types of a node's results, and the structure of the user's result."""
        return self._results(types_of(node.inputs))

    # what linkers ask

    def compute(self, arrays: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The results for arrays; a scalar stands in an array without axes, as PyTensor has it."""
        given = [x if x.ndim else x[()] for x in map(np.asarray, arrays)]
        made = [np.asarray(y) for y in computed(self.kind)(*given)]
        for place in range(1, len(made)):
            if any(np.may_share_memory(made[place], other) for other in made[:place]):
                made[place] = made[place].copy()
        return made

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        """Run the generated code for a node: the linkers that run Python call this."""
        made = self.compute(inputs)
        expected = self.shapes(node, tuple(x.shape for x in inputs))
        for storage, y, out, shape in zip(output_storage, made, node.outputs, expected):
            check_result(self, y, out.type.numpy_dtype, shape)
            storage[0] = y

    def shapes(self, node: Apply, given: tuple[Any, ...]) -> Any:
        """The results' shapes for arguments of these shapes; None where the data decide a size."""
        of_node = self._shapes.setdefault(node, {})
        found = of_node.get(given)
        if found is None:
            known = named_sizes(given)
            made, _ = self.results_of(node)
            found = of_node[given] = tuple(tuple(size_of(d, known) for d in r.dims) for r in made)
        return found

    def infer_shape(self, *given: Any) -> list[tuple[Any, ...]]:
        """The results' shapes as expressions of the arguments' shapes.

        PyTensor 2 gives the graph, the node and the shapes; PyTensor 3 the last two.
        """
        node, shapes = given[-2:]
        known = named_sizes(shapes)
        made, _ = self.results_of(node)
        found = []
        for out, result in zip(node.outputs, made):
            sizes = [size_of(d, known) for d in result.dims]
            found.append(
                tuple(
                    Shape_i(axis)(out) if size is None else pt.as_tensor(size, dtype="int64")
                    for axis, size in enumerate(sizes)
                )
            )
        return found

    # derivatives

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Integers have no derivatives. Those of complex numbers are refused, not left out."""
        smooth = {x: x.type.numpy_dtype.kind in "fc" for x in (*node.inputs, *node.outputs)}
        return [[smooth[x] and smooth[y] for y in node.outputs] for x in node.inputs]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """The cotangents of the arguments: another Op of this class computes all of them at once.

        Constants have none, so that no time is spent on the derivative by data.
        """
        complex_ones = [x for x in (*inputs, *outputs) if x.type.numpy_dtype.kind == "c"]
        if complex_ones:
            return [
                grad_not_implemented(self, i, x, "calque.bridges differentiates real functions")
                for i, x in enumerate(inputs)
            ]
        wrt = [i for i, x in enumerate(inputs) if is_float(x) and not isinstance(x, Constant)]
        of = [k for k, bar in enumerate(cotangents) if _is_connected(bar) and is_float(outputs[k])]
        found: list[Any] = [disconnected_type() for _ in inputs]
        for i, x in enumerate(inputs):
            if is_float(x) and isinstance(x, Constant):
                found[i] = grad_not_implemented(self, i, x, "it is a constant: pass a variable")
        if wrt and of:
            given = [_fitted(cotangents[k], outputs[k]) for k in of]
            step = DerivativeStep("vjp", tuple(wrt), tuple(of), len(inputs))
            made = self._derivative(step)(*inputs, *given, return_list=True)
            for i, bar in zip(wrt, made):
                found[i] = bar
        return found

    def pushforward(self, inputs: Any, outputs: Any, tangents: Any) -> list[Any]:
        """The tangents of the results, by forward mode."""
        wrt = [i for i, dot in enumerate(tangents) if _is_connected(dot) and is_float(inputs[i])]
        of = [k for k, y in enumerate(outputs) if is_float(y)]
        found: list[Any] = [disconnected_type() for _ in outputs]
        if any(x.type.numpy_dtype.kind == "c" for x in (*inputs, *outputs)):
            raise NotImplementedError(f"{self}: calque.bridges differentiates real functions")
        if wrt and of:
            given = [_fitted(tangents[i], inputs[i]) for i in wrt]
            step = DerivativeStep("jvp", tuple(wrt), tuple(of), len(inputs))
            made = self._derivative(step)(*inputs, *given, return_list=True)
            for k, dot in zip(of, made):
                found[k] = dot
        return found

    def L_op(self, inputs: Any, outputs: Any, output_grads: Any) -> list[Any]:
        """PyTensor 2's name of ``pullback``."""
        return self.pullback(inputs, outputs, output_grads)

    def R_op(self, inputs: Any, eval_points: Any) -> list[Any]:
        """PyTensor 2's name of ``pushforward``, with None for what is not connected."""
        tangents = [disconnected_type() if dot is None else dot for dot in eval_points]
        made = self.pushforward(inputs, self.make_node(*inputs).outputs, tangents)
        return [dot if _is_connected(dot) else None for dot in made]


def check_result(op: NumPyOp, y: Any, dtype: Any, shape: tuple[int | None, ...]) -> None:
    """Raise where a result is not what the graph was built for."""
    if y.dtype == dtype and all(size in (None, n) for size, n in zip(shape, y.shape)):
        return
    raise ValueError(
        f"{op}: the result is {y.dtype}{list(y.shape)}, and the graph was built for "
        f"{dtype}{list(shape)}: an axis of size 1 is repeated that the graph does not know to have "
        "size 1. Give it a static shape: pt.tensor(shape=(1, None))"
    )


def _is_array(x: Any) -> bool:
    return isinstance(x, (Variable, np.ndarray, np.generic))


def is_float(x: Variable) -> bool:
    return bool(x.type.numpy_dtype.kind == "f")


def _is_connected(x: Variable) -> bool:
    return not isinstance(x.type, DisconnectedType)


def _fitted(bar: Variable, to: Variable) -> Variable:
    """A cotangent, or tangent, with the dtype and the static shape of what it belongs to."""
    bar = pt.cast(bar, to.type.dtype)
    known = [n if m is None else None for n, m in zip(to.type.shape, bar.type.shape)]
    return bar if all(n is None for n in known) else pt.specify_shape(bar, known)


def types_of(variables: Sequence[Variable]) -> tuple[Spec, ...]:
    """The types of variables; a size that is not static has a name that says where it stands."""
    return tuple(
        Spec(
            np.dtype(x.type.dtype),
            tuple(_name(i, k) if n is None else int(n) for k, n in enumerate(x.type.shape)),
        )
        for i, x in enumerate(variables)
    )


def _name(argument: int, axis: int) -> str:
    return f"n{argument}_{axis}"


def named_sizes(shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The sizes in these shapes, by their names in ``types_of``."""
    return {_name(i, k): n for i, shape in enumerate(shapes) for k, n in enumerate(shape)}


def size_of(dim: int | str, known: dict[str, Any]) -> Any:
    """A size, such as ``2*n0_0 - 1``, with the values of names; None where a name is not known."""
    if isinstance(dim, int):
        return dim
    code, names = _expression(dim)
    return eval(code, {"__builtins__": {}}, known) if names <= known.keys() else None


@functools.lru_cache(maxsize=512)
def _expression(text: str) -> tuple[Any, frozenset[str]]:
    tree = ast.parse(text, mode="eval")
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return compile(tree, "size", "eval"), names


class _Teach(GraphRewriter):
    """A rewriter that changes nothing: it imports what a backend must know of ``NumPyOp``.

    PyTensor runs it before it compiles a graph for that backend. So a program that does not use JAX
    does not import it.
    """

    def __init__(self, backend: str):
        self.backend = backend

    def apply(self, fgraph: Any) -> None:
        if any(isinstance(node.op, NumPyOp) for node in fgraph.apply_nodes):
            BACKENDS[self.backend].teach()


for _backend in BACKENDS:
    optdb.register(f"calque_{_backend}", _Teach(_backend), _backend, position=0)
