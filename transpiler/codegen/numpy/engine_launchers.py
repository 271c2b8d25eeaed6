"""The launcher of a device's program for each engine: a function of whole arrays.

The base class and the launchers of threads and GPUs are here; ``mpi_launcher`` has that of ranks.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.transpiler.codegen.numpy.device_launchers import (
    Cut,
    given_text,
    part_text,
    place_letters,
    result_text,
    whole_text,
)
from calque.transpiler.codegen.text.layout import wrapped
from calque.transpiler.ir.core import Function

Module = tuple[list[str], list[str]]  # its imports, and its texts


@dataclass
class DeviceLauncher:
    """The text around a device's program, and the module with both."""

    function: Function  # of a device
    name: str  # of the launcher
    device_name: str
    communicators: dict[Hashable, str]  # their names in the program, by mesh axis
    sizes: dict[Hashable, int]  # of the axes
    cuts: list[Cut]  # of the arguments' leaves
    cuts_of_result: list[Cut]
    captured: list[str]  # names of what the program reads from outside: each device has all of it

    blank = "\n\n\n"  # between a module's imports and what follows

    def words(self) -> set[str]:
        """The names that the text uses, which no parameter may have."""
        raise NotImplementedError

    def text(self) -> str:
        """The ``def`` that takes and returns whole arrays."""
        raise NotImplementedError

    def module(
        self, texts: Sequence[str], helpers: Sequence[str], alone: Module | None
    ) -> Module:
        """A module with the texts of a device's program and of the launcher.

        ``alone`` has the texts of the calque functions it calls; None if they are imported.
        """
        raise NotImplementedError

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

    def parameters(self) -> list[Any]:
        """The parameters of the device's program without communicators and captured values."""
        own = {*self.communicators.values(), *self.captured}
        return [p for p in self.function.signature if p.name not in own]

    def _called(self, parameter: Any) -> str:
        """A parameter's name in the launcher, different from the launcher's own names."""
        own = {"np", "range", *self.words()}
        name: str = parameter.name
        own |= {p.name for p in self.parameters() if p is not parameter}
        while name in own:
            name += "_"
        return name

    def _given(self, place: Callable[[Hashable], str]) -> str:
        """The arguments of a device's program: the device's parts of the whole ones."""
        cuts = list(self.cuts)

        def part(path: str, cut: Cut) -> str:
            return part_text(path, cut, self.sizes, place)

        texts = [given_text(p.tree, self._called(p), cuts, part) for p in self.parameters()]
        return ", ".join(texts)

    def _checks(self) -> list[str]:
        """The lines that check that an axis split by element is as long as there are devices."""
        found = []
        cuts = list(self.cuts)

        def part(path: str, cut: Cut) -> str:
            if cut.element:
                _, axis = cut.element
                found.append(f"{path}.shape[{axis}]")
            return path

        for p in self.parameters():
            given_text(p.tree, self._called(p), cuts, part)
        lines = []
        for size in found:
            count = next(iter(self.sizes.values()))
            lines.append(f"if {size} != {count}:")
            lines.append(f'    raise ValueError("{size} must be {count}, the number of devices")')
        return lines

    def _results(self, leaf: Callable[[str, Cut], str]) -> str:
        return result_text(self.function, self.cuts_of_result, leaf)

    def _definition(self, name: str, said: str, lines: Sequence[str]) -> str:
        names = ", ".join(p.variadic + self._called(p) for p in self.parameters())
        if self.captured:
            names += ", *" * all(p.variadic != "*" for p in self.parameters())
            names = ", ".join([names, *self.captured])
        body = [f'"""{said}"""', *lines]
        text = f"def {name}({names}):\n" + textwrap.indent("\n".join(body), "    ")
        return "\n".join(w for line in text.split("\n") for w in wrapped(line)) + "\n"


class ThreadLauncher(DeviceLauncher):
    """Devices that are threads of one process."""

    def words(self) -> set[str]:
        """The engine, and the numbers of devices."""
        return {"run", *place_letters(self.sizes).values()}

    def text(self) -> str:
        """The ``def``: arguments of all devices in a list, and their results in another."""
        letters = place_letters(self.sizes)
        given = self._given(lambda name: letters[name])
        given += "," if len(self.parameters()) == 1 else ""
        clauses = " ".join(f"for {letters[n]} in range({size})" for n, size in self.sizes.items())
        shape = tuple(self.sizes.values())
        named = ", ".join(f'"{name}": {name}' for name in self.captured)
        called = f"{self.device_name}, arguments, {{{named}}}, {shape}"
        lines = [*self._checks(), *self._run(f"({given})", clauses, called)]
        lines.append(f"return {self._results(self._of_results)}")
        said = f"{math.prod(shape)} devices, each on its part; whole arrays in and out."
        return self._definition(self.name, said, lines)

    def _run(self, given: str, clauses: str, called: str) -> list[str]:
        """The lines that distribute the arguments and run the devices' program."""
        return [f"arguments = [{given} {clauses}]", f"results = run({called})"]

    def _of_results(self, path: str, cut: Cut) -> str:
        def leaf(place: Callable[[Hashable], str]) -> str:
            return f"results[{self._number(place)}]{path}"

        return whole_text(leaf, cut, self.sizes)

    def module(
        self, texts: Sequence[str], helpers: Sequence[str], alone: Module | None
    ) -> Module:
        """The engine is imported, or its text follows."""
        lines, engine = alone or (["from calque.runtime.engines.threads import run"], [])
        return lines, [*helpers, *texts, *engine]


class GpuLauncher(ThreadLauncher):
    """Devices that are GPUs of one process."""

    def words(self) -> set[str]:
        """The engine, and the numbers of devices."""
        return {"run_on_gpus", "on_gpu", "cp", *place_letters(self.sizes).values()}

    def _run(self, given: str, clauses: str, called: str) -> list[str]:
        letters = place_letters(self.sizes)
        number = self._number(lambda name: letters[name])
        return [
            f"arguments = [on_gpu({number}, {given}) {clauses}]",
            f"results = on_gpu(0, run_on_gpus({called}))",
        ]

    def _of_results(self, path: str, cut: Cut) -> str:
        return super()._of_results(path, cut).replace("np.stack(", "cp.stack(").replace(
            "np.concatenate(", "cp.concatenate("
        )

    def module(
        self, texts: Sequence[str], helpers: Sequence[str], alone: Module | None
    ) -> Module:
        """The engine is imported, or its text follows."""
        place = "calque.runtime.engines.gpu_threads"
        lines, engine = alone or ([f"from {place} import on_gpu, run_on_gpus"], [])
        return ["import cupy as cp", *lines], [*helpers, *texts, *engine]
