"""Insert the copies that in-place stores need into the program."""

from __future__ import annotations

from collections.abc import Iterable

from calque.transpiler.errors import AliasUndecided
from calque.transpiler.ir import core
from calque.transpiler.ir.core import Apply, Atom, Block, For, Function, Statement, Var, While
from calque.transpiler.ir.effects import is_size, is_store
from calque.transpiler.ir.versions import Versions
from calque.transpiler.memory.bufferize import CopyLocation, Memory, copy_locations, settle
from calque.transpiler.memory.live_values import Liveness
from calque.transpiler.memory.printed_program import PrintedProgram
from calque.transpiler.primitives import indexing
from calque.transpiler.primitives.indexing import update
from calque.transpiler.primitives.shapes import size_of_axis


def place_copies(program: PrintedProgram) -> Memory:
    """Make every store safe to print in place; store final values into written parameters."""
    memory = _settle(program)
    for position, result in sorted(program.function.written.items()):
        param, value = program.function.params[position], program.body.results[result]
        if isinstance(value, Var) and {*Versions.within(program.body).origins(value)} != {param}:
            store = _store_final(program, param, value, result)
            memory = _settle(program)
            if store.args[0] is not param:
                raise AliasUndecided(
                    f"What the call leaves in {param.name} cannot be written back: results that "
                    "may lie in its memory are still needed.",
                    store.origin,
                    "work on a copy, and return it",
                )
    return memory


def read_sizes_first(program: PrintedProgram) -> None:
    """Read the sizes of written arguments first, so that no later read keeps an old version."""
    written = {program.function.params[k] for k in program.function.written}
    known: dict[tuple[Atom, int], Var] = {}
    again: dict[Var, Atom] = {}
    top: list[Statement] = []
    for block in [program.body, *(b for s in core.walk(program.body) for b in core.blocks_of(s))]:
        kept: list[Statement] = []
        for s in block.statements:
            if not isinstance(s, Apply) or s.primitive is not size_of_axis:
                kept.append(s)
            elif s.args[0] not in written:
                kept.append(s)
            elif (s.args[0], s.params["axis"]) in known:
                again[s.out] = known[s.args[0], s.params["axis"]]
            else:
                known[s.args[0], s.params["axis"]] = s.out
                top.append(s)
        block.statements[:] = kept
    program.body.statements[:0] = top
    core.substitute(program.body, again)
    if top:
        program.renumber()


def _store_final(program: PrintedProgram, param: Var, value: Var, result: int) -> Apply:
    """Store a parameter's final value, at its definition if the old one is not read later."""
    out = Var(param.type, param.name)
    whole = {"index": (Ellipsis,)}
    store = Apply((out,), update, (param, value), whole)
    statements = program.body.statements
    made = program.definition.get(value)
    place = len(statements)
    if isinstance(made, Apply) and made in statements:
        after = statements.index(made) + 1
        if not program.once(Liveness).after(made) & program.bit(param):
            core.substitute(program.body, {value: out})
            place = after
            store.origin = made.origin
    results = program.body.results
    results[:] = [out if r is value else r for r in results]
    statements.insert(place, store)
    program.renumber()
    memory = program.once(settle)
    if memory.copied("store", store):
        _move_results(program, memory, store)
    return store


def _move_results(program: PrintedProgram, memory: Memory, store: Apply) -> None:
    """Copy the results that may share a parameter's memory, before its final value is stored."""
    results, base = program.body.results, memory.at(store.args[0])
    statements = program.body.statements
    for k, found in enumerate(results):
        if isinstance(found, Var) and found is not store.out and memory.at(found) & base:
            results[k] = Var(found.type, found.name)
            statements.insert(statements.index(store), _copy(program, results[k], found, store))
    program.renumber()


def _settle(program: PrintedProgram) -> Memory:
    """Insert copies until no store needs another one."""
    while True:
        memory = program.once(settle)
        removed = _remove_copies(program, memory)
        wanted = [(site, s) for site, s in copy_locations(memory) if site.kind != "copy"]
        if not removed and not wanted:
            _note_starts(program, memory)
            return memory
        for site, s in wanted:
            _write(program, memory, site, s)
        _forward(program, removed)
        program.renumber()


def _remove_copies(program: PrintedProgram, memory: Memory) -> dict[Var, Atom]:
    removed: dict[Var, Atom] = {}
    for n, s in enumerate(list(core.walk(program.body))):
        if isinstance(s, Apply) and s.primitive is indexing.copy:
            if CopyLocation("copy", n) not in memory.copies:
                removed[s.out] = s.args[0]
    return removed


def _forward(program: PrintedProgram, removed: dict[Var, Atom]) -> None:
    """Replace unneeded copies by their sources."""
    for out, source in removed.items():
        made = program.definition[out]
        program.block_of[id(made)].statements.remove(made)
        while isinstance(source, Var) and source in removed:
            source = removed[source]
        removed[out] = source
        if isinstance(source, Var) and source.name is None:
            source.name = out.name
    core.substitute(program.body, removed)


def _write(program: PrintedProgram, memory: Memory, site: CopyLocation, s: Statement) -> None:
    if isinstance(s, (For, While)):
        _write_carried(program, memory, site, s)
        return
    assert isinstance(s, Apply)
    statements = program.block_of[id(s)].statements
    if site.kind == "view":
        bare = Var(s.out.type, None, s.origin)
        copy = _copy(program, s.out, bare, s)
        s.outs = (bare,)
        statements.insert(statements.index(s) + 1, copy)
        return
    base = s.args[0]
    named = s.out.name if is_store(s) else base.name if isinstance(base, Var) else None
    held = Var(
        s.out.type if is_store(s) else base.type, named or getattr(base, "name", None), s.origin
    )
    copy = _copy(program, held, base, s)
    _note_argument(program, memory, base, copy)
    statements.insert(statements.index(s), copy)
    s.args = (held, *s.args[1:])
    if site.kind == "base":
        final = memory.takes[id(s)].final
        final.args = (held, *final.args[1:])


def _write_carried(
    program: PrintedProgram, memory: Memory, site: CopyLocation, s: For | While
) -> None:
    phi = s.phis[site.place]
    held = Var(phi.type, phi.name, s.origin)
    if site.kind == "init":
        source = s.inits[site.place]
        copy = _copy(program, held, source, s)
        _note_argument(program, memory, source, copy)
        statements = program.block_of[id(s)].statements
        statements.insert(statements.index(s), copy)
        s.inits = (*s.inits[: site.place], held, *s.inits[site.place + 1 :])
    else:
        s.body.statements.append(_copy(program, held, s.body.results[site.place], s))
        s.body.results[site.place] = held


def _copy(program: PrintedProgram, out: Var, source: Atom, s: Statement) -> Apply:
    layout = {"order": "K"} if out.type.ndim > 1 else {}  # sums depend on it in the last bits
    return Apply((out,), indexing.copy, (source,), layout, s.origin, phase=s.phase)


def _note_argument(program: PrintedProgram, memory: Memory, source: Atom, copy: Apply) -> None:
    if source in program.function.params and memory.at(source) & memory.unwritable:
        program.kept_arguments.add(id(copy))


def _note_starts(program: PrintedProgram, memory: Memory) -> None:
    """Record the program's own copies of arguments that loops start from."""
    loops = (s for s in core.walk(program.body) if isinstance(s, (For, While)))
    for start in (a for s in loops for a in s.inits if isinstance(a, Var)):
        made = program.definition.get(start)
        if isinstance(made, Apply) and made.primitive is indexing.copy:
            _note_argument(program, memory, made.args[0], made)


def read_current_sizes(function: Function) -> None:
    """Let reads of sizes within and after loops and stores ask the newest version, in place.

    Before, in Core::

        saved.1 = for t in range(0, steps) carrying saved.2 = saved:
            n = size of axis(saved, axis=0)

    After: ``size of axis(saved.2, axis=0)``. A read of the version before the loop would force the
    stores of the loop to go into a copy. Arguments are asked as before: their sizes are known
    before their arrays are copied.
    """
    _read_newest(function.body, {}, {*function.params})


def _read_newest(block: Block, known: dict[Var, Var], params: set[Var]) -> None:
    """Follow the statements of a block; ``known`` has the next version of each array."""
    newest = dict(known)

    def note(pairs: Iterable[tuple[Atom, Var]]) -> None:
        for old, new in pairs:
            if isinstance(old, Var) and old not in params and old.type.dims == new.type.dims:
                newest[old] = new

    for s in block.statements:
        if is_size(s):
            array = s.args[0]
            while isinstance(array, Var) and array in newest:
                array = newest[array]
            s.args = (array, *s.args[1:])
        if isinstance(s, (For, While)):
            before = dict(newest)
            note(zip(s.inits, s.phis))
            inside, newest = newest, before
            for inner in core.blocks_of(s):
                _read_newest(inner, inside, params)
            note(zip(s.inits, s.outs))
            continue
        for inner in core.blocks_of(s):
            _read_newest(inner, newest, params)
        if is_store(s):
            note([(s.args[0], s.out)])
