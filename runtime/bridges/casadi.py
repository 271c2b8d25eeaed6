"""``calque.bridges.casadi.wrap``: a plain NumPy function as a function of CasADi's matrices.

CasADi calls a ``Callback`` with buffers of doubles, column by column, and asks it for derivatives
as more functions: a Jacobian, and the Jacobian's transpose times a vector. Each of these is a
callback, too, with a program that calque derives, so that a Lagrangian's Hessian is the Jacobian of
its gradient. Products of a Jacobian and a vector are left to CasADi, which asks for the Jacobian:
one call of Python takes less than one for each vector.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.runtime import trees
from calque.runtime.bridges.leaf_functions import FixedArgument, Unshared
from calque.runtime.bridges.leaf_programs import LeafProgram, flattened
from calque.runtime.fitting import fitting, flag
from calque.runtime.options import checked
from calque.runtime.sparse import detecting
from calque.runtime.spec import Spec
from calque.transpiler.errors import CalqueError, ShapeError

try:
    import casadi as framework
except ImportError as error:
    raise ImportError(
        f"calque.bridges.casadi needs CasADi, which cannot be imported: {error}. "
        'pip install "calque[casadi]"'
    ) from None

_kept: list[Any] = []  # CasADi's functions do not keep the callbacks that they call


class Port(NamedTuple):
    """An input or an output of a callback: its size, and its number in the program, if any."""

    shape: tuple[int, int]
    place: int | None


def wrap(f: Callable[..., Any], *examples: Any, jit: bool = True) -> NumPyCallback:
    """Return ``f``, a function of NumPy arrays, as a ``casadi.Callback``.

    ``examples`` has an argument of each kind that calls will have: an array, a float, or the type
    of one, ``calque.spec("f8[3]")``; also trees of these. They are CasADi's inputs: an array of one
    axis is a column. All else in ``examples``, such as integers and texts, is part of the program.
    The results of ``f``, an array, a number or a tree of them, are CasADi's outputs.

    ``jit``: calque compiles the programs by Numba, where Numba is installed.

    >>> import casadi
    >>> cube = wrap(lambda x: x**3, 0.0)
    >>> x = casadi.MX.sym("x")
    >>> casadi.Function("slope", [x], [casadi.gradient(cube(x), x)])(2.0)
    DM(12)
    """
    checked("wrap", fun=f)
    kernels = fitting(flag, jit, "wrap", "jit")
    name = getattr(f, "__name__", type(f).__name__)
    kinds = tuple([_kind(leaf) for leaf in trees.tree_leaves(examples)])
    sizes = [_shape(kind, name, "an argument") for kind in kinds if isinstance(kind, Spec)]
    program, _ = flattened(f, (examples, {}), kinds, kernels)
    ports = [Port(size, i) for i, size in enumerate(sizes)]
    gives = [Port(_shape(spec, name, "a result"), i) for i, spec in enumerate(program.gives)]
    return NumPyCallback(program.name, program, ports, gives, _names(f, examples), [])


class NumPyCallback(framework.Callback):
    """A program as CasADi calls it. What has no place in the program is zero, or is not read."""

    def __init__(
        self,
        name: str,
        program: LeafProgram,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        input_names: Sequence[str],
        output_names: Sequence[str],
        patterns: Sequence[Any] = (),
        options: Mapping[str, Any] | None = None,
    ):
        framework.Callback.__init__(self)
        self.program, self.inputs, self.outputs = program, inputs, outputs
        self.input_names, self.output_names = input_names, output_names
        self.patterns = patterns or [_dense(port) for port in outputs]
        self.blocks: dict[tuple[int, int], Any] = {}
        _kept.append(self)
        self.construct(name, dict(options or {}))

    def get_n_in(self) -> int:
        """The number of inputs."""
        return len(self.inputs)

    def get_n_out(self) -> int:
        """The number of outputs."""
        return len(self.outputs)

    def get_sparsity_in(self, i: int) -> Any:
        """The sparsity of an input: dense, or nothing where it is not read."""
        return _dense(self.inputs[i])

    def get_sparsity_out(self, i: int) -> Any:
        """The sparsity of an output."""
        return self.patterns[i]

    def get_name_in(self, i: int) -> str:
        """The name of an input: that of a parameter."""
        return self.input_names[i] if i < len(self.input_names) else f"i{i}"

    def get_name_out(self, i: int) -> str:
        """The name of an output."""
        return self.output_names[i] if i < len(self.output_names) else f"o{i}"

    def has_eval_buffer(self) -> bool:
        """Buffers are read and filled in place."""
        return True

    def eval_buffer(self, arg: Sequence[Any], res: Sequence[Any]) -> int:
        """Run the program of the outputs that are asked for."""
        leaves: list[Any] = [None] * len(self.program.takes)
        for port, buffer in zip(self.inputs, arg):
            if port.place is not None:
                leaves[port.place] = _leaf(buffer, self.program.takes[port.place])
        asked = [
            i for i, b in enumerate(res) if b is not None and self.outputs[i].place is not None
        ]
        places = [place for i in asked if (place := self.outputs[i].place) is not None]
        results = self.program.selected(tuple(places))(*leaves) if asked else []
        for i, value in zip(asked, results):
            filled, pattern = np.frombuffer(res[i]), self.patterns[i]
            if pattern.is_dense():
                filled[:] = value.ravel(order="F")
            else:
                filled[:] = value[tuple(np.array(index) for index in pattern.get_triplet())]
        return 0

    def has_jac_sparsity(self, out: int, into: int) -> bool:
        """Each block of the Jacobian has a known sparsity."""
        return True

    def get_jac_sparsity(self, out: int, into: int, symmetric: bool) -> Any:
        """The sparsity of a block of the Jacobian."""
        return self._block(out, into)

    def has_jacobian(self) -> bool:
        """The Jacobian is a callback."""
        return True

    def get_jacobian(
        self, name: str, inames: Sequence[str], onames: Sequence[str], opts: Mapping[str, Any]
    ) -> Any:
        """The callback of all blocks of the Jacobian, out of the inputs and the outputs."""
        wanted, outs = self._differentiable()
        program = self.program.jacobian(wanted, outs)
        pairs = [(wanted.index(j), outs.index(i)) for i in outs for j in wanted]
        places = {pair: number for number, pair in enumerate(pairs)}
        ports, patterns = [], []
        for i, out in enumerate(self.outputs):
            for j, into in enumerate(self.inputs):
                shape = (out.shape[0] * out.shape[1], into.shape[0] * into.shape[1])
                known = into.place in wanted and out.place in outs
                pair = (wanted.index(into.place), outs.index(out.place)) if known else None
                ports.append(Port(shape, places[pair] if pair else None))
                patterns.append(self._block(i, j))
        takes = [*self.inputs, *_unread(self.outputs)]
        return NumPyCallback(name, program, takes, ports, inames, onames, patterns, opts)

    def has_reverse(self, nadj: int) -> bool:
        """One cotangent at a time; CasADi repeats it."""
        return nadj == 1

    def get_reverse(
        self,
        nadj: int,
        name: str,
        inames: Sequence[str],
        onames: Sequence[str],
        opts: Mapping[str, Any],
    ) -> Any:
        """The callback of the inputs' cotangents, out of inputs, outputs and their cotangents."""
        wanted, outs = self._differentiable()
        program, count = self.program.cotangent(wanted, outs), len(self.program.takes)
        given = [
            Port(p.shape, count + outs.index(p.place) if p.place in outs else None)
            for p in self.outputs
        ]
        gives = [
            Port(p.shape, wanted.index(p.place) if p.place in wanted else None) for p in self.inputs
        ]
        takes = [*self.inputs, *_unread(self.outputs), *given]
        return NumPyCallback(name, program, takes, gives, inames, onames, (), opts)

    def _differentiable(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The leaves and the results of the program that CasADi differentiates."""
        places, results = self.program.differentiable(), self.program.differentiable_results()
        wanted = tuple([p.place for p in self.inputs if p.place in places and p.place is not None])
        outs = tuple([p.place for p in self.outputs if p.place in results and p.place is not None])
        return wanted, outs

    def _block(self, out: int, into: int) -> Any:
        """The sparsity of a block of the Jacobian; no element that is zero has a derivative."""
        if (out, into) not in self.blocks:
            given, wanted = self.outputs[out], self.inputs[into]
            size = (given.shape[0] * given.shape[1], wanted.shape[0] * wanted.shape[1])
            wanted_places, result_places = self._differentiable()
            found = framework.Sparsity(*size)
            if given.place in result_places and wanted.place in wanted_places:
                found = _pattern(self.program, given.place, wanted.place, size)
                if not self.patterns[out].is_dense():
                    rows = np.array(self.patterns[out].find())
                    found = found.intersect(_in_rows(rows, size))
            self.blocks[out, into] = found
        return self.blocks[out, into]


def _in_rows(rows: np.ndarray, size: tuple[int, int]) -> Any:
    """The sparsity of a matrix in which some rows are full."""
    each = np.tile(rows, size[1]), np.repeat(np.arange(size[1]), len(rows))
    return framework.Sparsity.triplet(*size, *map(np.ndarray.tolist, each))


def _pattern(program: LeafProgram, out: int | None, into: int | None, size: tuple[int, int]) -> Any:
    """The sparsity of a result's derivative by a leaf, for all values of all inputs."""
    if out is None or into is None:
        return framework.Sparsity.dense(*size)
    leaves = [np.ones([int(d) for d in spec.dims], spec.dtype) for spec in program.takes]
    first = leaves.pop(into)
    one = Unshared("identity", _one_result(program.function, out, into))
    try:
        with warnings.catch_warnings():  # a dense block needs no word: it always was one
            warnings.simplefilter("ignore", detecting.DenseBlockWarning)
            found = detecting.detect(one, [first, *leaves], (0,), fixed=False).pattern
    except CalqueError:  # of what it does not know; dense is always right
        return framework.Sparsity.dense(*size)
    indices = zip((found.rows, found.cols), (program.gives[out], program.takes[into]))
    each = [_by_column(np.asarray(index), spec) for index, spec in indices]
    return framework.Sparsity.triplet(*size, *map(np.ndarray.tolist, each))


def _one_result(function: Callable[..., Any], out: int, into: int) -> Callable[..., Any]:
    """One result of ``function``, and no aux; the leaf that it is differentiated by comes first."""

    def one(x: Any, *others: Any) -> Any:
        return function(*others[:into], x, *others[into:])[out], None

    return one


def _by_column(index: np.ndarray, spec: Spec) -> np.ndarray:
    """The numbers of elements, counted column by column, out of those counted row by row."""
    dims = [int(dim) for dim in spec.dims]
    places = np.unravel_index(index, dims) if dims else ()
    return np.ravel_multi_index(places, dims, order="F") if dims else index


def _dense(port: Port) -> Any:
    """The sparsity of an input or an output."""
    return (
        framework.Sparsity(*port.shape)
        if port.place is None
        else framework.Sparsity.dense(*port.shape)
    )


def _unread(ports: Sequence[Port]) -> list[Port]:
    return [Port(port.shape, None) for port in ports]


def _kind(leaf: Any) -> Any:
    """The type of an example that is an input; others are part of the program."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return Spec(leaf.dtype, leaf.shape)
    if type(leaf) is float:
        return Spec(np.dtype("f8"), (), weak=True)
    return leaf if isinstance(leaf, Spec) else FixedArgument.of(leaf)


def _shape(spec: Spec, name: str, what: str) -> tuple[int, int]:
    """The size of CasADi's matrix."""
    if (
        spec.ndim > 2
        or spec.dtype.kind not in "biuf"
        or not all(isinstance(d, int) for d in spec.dims)
    ):
        raise ShapeError(
            f"{name}: {what} is {spec}, and CasADi has matrices of real numbers.",
            hint="give arrays of at most two axes and known sizes, and reshape them in it",
        )
    rows, columns = (*(int(dim) for dim in spec.dims), 1, 1)[:2]
    return rows, columns


def _names(function: Callable[..., Any], examples: Sequence[Any]) -> list[str]:
    """Names of the inputs: those of parameters, with numbers where one has several inputs."""
    try:
        bound = inspect.signature(function).bind(*examples).arguments
    except (TypeError, ValueError):
        return []
    names = []
    for name, value in bound.items():
        count = sum(isinstance(_kind(leaf), Spec) for leaf in trees.tree_leaves(value))
        names += [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    return names


def _leaf(buffer: Any, spec: Spec) -> Any:
    """A copy of an input, as an array of the program's type; CasADi leaves out what is zero."""
    dims = [int(dim) for dim in spec.dims]
    if buffer is None:
        return np.zeros(dims, spec.dtype)
    array = np.frombuffer(buffer).reshape(dims, order="F")
    return np.array(np.rint(array) if spec.dtype.kind in "biu" else array, spec.dtype, order="C")
