"""The source of ``pmap`` and ``shard_map``: what each device runs, and what starts it."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calque.runtime.call.loading import Program
from calque.runtime.devices.mapped import DeviceProgram, Mapped, require_own
from calque.runtime.engines import communicator, mpi, threads
from calque.runtime.spec import Spec
from calque.transpiler.codegen.numpy.device_launchers import (
    Cut,
    given_text,
    part_text,
    place_letters,
    result_text,
    whole_text,
)
from calque.transpiler.codegen.numpy.emit import (
    Support,
    emit_function,
    imports,
    kernel_imports,
    sorted_imports,
)
from calque.transpiler.codegen.text.layout import wrapped
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.core import Function, Var
from calque.transpiler.spmd.mpi_calls import to_mpi_calls
from calque.transpiler.transformations.mesh_programs import Layout

ENGINES = ("threads", "mpi")
_WORDS = {"threads": ("run",), "mpi": ("world", "all_gather", "MPI")}  # that launchers read

_ALL_GATHER = '''
def all_gather(x):
    """Every rank's array, along a new leading axis."""
    x = np.asarray(x, order="C")
    gathered = np.empty((world.size, *x.shape), x.dtype)
    world.Allgather(x, gathered)
    return gathered
'''

_MAIN = '''
def main():
    """Read the arguments from one .npz file, and write the results to another."""
    arguments = np.load(sys.argv[1])
    results = {name}({given})
    if world.rank == 0:
        np.savez(sys.argv[2], {results})


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # the other ranks would wait for this one
        traceback.print_exc()
        sys.stderr.flush()
        world.Abort(1)
'''


class DeviceSource:
    """The text for arguments, or types, of one call; on one of the engines."""

    def __init__(self, mapped: Mapped, args: Sequence[Any], engine: str):
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
        self.mapped, self.engine = mapped, engine
        self.layout = mapped.layout(args, {})
        self.device: DeviceProgram = mapped.device(self.layout)
        if mpi.is_running() and mapped.engine() == "mpi":
            args = _of_all_ranks(mapped, args, self.layout)
        self.args = args
        parts = mapped.example_parts(args, self.layout)
        self.program: Program = self.device.dispatcher().find(parts, {})[0]
        require_own(self.program, self.layout)
        self.function: Function = self.program.traced.function
        self.sizes = self.layout.sizes
        self.name = mapped.generated_name()

    def device_text(self, name: str | None = None) -> str:
        """The ``def`` of what each device runs."""
        traced = self.program.traced
        function = self.function
        if self.engine == "mpi":
            own = set(self.device.communicators)
            function = to_mpi_calls(function, traced.builder)
            function.signature = [p for p in function.signature if p.name not in own]
            self.function = function
        function.name = name or self.device.generated_name()
        return emit_function(function, kernels=traced.target)

    def launcher_text(self) -> str:
        """The ``def`` that takes whole arrays and gives whole arrays."""
        return self._on_mpi() if self.engine == "mpi" else self._on_threads()

    def source(self) -> str:
        """Both, for reading."""
        return f"{self.device_text()}\n\n{self.launcher_text()}"

    def specs(self) -> tuple[Any, ...]:
        """The whole arguments as types."""

        def spec_of(leaf: Any) -> Any:
            if not isinstance(leaf, (np.ndarray, np.generic)):
                return leaf
            return Spec(leaf.dtype, leaf.shape)

        found: tuple[Any, ...] = pytrees.tree_map(spec_of, tuple(self.args))
        return found

    # threads

    def _on_threads(self) -> str:
        letters = place_letters(self.sizes)
        given = self._given(lambda name: letters[name])
        rounds = " ".join(f"for {letters[n]} in range({size})" for n, size in self.sizes.items())
        shape = tuple(self.sizes.values())
        lines = [
            *self._checks(),
            f"arguments = [({given}) {rounds}]",
            f"results = run({self.device.generated_name()}, arguments, {{}}, {shape})",
            f"return {self._results(self._of_results)}",
        ]
        said = f"{math.prod(shape)} devices, each on its part; whole arrays in and out."
        return self._definition(self.name, said, lines)

    def _of_results(self, path: str, cut: Cut) -> str:
        def leaf(place: Callable[[Hashable], str]) -> str:
            return f"results[{self._number(place)}]{path}"

        return whole_text(leaf, cut, self.sizes)

    def _number(self, place: Callable[[Hashable], str]) -> str:
        """A device's number in the mesh, the last axis running fastest."""
        text = ""
        for name, size in self.sizes.items():
            mine = place(name)
            if not text or text == "0":
                text = mine
            else:
                head = f"{size} * ({text})" if " " in text else f"{size} * {text}"
                text = head if mine == "0" else f"{head} + {mine}"
        return text

    # MPI

    def _on_mpi(self) -> str:
        ranks = {n: f"{c}.rank" for n, c in self.device.called.items()}
        given = self._given(lambda name: ranks[name])
        count = math.prod(self.sizes.values())
        gathered: dict[str, str] = {}

        def leaf(path: str, cut: Cut) -> str:
            if not cut.names:
                return f"result{path}"
            if cut.element and not cut.element[1]:
                return f"all_gather(result{path})"
            word = gathered.setdefault(path, f"parts_{len(gathered)}" if path else "parts")
            return whole_text(lambda place: f"{word}[{self._number(place)}]", cut, self.sizes)

        returned = self._results(leaf)
        lines = [
            f"if world.size != {count}:",
            f'    raise ValueError(f"{{world.size}} ranks, and {count} are needed")',
            *self._checks(),
            f"result = {self.device.generated_name()}({given})",
            *[f"{word} = all_gather(result{path})" for path, word in gathered.items()],
            f"return {returned}",
        ]
        said = "Every rank gives the same arguments, works on its part, and has all results."
        return self._definition(self.name, said, lines)

    def communicators_text(self) -> str:
        """The communicators of the mesh's axes."""
        called = self.device.called
        if len(called) == 1:
            return f"world = {next(iter(called.values()))} = MPI.COMM_WORLD"
        letters = place_letters(self.sizes)
        shape = ", ".join(map(str, self.sizes.values()))
        lines = ["world = MPI.COMM_WORLD"]
        names = ", ".join(letters.values())
        lines.append(f"{names} = map(int, np.unravel_index(world.rank, ({shape})))")
        for name, comm in called.items():
            others = {n: s for n, s in self.sizes.items() if n != name}
            color = ""
            for other, size in others.items():
                color = letters[other] if not color else f"{size} * ({color}) + {letters[other]}"
            lines.append(f"{comm} = world.Split({color}, {letters[name]})")
        return "\n".join(lines)

    def main_text(self) -> str:
        """What runs the script by itself, where all arguments are arrays or numbers."""
        parameters = self._parameters()
        if not all(isinstance(p.tree, Var) for p in parameters):
            return ""
        kinds = {"f": "float", "i": "int", "b": "bool", "c": "complex"}
        given = []
        for p in parameters:
            read = f'arguments["{p.name}"]'
            weak = p.tree.type.weak
            given.append(f"{kinds[p.tree.type.dtype.kind]}({read})" if weak else read)
        leaves: list[str] = []

        def note(path: str, cut: Cut) -> str:
            leaves.append(f"results{path}")
            return path

        self._results(note)
        text = _MAIN.format(name=self.name, given=", ".join(given), results=", ".join(leaves))
        return "\n".join(w for line in text.split("\n") for w in wrapped(line))

    # both

    def _parameters(self) -> list[Any]:
        own = set(self.device.communicators)
        return [p for p in self.function.signature if p.name not in own]

    def _called(self, parameter: Any) -> str:
        """A parameter's name in the launcher, which has words of its own."""
        own = {"np", "range", *_WORDS[self.engine]}
        own |= {*place_letters(self.sizes).values()} if self.engine == "threads" else set()
        name: str = parameter.name
        own |= {p.name for p in self._parameters() if p is not parameter}
        while name in own:
            name += "_"
        return name

    def _given(self, place: Callable[[Hashable], str]) -> str:
        """The arguments of a device's program, as they are cut of the whole ones."""
        cuts = self.mapped.cuts_of_arguments(self.layout)

        def part(path: str, cut: Cut) -> str:
            return part_text(path, cut, self.sizes, place)

        texts = [given_text(p.tree, self._called(p), cuts, part) for p in self._parameters()]
        return ", ".join(texts) + ("," if len(texts) == 1 and self.engine == "threads" else "")

    def _checks(self) -> list[str]:
        """Elements of an axis that parts lack: it must be as long as there are devices."""
        found = []
        cuts = self.mapped.cuts_of_arguments(self.layout)

        def part(path: str, cut: Cut) -> str:
            if cut.element:
                _, axis = cut.element
                found.append(f"{path}.shape[{axis}]")
            return path

        for p in self._parameters():
            given_text(p.tree, self._called(p), cuts, part)
        lines = []
        for size in found:
            count = next(iter(self.sizes.values()))
            lines.append(f"if {size} != {count}:")
            lines.append(f'    raise ValueError("{size} must be {count}, the number of devices")')
        return lines

    def _results(self, leaf: Callable[[str, Cut], str]) -> str:
        cuts = self.mapped.cuts_of_result(self.layout, self.function.result)
        return result_text(self.function, cuts, leaf)

    def _definition(self, name: str, said: str, lines: Sequence[str]) -> str:
        names = ", ".join(p.variadic + self._called(p) for p in self._parameters())
        body = [f'"""{said}"""', *lines]
        text = f"def {name}({names}):\n" + textwrap.indent("\n".join(body), "    ")
        return "\n".join(w for line in text.split("\n") for w in wrapped(line)) + "\n"

    def module(self, header: Sequence[str], title: str, support: Support | None) -> str:
        """A whole module; ``support`` writes out what it calls, which else is imported."""
        device = self.device_text()
        launcher = self.launcher_text()
        helpers: list[str] = [*self.function.helpers.values()]
        used = {n.id for n in ast.walk(ast.parse(device + launcher)) if isinstance(n, ast.Name)}
        lines = imports(self.function, used | {"np"})
        texts = []
        if self.program.traced.compiled:
            more, text = kernel_imports(used, support)
            lines += more
            helpers = [text, *helpers] if text else helpers
        if self.engine == "mpi":
            lines = [li for li in lines if "mpi4py" not in li] + ["from mpi4py import MPI"]
            main = self.main_text()
            lines += ["import sys", "import traceback"] if main else []
            texts = [self.communicators_text(), *helpers, device, launcher, _ALL_GATHER, main]
        elif support is None:
            lines.append("from calque.runtime.engines.threads import run")
            texts = [*helpers, device, launcher]
        else:
            more, text = engine_text()
            lines += more
            texts = [*helpers, device, launcher, text]
        quoted = "\n".join([title, "", *header]).rstrip().replace("\\", "\\\\")
        body = "\n\n\n".join(t.strip("\n") for t in texts if t.strip())
        first = "\n\n" if self.engine == "mpi" else "\n\n\n"
        return f'"""{quoted}\n"""\n' + "\n".join(sorted_imports(lines)) + first + body + "\n"


def _of_all_ranks(mapped: Mapped, args: Sequence[Any], layout: Layout) -> tuple[Any, ...]:
    """The types of the whole arguments, of which a call under mpiexec is given this rank's part."""

    def whole(leaf: Any, cut: Cut) -> Any:
        if not cut.names:
            return leaf
        if not isinstance(leaf, Spec):
            leaf = np.asarray(leaf)
            leaf = Spec(leaf.dtype, leaf.shape)
        counts = {axis: [layout.sizes[n] for n in names] for axis, names in enumerate(cut.blocks)}
        if cut.element:
            name, axis = cut.element
            counts[axis] = [layout.sizes[name]]
        dims = [
            size * math.prod(counts.get(axis, ())) if isinstance(size, int) else size
            for axis, size in enumerate(leaf.dims)
        ]
        return Spec(leaf.dtype, tuple(dims))

    leaves, structure = pytrees.flatten(list(args))
    cuts = mapped.cuts_of_arguments(layout)
    return tuple(pytrees.unflatten(structure, [*map(whole, leaves, cuts)]))


def engine_text() -> tuple[list[str], str]:
    """The engine of threads, for modules that import no calque: its imports, and its text."""
    lines, texts = [], []
    for module in (communicator, threads):
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        rows = text.splitlines()
        nodes = ast.parse(text).body
        last = 0
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                last = node.end_lineno or last
                place = getattr(node, "module", None) or ""
                if not place.startswith(("calque", "__future__")):
                    lines.append(ast.unparse(node))
        texts.append("\n".join(rows[last:]).strip("\n"))
    return lines, "\n\n\n".join(texts)
