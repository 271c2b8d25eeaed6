"""The passes between Core and its text: in-place stores and their copies, memory, kernels."""

from __future__ import annotations

from dataclasses import replace

from calque.transpiler.codegen.equal_reads import share_equal_reads
from calque.transpiler.codegen.host_values import named_numbers
from calque.transpiler.codegen.outline import find_results, outline
from calque.transpiler.codegen.text.coalesce import Groups
from calque.transpiler.codegen.text.folding import Folding, choices_in
from calque.transpiler.codegen.text.signature import leaf_paths
from calque.transpiler.codegen.text.spelling import name
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Var
from calque.transpiler.ir.pass_manager import Pass, Work, run_passes
from calque.transpiler.ir.target import NUMPY, Target
from calque.transpiler.memory.accumulation import accumulate_in_place
from calque.transpiler.memory.bufferize import Memory, settled_again
from calque.transpiler.memory.copies import place_copies, read_current_sizes, read_sizes_first
from calque.transpiler.memory.donation import donate_memory
from calque.transpiler.memory.printed_program import PrintedProgram

# the facts that passes establish
SIZES_FIRST = "sizes"  # of arguments that are stored into are read before any store
LEAVES = "leaves"  # of structured arguments have names where the text gives them some
KERNELS = "kernels"  # hold the statements that the target compiles
IN_PLACE = "stores in place"  # every store may change the memory of its array

_FEW_READS = 2


class Printing:
    """A program on its way to text, the access paths of its leaves, and the leaves to name."""

    memory: Memory

    def __init__(self, program: PrintedProgram, target: Target):
        self.program, self.target = program, target
        self.paths = leaf_paths(program.function)
        self.named_leaves: list[Var] = []

    def run(self) -> None:
        """Run the passes over the program, in place."""
        copied = replace(self.program.function, body=self.program.body)
        run_passes(self.passes(), Work(copied, Builder(), self.target))

    def passes(self) -> tuple[Pass, ...]:
        """The passes, in their order."""
        return (
            Pass(
                *("share_equal_reads", lambda w: share_equal_reads(self.program)),
                when=lambda w: w.target is NUMPY,
                optional=True,
            ),
            Pass("read_sizes_first", lambda w: read_sizes_first(self.program), makes=[SIZES_FIRST]),
            Pass(
                *("read_current_sizes", lambda w: read_current_sizes(w.function)),
                after=["read_sizes_first"],
                optional=True,
            ),
            Pass(
                *("accumulate_in_place", lambda w: accumulate_in_place(self.program)),
                after=["read_sizes_first"],
                optional=True,
            ),
            Pass("place_copies", self._copy, needs=[SIZES_FIRST], makes=[IN_PLACE]),
            Pass("name_leaves", self._name_leaves, after=["place_copies"], makes=[LEAVES]),
            Pass(
                *("outline", self._outline),
                needs=[IN_PLACE, LEAVES],
                makes=[KERNELS],
                when=lambda w: w.target is not NUMPY,
            ),
            Pass(
                *("donate_memory", self._donate),
                needs=[KERNELS],
                when=lambda w: w.target is not NUMPY,
                optional=True,
            ),
        )

    def _copy(self, work: Work) -> None:
        self.memory = place_copies(self.program)

    def _name_leaves(self, work: Work) -> None:
        """Name leaves with several reads, and arguments named like a function of kernels."""
        function, uses = self.program.function, self.program.uses()
        leaves = [v for v in function.params if v in self.paths]
        self.named_leaves += [v for v in leaves if uses[v] > _FEW_READS]
        if self.target is NUMPY:
            return
        for parameter in function.signature:
            if isinstance(parameter.tree, Var) and parameter.name in self.target.words:
                parameter.tree.name = f"{parameter.name}_given"
                self.paths[parameter.tree] = (name(parameter.name), parameter.tree.name)
                self.named_leaves.append(parameter.tree)

    def _outline(self, work: Work) -> None:
        program, target = self.program, self.target
        choices = choices_in(program, frozenset())
        named = named_numbers(program) if target.grid else frozenset()
        made = [s for s in core.walk(program.body) if isinstance(s, Apply)]
        asked = [a for s in made if target.stands_alone(s) for a in s.args]
        named |= {a for a in asked if isinstance(a, Var) and not a.type.weak}
        groups = Groups(program, choices, self.paths.keys() - set(self.named_leaves))
        outline(program, Folding(program, self.memory, groups, named, choices), target)
        self.memory = settled_again(self.memory)

    def _donate(self, work: Work) -> None:
        if donate_memory(self.program, self.memory):
            find_results(self.program)
            self.memory = settled_again(self.memory)
