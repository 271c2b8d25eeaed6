"""Kernel outlining: move statements that a target compiles into ``Kernel`` statements.

Before::

    out = np.empty(x.size)
    for i in range(x.size):
        out[i] = exp(x[i])
    return np.fft.fft(out)

After::

    out = np.empty(x.size)
    out = kernel(x, out):
        for i in range(x.size):
            out[i] = exp(x[i])
    return np.fft.fft(out)

A kernel ends with a loop, or with a branch that holds one, and begins with one, or with its own
arrays. It holds all statements that its text reads: those that are written within others move into
it, and sizes that statements outside read, too, are repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from calque.transpiler.codegen.host_values import device_numbers
from calque.transpiler.codegen.kernel_forms import form, period
from calque.transpiler.codegen.text.folding import Folding
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Kernel, Statement, Var, While
from calque.transpiler.ir.effects import is_size
from calque.transpiler.ir.statement_forms import sort
from calque.transpiler.ir.target import Target
from calque.transpiler.ir.uses import uses_in
from calque.transpiler.memory.printed_program import PrintedProgram

_REPEATED = 3  # loops that repeat as often become launches of one kernel, which is compiled once


def outline(program: PrintedProgram, folding: Folding, target: Target) -> None:
    """Make the kernels of a program, in place; ``folding`` has the values without a line.

    On a grid, each loop is a kernel, as all threads synchronize only at a kernel's end. Consecutive
    statements on scalars in the device's memory are a kernel of one thread.
    """
    _Outline(program, folding, target).block(program.body, 1)
    find_results(program)


def find_results(program: PrintedProgram) -> None:
    """Let each kernel give what it defines and others read; number the program anew."""
    program.renumber()
    uses = program.uses()
    for s in core.walk(program.body):
        if isinstance(s, Kernel):
            inside = _uses_in(s.body.statements)
            defined = [o for t in s.body.statements for o in t.outs]
            s.outs = tuple(o for o in defined if uses[o] > inside.get(o, 0))
            s.body.results = list(s.outs)


class _Outline:
    def __init__(self, program: PrintedProgram, folding: Folding, target: Target):
        self.program, self.folding, self.target = program, folding, target
        self.explained = bool(program.function.kernel_options.get("explained"))
        self.uses = dict(program.uses())
        self.numbers = device_numbers(program) if target.grid else set[Var]()
        made = [s for s in core.walk(program.body) if isinstance(s, Apply)]
        self.checks = any(map(target.stands_alone, made))
        self.moved: set[int] = set()  # ids of the statements that are in kernels now

    def block(self, block: Block, depth: int) -> None:
        """Make the kernels of a block, which is ``depth`` blocks deep."""
        made: list[Statement] = []
        run: list[Statement] = []
        for s in block.statements:
            if self._moves(s) or self._compiles(s) or self._is_number(s):
                run.append(s)
                continue
            made += self._outlined(run, depth)
            run = []
            made.append(s)
            for inner in core.blocks_of(s):
                self.block(inner, depth + 1)
        made += self._outlined(run, depth)
        block.statements[:] = [s for s in made if id(s) not in self.moved]

    def _outlined(self, run: list[Statement], depth: int) -> list[Statement]:
        """A run of statements with its kernels; explained threads keep raising code separate."""
        parts: list[list[Statement]] = [[]]
        raises = False
        for s in run:
            before = raises
            if self.explained and not self.folding.skip(s):
                raises = self._raises(s)
            if raises != before:
                parts.append([])
            parts[-1].append(s)
        return [s for part in parts for s in self._trimmed(part, depth)]

    def _compiles(self, s: Statement) -> bool:
        """True if the target compiles a statement and all statements written within it."""
        if not self.target.can_compile(s):
            return False
        looping = isinstance(s, (For, While))
        written = [t for t in self._written_in([s]) if isinstance(t, Apply)]
        return all(self.target.is_inside(t, looping) for t in written)

    def _is_number(self, s: Statement) -> bool:
        """True if one thread of a grid may compute a statement on scalars on the device."""
        if not isinstance(s, Apply) or not self.target.grid or len(s.outs) != 1 or s.out.type.weak:
            return False
        parts = [s, *self._written_in([s])]
        looked_at = [t for t in parts if not is_size(t)]
        read = [a for t in looked_at for a in core.operands(t)]  # the host knows every size
        there = any(isinstance(a, Var) and (a.type.ndim or a in self.numbers) for a in read)
        holds = there and all(self.target.can_compile(t, True) for t in parts)
        return holds and not any(map(self.target.may_raise, parts))

    def _written_in(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements, from anywhere, that are written as expressions within the given ones."""
        pending = [a for atoms in _atoms(statements) for a in atoms]
        found: dict[Var, Statement] = {}
        while pending:
            atom = pending.pop()
            if isinstance(atom, Var) and atom in self.folding.folded and atom not in found:
                made = found[atom] = self.program.definition[atom]
                pending += [a for atoms in _atoms([made]) for a in atoms]
        return list(found.values())

    def _raises(self, s: Statement) -> bool:
        return any(map(self.target.may_raise, [*core.walk(Block([s])), *self._written_in([s])]))

    def _trimmed(self, run: list[Statement], depth: int) -> list[Statement]:
        """Outline a run without the statements before its first loop and after its last.

        Statements that are written within others come after the kernel, where these can use them.
        """
        if self.target.grid:
            kernels = self._of_grid([s for s in run if not self._moves(s)])
            return [*kernels, *(s for s in run if self._moves(s))]
        work = [k for k, s in enumerate(run) if _is_work(s) and not self.folding.skip(s)]
        if not work:
            return run
        first, last = work[0], work[-1]
        lines = [k for k, s in enumerate(run[:first]) if not self.folding.skip(s)]
        while lines and self._goes_along(run[lines[-1]]):
            first = lines.pop()
        middle = run[first : last + 1]
        kernels = self._kernels([s for s in middle if not self.folding.skip(s)], depth)
        rest = [s for s in middle if self.folding.skip(s)]
        return [*run[:first], *kernels, *rest, *run[last + 1 :]]

    def _of_grid(self, run: list[Statement]) -> list[Kernel]:
        """A kernel for each loop, and for the scalar statements between two loops."""
        made: list[Kernel] = []
        numbers: list[Statement] = []
        for s in run:
            if not _is_work(s):
                numbers.append(s)
                continue
            made += [self._kernel(numbers)] if numbers else []
            made.append(self._kernel([s]))
            numbers = []
        return [*made, self._kernel(numbers)] if numbers else made

    def _goes_along(self, s: Statement) -> bool:
        """True if a scalar statement before a loop may move into the kernel: it cannot raise."""
        refused = isinstance(s, Apply) and s.primitive.kind == "elementwise" and self._raises(s)
        return not refused and not any(o.type.ndim for o in s.outs)

    def _kernels(self, run: list[Statement], depth: int) -> list[Kernel]:
        """One kernel of all statements, or several equal ones for statements that repeat."""
        if depth == 1 and period([sort([s]) for s in run], _REPEATED):
            size = period([self._form([s]) for s in run], _REPEATED)
            parts = [run[k : k + size] for k in range(0, len(run), size or len(run))]
            if size and len({self._form(part) for part in parts}) == 1:
                return [self._kernel(part) for part in parts]
        return [self._kernel(run)]

    def _form(self, run: Sequence[Statement]) -> object:
        return form([t for s in run for t in [*self._outside([s]), s]], self.folding).text

    def _outside(self, run: Sequence[Statement]) -> list[Statement]:
        """The statements outside of a run that are written within its text, in order."""
        inside = {id(t) for t in core.walk(Block(list(run)))}
        found = [s for s in self._written_in(run) if id(s) not in inside]
        within = {id(t) for s in found for b in core.blocks_of(s) for t in core.walk(b)}
        found = [s for s in found if id(s) not in within]
        return sorted(found, key=lambda s: self.program.number[id(s)])

    def _kernel(self, run: list[Statement]) -> Kernel:
        taken: dict[int, Statement] = {}
        for s in (t for reader in run for t in (*self._checks(reader), reader)):
            for new in (*self._outside([s]), s) if id(s) not in taken else ():
                taken.setdefault(id(new), new)
        body = Block(list(taken.values()))
        inside = _uses_in(body.statements)
        for k in reversed(range(len(body.statements))):
            s = body.statements[k]
            if self._moves(s):
                if all(self.uses[o] == inside[o] for o in s.outs):
                    self.moved.add(id(s))
                else:
                    self._repeat(body, k, inside)
        params = sorted(core.free_vars(body), key=lambda v: self.program.index[v])
        return Kernel((), tuple(params), body, run[0].origin)

    def _moves(self, s: Statement) -> bool:
        """True if a statement moves into the kernels that read it."""
        return self.folding.skip(s) or self._is_check(s)

    def _is_check(self, s: Statement) -> bool:
        """True if a statement checks a scalar that is not on the host."""
        return (
            isinstance(s, Apply)
            and self.target.stands_alone(s)
            and self.target.can_compile(s, True)
            and not s.out.type.ndim
            and not any(isinstance(a, Var) and a.type.weak for a in s.args[:1])
            and all(
                isinstance(t, Apply) and self.target.is_inside(t, True)
                for t in self._written_in([s])
            )
        )

    def _checks(self, s: Statement) -> list[Statement]:
        """The checks that a statement reads, also by statements written within it, in order."""
        if not self.checks:
            return []
        free = core.free_vars(Block([s, *self._written_in([s])]))
        read = sorted(free, key=lambda v: self.program.index[v])
        found = [self.program.definition.get(v) for v in read]
        checks = [t for t in found if t is not None and t is not s and self._is_check(t)]
        return [c for t in checks for c in (*self._checks(t), t)]

    def _repeat(self, body: Block, k: int, inside: dict[Var, int]) -> None:
        """Replace statement ``k`` of a kernel by a copy, as code outside reads it, too."""
        s, mapping = body.statements[k], dict[Var, Atom]()
        (again,) = core.clone(Block([s]), mapping).statements
        body.statements[k] = again
        core.substitute(Block(body.statements[k + 1 :]), mapping)
        for var, count in _uses_in([s]).items():
            self.uses[var] += count
        for out in s.outs:
            self.uses[out] -= inside[out]
        for old, new in mapping.items():
            if isinstance(new, Var) and old in inside:
                inside[new] = inside.pop(old)


def _atoms(statements: Sequence[Statement]) -> Iterator[Sequence[Atom]]:
    """The operands and block results of statements and all statements within them."""
    for s in core.walk(Block(list(statements))):
        yield core.operands(s)
        for inner in core.blocks_of(s):
            yield inner.results


def _uses_in(statements: list[Statement]) -> Counter[Var]:
    """The number of uses of each Var in statements, at any depth."""
    return Counter(var for var, _ in uses_in(Block(statements)))


def _is_work(s: Statement) -> bool:
    return isinstance(s, (For, While)) or (
        isinstance(s, If) and any(_is_work(t) for b in core.blocks_of(s) for t in b.statements)
    )
