"""Double buffering: write an update of an array from its neighbours into a second array.

Before, on a grid, where each loop is a kernel launch::

    for t in range(steps):
        inner = np.empty(n - 2)
        for i in range(n - 2):
            inner[i] = u[i] + u[i + 2]
        for i in range(n - 2):
            u[i + 1] = inner[i]

After::

    for t in range(steps):
        u_next = np.empty(n)
        for i in range(n):
            if i >= 1 and i < n - 1:
                value = u[i - 1] + u[i + 1]
            else:
                value = u[i]
            u_next[i] = value
        u = u_next

Each element is read and stored once; before, it was stored and read again. The old array stays as
it was, so that no part of it has to be copied first: the reverse pass of a stencil reads the
elements that it sets to zero. The same launch copies elements that the loop leaves out; where these
may be many, a store in place moves less memory. Later reads of views of the old array become reads
of that array.
"""

from __future__ import annotations

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder
from calque.transpiler.ir.core import Apply, Block, For, Function, If, Statement, Var
from calque.transpiler.ir.dead_code import remove_dead_code
from calque.transpiler.ir.effects import is_plain_store, is_size, is_store
from calque.transpiler.ir.remarks import Refused, applied, missed
from calque.transpiler.ir.uses import element_readers, readers_of
from calque.transpiler.loops.accesses import template_of
from calque.transpiler.loops.cell_nests import CellNest, cell_nest, is_number, is_whole, margins
from calque.transpiler.loops.whole_nests import Chain, Layer, WholeNest, filler, index_of
from calque.transpiler.primitives.creation import empty
from calque.transpiler.primitives.element_forms import full_template
from calque.transpiler.primitives.indexing import copy, getitem, update

DEEPEST = 3  # axes


def double_buffer(function: Function, builder: Builder) -> None:
    """Rewrite such loops, in place."""
    with builder.active():
        _within(function.body, function, builder)
    remove_dead_code(function)


def _within(block: Block, function: Function, builder: Builder) -> None:
    for s in list(block.statements):
        if not (isinstance(s, For) and s.parallel):
            for inner in core.blocks_of(s):
                _within(inner, function, builder)
    done: set[int] = set()
    while True:
        last = next((s for s in reversed(block.statements) if id(s) not in done), None)
        if last is None:
            return
        done.add(id(last))
        if not isinstance(last, For):
            continue
        chain = _chain(last, block, builder)
        if isinstance(chain, Chain) and _is_callers(chain, function):
            chain = Refused("a new array would have to be copied into the caller's array")
        if isinstance(chain, Refused):
            missed(builder, "double_buffer", last, chain)
            continue
        applied(builder, "double_buffer", last)
        made = WholeNest(chain, block, builder).write(function)
        _read_in_place(chain.start, block, builder)
        done.update(map(id, made))


def _is_callers(chain: Chain, function: Function) -> bool:
    """True if the chain updates an argument, to which a new array would have to be copied."""
    return chain.start in [function.params[k] for k in function.written]


def _chain(last: For, block: Block, builder: Builder) -> Chain | Refused:
    """The layers that end with ``last``, if a second array moves less memory."""
    nest = cell_nest(last, builder)
    if isinstance(nest, Refused):
        return nest
    if len(nest.loops) > DEEPEST:
        return Refused(f"it is a nest of more than {DEEPEST} loops")
    refused = _not_plain(nest)
    if refused is not None:
        return refused
    for k in range(len(nest.loop.phis)):
        top = _layer(nest, k, builder)
        if isinstance(top, Refused):
            refused = top
            continue
        chain = Chain([top])
        while (before := _layer_before(chain, block, builder)) is not None:
            chain.layers.insert(0, before)
        for layer in chain.layers:
            _find_sources(layer, chain, block, builder)
        filled = filler(chain.start, block)
        saves = chain.sources or len(chain.layers) > 1 or filled or _reads_old(chain, block)
        refused = Refused("it reads no old elements: a store in place moves less memory")
        refused = _immovable(chain, block) if saves else refused
        if refused is None:
            return chain
    assert refused is not None
    return refused


def _reads_old(chain: Chain, block: Block) -> bool:
    """True if the last nest reads the old array, or a copy or a view of it, while storing."""
    read = core.free_vars(chain.layers[-1].nest.loop.body)
    if chain.start in read:
        return True
    made = (s for s in block.statements if isinstance(s, Apply) and s.args)
    return any(s.args[0] is chain.start and s.out in read and _starts(s) for s in made)


def _not_plain(nest: CellNest) -> Refused | None:
    """The reason if an iteration does more than compute numbers, branch on them, and store."""
    for s in nest.body.statements:
        if not (is_number(s) or is_plain_store(s) or (isinstance(s, If) and _is_choice(s))):
            return Refused("{0} does more than compute a number or store one", (s.origin,))
    return None


def _is_choice(s: If) -> bool:
    """True if a branch only computes numbers."""
    inner = [t for b in core.blocks_of(s) for t in b.statements]
    numbers = all(is_number(t) or (isinstance(t, If) and _is_choice(t)) for t in inner)
    return numbers and not any(o.type.ndim for o in s.outs)


def _layer(nest: CellNest, k: int, builder: Builder) -> Layer | Refused:
    """A nest as a layer of its k-th array, unless it leaves out much of the array."""
    store, name = nest.store(k), nest.loop.phis[k].name or "an array"
    if store is None:
        return Refused(f"an iteration accesses {name} other than by one store")
    box = nest.box(store, builder)
    if box is None:
        return Refused("{0} does not store at its counters", (store.origin,))
    if margins(box, store.out.type.dims, builder) is None:
        return Refused(f"{{0}} may leave out many elements of {name}", (store.origin,))
    value, own = store.args[1], store.out.type.dtype
    if isinstance(value, Var) and (value.type.dtype != own or value.type.weak):
        return Refused("{0} converts the value to another dtype", (store.origin,))
    if not isinstance(nest.loop.inits[k], Var):
        return Refused(f"{name} is a constant")
    return Layer(nest, k, store, box)


def _layer_before(chain: Chain, block: Block, builder: Builder) -> Layer | None:
    """The layer that makes the array of the first layer, if nothing else reads it."""
    version = chain.start
    made = next((s for s in block.statements if version in s.outs), None)
    nest = cell_nest(made, builder) if made is not None else None
    if not isinstance(nest, CellNest) or len(nest.loop.phis) != 1 or _not_plain(nest):
        return None
    found = _layer(nest, 0, builder)
    if isinstance(found, Refused) or readers_of(block, version) != [chain.layers[0].nest.loop]:
        return None
    return found if found.store.primitive is update else None


def _find_sources(layer: Layer, chain: Chain, block: Block, builder: Builder) -> None:
    """Note the arrays that only this layer reads, each element once: they need no memory."""
    for read in core.walk(layer.nest.body):
        if not isinstance(read, Apply) or read.primitive is not getitem:
            continue
        array = read.args[0]
        made = next((s for s in block.statements if array in s.outs), None)
        nest = cell_nest(made, builder) if made is not None else None
        if not isinstance(nest, CellNest) or _not_plain(nest):
            continue
        if read not in layer.nest.body.statements:
            continue
        k = nest.loop.outs.index(array)
        found = _layer(nest, k, builder)
        there = layer.nest.box(read, builder)
        if isinstance(found, Refused) or there is None or found.store.primitive is not update:
            continue
        whole = is_whole(found.box, array.type.dims, builder)
        same = (there.lows, there.highs) == (found.box.lows, found.box.highs)
        start = next((s for s in block.statements if nest.loop.inits[k] in s.outs), None)
        fresh = isinstance(start, Apply) and start.primitive is empty
        if whole and same and fresh and element_readers(block, array) == [read]:
            chain.sources[array] = found


def _immovable(chain: Chain, block: Block) -> Refused | None:
    """The reason if not all nests of the chain can run where the last of them stands.

    Other results of these nests must be read after that only. The arrays that the nests read must
    not be stored into in between, which would copy them.
    """
    if any(chain.start in layer.nest.loop.outs for layer in chain.sources.values()):
        return Refused("a loop whose values it reads makes the array that it updates")
    layers = (*chain.layers, *chain.sources.values())
    nests = [layer.nest for layer in layers]
    beside = set().union(*map(_beside, layers))
    if any(beside.intersection(core.free_vars(n.loop.body)) for n in nests):
        return Refused("it reads another array that it stores into")
    places = [block.statements.index(n.loop) for n in nests]
    between = block.statements[min(places) : max(places)]
    between = [s for s in between if not any(s is n.loop for n in nests)]
    last = chain.layers[-1].nest
    given = {o for n in nests if n is not last for o in n.loop.outs}
    read = {v for n in nests for v in core.free_vars(Block([n.loop]))}
    read |= {o for n in nests for o in n.loop.outs}
    for s in between:
        inside = {*core.operands(s), *(v for b in core.blocks_of(s) for v in core.free_vars(b))}
        sized = is_size(s)
        if given & inside and not sized:
            return Refused("{0} reads, before it, an array that would be made by it", (s.origin,))
        changes = is_store(s)
        if changes or core.blocks_of(s):
            stored = {*core.operands(s)} if not changes else {s.args[0]}  # type: ignore[union-attr]
            if stored & read:
                return Refused("{0} stores into an array that it reads", (s.origin,))
    arrays = [i for n in nests for i in n.loop.inits]
    same = len(set(arrays)) < len(arrays)
    return Refused("it begins with one array twice") if same else None


def _beside(layer: Layer) -> set[Var]:
    """The other arrays that a layer's nest stores into: versions before and after the nest."""
    loop = layer.nest.loop
    kept = [k for k in range(len(loop.phis)) if k != layer.array]
    return {v for k in kept for v in (loop.inits[k], loop.outs[k]) if isinstance(v, Var)}


def _read_in_place(array: Var, block: Block, builder: Builder) -> None:
    """Replace reads of views of an array by reads of the array, if nothing stores into it."""
    views = {}
    for use in readers_of(block, array):
        if not isinstance(use, Apply):
            continue
        if use.primitive.kind == "store":
            return
        starts = _starts(use)
        if starts is not None:
            views[use.out] = starts
    if any(array in s.inits for s in core.walk(block) if isinstance(s, For)):
        return
    for view in [*views]:
        reads = element_readers(block, view)
        if not all(isinstance(u, Apply) and _is_element_read(u, view) for u in reads):
            del views[view]
    _read_views(block, array, views, builder)


def _starts(s: Apply) -> list[int] | None:
    """The first index of a view or a copy along each axis; None for other operations."""
    if s.primitive is copy and s.args[0].type == s.out.type:
        return [0] * s.out.type.ndim
    if s.primitive is not getitem or len(s.args) > 1 or not s.out.type.ndim:
        return None
    items = full_template(s.params["index"], [], s.args[0].type.ndim)
    starts = []
    for item in items:
        if not isinstance(item, slice) or item.step not in (None, 1):
            return None
        start = item.start or 0
        if not isinstance(start, int) or start < 0:
            return None
        starts.append(start)
    return starts if s.proven else None


def _is_element_read(s: Apply, view: Var) -> bool:
    """True if a statement reads one element of ``view`` at an index proven in bounds."""
    return s.primitive is getitem and s.args[0] is view and not s.out.type.ndim and s.proven


def _read_views(
    block: Block, array: Var, views: dict[Var, list[int]], builder: Builder
) -> None:
    made: list[Statement] = []
    for s in block.statements:
        for inner in core.blocks_of(s):
            _read_views(inner, array, views, builder)
        if isinstance(s, Apply) and s.primitive is getitem and s.args[0] in views:
            with builder.block() as new, builder.at(s.origin):
                starts = views[s.args[0]]
                places = [i + by for i, by in zip(index_of(s, s.args), starts, strict=True)]
            template, dynamic = template_of(places)
            s.args, s.params = (array, *dynamic), {"index": template}
            made += new.statements
        made.append(s)
    block.statements[:] = made
