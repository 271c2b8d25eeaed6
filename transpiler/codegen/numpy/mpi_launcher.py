"""The launcher of a device's program on MPI ranks, and the script that ``mpiexec`` runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calque.transpiler.codegen.numpy.device_launchers import Cut, place_letters, whole_text
from calque.transpiler.codegen.numpy.engine_launchers import DeviceLauncher, Module
from calque.transpiler.codegen.text.layout import wrapped
from calque.transpiler.ir.core import Var

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


class MpiLauncher(DeviceLauncher):
    """Devices that are MPI ranks: each takes whole arguments and returns whole results."""

    blank = "\n\n"

    def words(self) -> set[str]:
        """The names that the text uses for communicators and gathering."""
        return {"world", "all_gather", "MPI"}

    def text(self) -> str:
        """The ``def``: it takes a rank's parts of the arguments, and gathers the results' parts."""
        ranks = {n: f"{c}.rank" for n, c in self.communicators.items()}
        given = self._given(lambda name: ranks[name])
        given = ", ".join([given, *(f"{name}={name}" for name in self.captured)])
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
            f"result = {self.device_name}({given})",
            *[f"{word} = all_gather(result{path})" for path, word in gathered.items()],
            f"return {returned}",
        ]
        said = "Every rank gives the same arguments, works on its part, and has all results."
        return self._definition(self.name, said, lines)

    def communicators_text(self) -> str:
        """The communicators of the mesh's axes."""
        called = self.communicators
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
        """The script's main part; empty unless all inputs are arguments, arrays or numbers."""
        parameters = self.parameters()
        if self.captured or not all(isinstance(p.tree, Var) for p in parameters):
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

    def module(
        self, texts: Sequence[str], helpers: Sequence[str], alone: Module | None
    ) -> Module:
        """The module, with the main part that ``mpiexec`` runs."""
        main = self.main_text()
        lines = ["from mpi4py import MPI", *(["import sys", "import traceback"] if main else [])]
        return lines, [self.communicators_text(), *helpers, *texts, _ALL_GATHER, main]
