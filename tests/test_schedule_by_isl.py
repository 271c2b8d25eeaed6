"""Schedule primitives beside isl: parts of loops cover the same iterations, in the same order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sampling import sampled

from calque.transpiler.diagnostics.parsing import parse
from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Builder, wrap
from calque.transpiler.ir.core import Apply, Atom, For, Var
from calque.transpiler.ir.types import DimLike
from calque.transpiler.loops.index_set_splitting import split_index_set
from calque.transpiler.loops.nest import LoopNest, NestAccess, build
from calque.transpiler.loops.schedule.parts import split_at, strip_mine
from calque.transpiler.loops.schedule.permutation import Permutation
from calque.transpiler.primitives.elementwise import add, floor_divide, multiply, subtract
from calque.transpiler.primitives.extrema import maximum, minimum
from calque.transpiler.primitives.scalars import min_

isl = pytest.importorskip("islpy")

NEST = """
f(x: float64[n, n])
    t.0: int = size of axis(x, axis=0)
    x.1: float64[n, n] = for i in range({outer}) carrying x.2: float64[n, n] = x:
{before}        x.3: float64[n, n] = for j in range({inner}) carrying x.4: float64[n, n] = x.2:
{body}            yield x.5
{after}        yield {last}
    yield x.1
"""
LOOP = """        x.6: float64[n, n] = for k in range({bounds}) carrying x.7: float64[n, n] = x.3:
{body}            yield x.8
"""
UP, DOWN = ("0, t.0, 1", "1, t.0, 1"), ("t.1, -1, -1", "t.1, 0, -1")
LAST = "        t.1: int = np.subtract(t.0, 1)\n"


def loops_of(text: str) -> tuple[list[For], Builder]:
    function, builder = parse(text)
    return [s for s in core.walk(function.body) if isinstance(s, For)], builder


def written(dim: DimLike, names: dict[str, str]) -> str:
    """A dimension in isl's notation."""
    if isinstance(dim, int):
        return str(dim)
    return " + ".join([*(f"{c} * {names.get(s, s)}" for s, c in dim.terms), str(dim.const)])


def name_of(loop: For, builder: Builder) -> str:
    """The symbol of a loop's counter."""
    ((name, _),) = builder.dim_values[loop.index].terms
    return name


def computed(atom: Atom, builder: Builder, names: dict[Var, str]) -> str:
    """The expression that computes an integer, in isl's notation."""
    if not isinstance(atom, Var) or atom in names:
        return str(names.get(atom, atom)) if isinstance(atom, Var) else str(int(atom))
    made = builder.definitions[atom]
    assert isinstance(made, Apply)
    left, right = (computed(a, builder, names) for a in made.args)
    texts = {
        add: f"({left} + {right})",
        subtract: f"({left} - {right})",
        multiply: f"({left} * {right})",
        floor_divide: f"floor(({left}) / {right})",
        min_: f"min({left}, {right})",
        minimum: f"min({left}, {right})",
        maximum: f"max({left}, {right})",
    }
    return texts[made.primitive]


def counts(low: str, high: str, step: int, known: str) -> Any:
    """The counts of a loop from ``low`` to before ``high``, by one up or down."""
    ends = f"{low} <= j and j < {high}" if step == 1 else f"{high} < j and j <= {low}"
    return isl.Set(f"[n, i] -> {{ [j] : {known} and {ends} }}")


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("ends", [(0, 0), (1, 0), (0, 1)])
def test_a_split_loop_has_the_same_iterations_in_order(step: int, ends: tuple[int, int]) -> None:
    high = "t.1" if ends[1] else "t.0"
    inner = f"{ends[0]}, {high}, 1" if step == 1 else f"t.1, {ends[0] - 1}, -1"
    body = (
        "            v: float64 = getitem(x.4, i, i, index=(Slot(position=0), Slot(position=1)))\n"
        "            x.5: float64[n, n] = update(x.4, v, i, j, index=(Slot(position=0), Slot(position=1)))\n"
    )
    text = NEST.format(outer="0, t.0, 1", before=LAST, inner=inner, body=body, after="", last="x.3")
    (outer, loop), builder = loops_of(text)
    names = {name_of(outer, builder): "i"}
    bounds = [written(builder.dim_of(wrap(a)), names) for a in (loop.start, loop.stop)]
    low, high = bounds
    known = f"0 <= i < n and {low} <= i < {high}" if step == 1 else f"{high} < i <= {low} and i < n"
    with builder.active():
        first, *middle, last = split_at(loop, outer.index, builder)
    assert isinstance(first, For) and isinstance(last, For) and not core.blocks_of(middle[0])
    parts = [
        counts(*(written(builder.dim_of(wrap(a)), names) for a in (part.start, part.stop)), step, known)
        for part in (first, last)
    ]
    here = isl.Set(f"[n, i] -> {{ [j] : {known} and j = i }}")
    assert parts[0].union(here).union(parts[1]) == counts(*bounds, step, known)
    before, after = ("j < i", "j > i") if step == 1 else ("j > i", "j < i")
    for part, side in zip(parts, (before, after), strict=True):
        assert part.is_subset(isl.Set(f"[n, i] -> {{ [j] : {side} }}"))
    for part, reach in zip((first, last), parts, strict=True):  # what is known of the counters
        least, most = (written(d, names) for d in builder.dims.ranges[name_of(part, builder)])
        assert reach.is_subset(isl.Set(f"[n, i] -> {{ [j] : {least} <= j <= {most} }}"))


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("size", [2, 64, 1024])
def test_strips_have_the_same_iterations_in_order(start: int, size: int) -> None:
    (loop,), builder = loops_of(
        "f(x: float64[n])\n"
        "    t.0: int = size of axis(x, axis=0)\n"
        f"    x.1: float64[n] = for j in range({start}, t.0, 1) carrying x.2: float64[n] = x:\n"
        "        yield x.2\n"
        "    yield x.1\n"
    )
    with builder.active(), builder.block():
        strips = strip_mine(loop.start, loop.stop, size, "strip", builder)
    names = {loop.stop: "n", strips.counter: "s"}
    count, low, high = (computed(a, builder, names) for a in (strips.count, *strips.ends))
    inside = f"0 <= s < {count} and {low} <= j < {high}"
    made = isl.Set(f"[n] -> {{ [s, j] : n >= 0 and {inside} }}")
    assert made.project_out(isl.dim_type.set, 0, 1) == isl.Set(
        f"[n] -> {{ [j] : n >= 0 and {start} <= j < n }}"
    )
    other = inside.replace("s", "s2").replace("j", "j2")
    late = f"[n] -> {{ [s, j, s2, j2] : n >= 0 and {inside} and {other} and s < s2 and j >= j2 }}"
    assert isl.Set(late).is_empty()


BAND = """
f(x: float64[n], h: float64[n, n])
    t.0: int = size of axis(x, axis=0)
    h.1: float64[n, n] = for i in range(0, t.0, 1) carrying h.2: float64[n, n] = h:
        h.3: float64[n, n] = for j in range({start}, t.0, 1) carrying h.4: float64[n, n] = h.2:
            t.1: int = {shifted}
            same: bool = np.equal(i, t.1)
            one: float64 = np.where(same, 1.0, 0.0)
            v: float64 = getitem(x, j, index=(Slot(position=0),)) as proven
            w: float64 = np.sin(v)
            u: float64 = np.multiply(one, w)
            h.5: float64[n, n] = update(h.4, u, i, j, index=(Slot(position=0), Slot(position=1))) as proven
            yield h.5
        yield h.3
    yield h.1
"""


@pytest.mark.parametrize("offset", [-2, 0, 1])
@pytest.mark.parametrize("start", [0, 1])
def test_parts_at_a_band_have_the_same_iterations_in_order(offset: int, start: int) -> None:
    shifted = f"np.add(j, {offset})" if offset >= 0 else f"np.subtract(j, {-offset})"
    function, builder = parse(BAND.format(shifted=shifted, start=start))
    split_index_set(function, builder, lambda s: True, lambda s: False)
    outer = next(s for s in function.body.statements if isinstance(s, For) and s.phis[0].type.ndim == 2)
    parts = [s for s in outer.body.statements if isinstance(s, For)]
    names = {outer.index: "i", outer.stop: "n"}
    ends = [[computed(a, builder, names) for a in (s.start, s.stop)] for s in parts]
    known = f"[n, i] -> {{ [j] : 0 <= i < n and {start} <= n and "
    first, band, last = (isl.Set(f"{known} {low} <= j < {high} }}") for low, high in ends)
    whole = isl.Set(f"{known} {start} <= j < n }}")
    assert first.union(band).union(last) == whole
    assert isl.Set(f"{known} j + {offset} = i }}").intersect(whole).is_subset(band)
    for early, late in ((first, band), (band, last), (first, last)):
        assert early.lex_ge_set(late).is_empty()


def indexed(pick: random.Random, inner: str, lines: list[str]) -> str:
    """The operands and the index of an element, after statements that compute it, in ``lines``."""
    dynamic, items = "", []
    for _ in range(2):
        name = pick.choice(["i", inner, inner, "i", "0"])
        if name != "0" and pick.random() < 0.25:
            lines.append(f"{inner}{len(lines)}: int = np.add({name}, 1)")
            name = f"{inner}{len(lines) - 1}"
        items.append(f"Slot(position={dynamic.count(',')})" if name != "0" else "0")
        dynamic += f", {name}" if name != "0" else ""
    return f"{dynamic}, index=({', '.join(items)})) as proven"


def statements(pick: random.Random, inner: str, begins: str, ends: str) -> str:
    """A body that reads an element and stores another one."""
    lines: list[str] = []
    read, store = (indexed(pick, inner, lines) for _ in range(2))
    lines += [
        f"v{inner}: float64 = getitem({begins}{read}",
        f"w{inner}: float64 = np.sin(v{inner})",
        f"{ends}: float64[n, n] = update({begins}, w{inner}{store}",
    ]
    return "".join(f"            {line}\n" for line in lines)


def of_seed(seed: int) -> tuple[LoopNest, Builder]:
    """A nest with one or two inner loops, each with a read and a store."""
    pick = random.Random(seed)
    several, bounds = pick.random() < 0.5, ["0, t.0, 1", "1, t.0, 1"]
    body = statements(pick, "j", "x.4", "x.5")
    after = ""
    if several:
        after = LOOP.format(bounds=pick.choice(bounds), body=statements(pick, "k", "x.7", "x.8"))
    text = NEST.format(
        outer=pick.choice(bounds), before="", inner=pick.choice(bounds),
        body=body, after=after, last="x.6" if several else "x.3",
    )  # fmt: skip
    (outer, *_), builder = loops_of(text)
    nest = build(outer, builder)
    assert isinstance(nest, LoopNest), nest
    return nest, builder


def reordered(a: NestAccess, b: NestAccess, nest: LoopNest, builder: Builder) -> Any:
    """The pairs of iterations whose accesses to one element change their order."""
    texts, ranges = [], []
    for k, each in ((1, a), (2, b)):
        outer, inner = each.loops
        names = {name_of(outer, builder): f"i{k}", name_of(inner, builder): f"j{k}"}
        texts.append([written(d, names) for d in each.place if d is not None])
        ranges += [
            f"{written(builder.dim_of(wrap(s.start)), {})} <= {name} < n"
            for s, name in ((outer, f"i{k}"), (inner, f"j{k}"))
        ]
    equal = [f"{left} = {right}" for left, right in zip(*texts, strict=True)]
    inner = [nest.loop.body.statements.index(each.loops[-1]) for each in (a, b)]
    if inner[0] == inner[1]:
        order = "i1 < i2 and j1 > j2"
    elif inner[0] > inner[1]:
        order = "i1 < i2"  # the later loop of an early iteration: now it comes last
    else:
        return isl.Set("[n] -> { [i1, j1, i2, j2] : false }")
    conditions = " and ".join([*ranges, *equal, order])
    return isl.Set(f"[n] -> {{ [i1, j1, i2, j2] : {conditions} }}")


def is_legal(nest: LoopNest, builder: Builder) -> bool:
    return all(
        reordered(a, b, nest, builder).is_empty()
        for a in nest.accesses
        for b in nest.accesses
        if a.writes or b.writes
    )


@pytest.mark.parametrize("seed", sampled(range(900), 90))
def test_permuted_loops_keep_the_order_of_accesses_to_an_element(seed: int) -> None:
    nest, builder = of_seed(seed)
    permutation = Permutation(nest, lambda s: False)
    if permutation.unfit() is None and permutation.dependent() is None:
        assert is_legal(nest, builder)


def test_loops_that_may_be_permuted_mostly_are() -> None:
    """The legality test also asks that inner iterations stay independent, so it refuses more."""
    legal = allowed = 0
    for seed in range(300):
        nest, builder = of_seed(seed)
        if is_legal(nest, builder):
            legal += 1
            allowed += Permutation(nest, lambda s: False).dependent() is None
    assert 100 < legal < 290
    assert allowed > 0.4 * legal
