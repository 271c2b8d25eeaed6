"""The versions of arrays: every question, on programs in the text of Core and on random ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from sampling import sampled

from calque.transpiler.diagnostics.parsing import parse
from calque.transpiler.ir import core
from calque.transpiler.ir.core import UNDEFINED, Apply, Block, For, If, Var, While
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.ir.versions import Versions, of_nothing, of_plain_stores
from calque.transpiler.primitives.creation import zeros
from calque.transpiler.primitives.indexing import update

NESTED = """
f(x: float64[n], c: bool, n: int)
    a: float64[n] = update(x, 1.0, index=(0,))
    b: float64[n] = for i in range(0, n, 1) carrying b1: float64[n] = a:
        b2: float64[n] = if c:
            b3: float64[n] = update(b1, 2.0, i, index=(Slot(position=0),))
            yield b3
        else:
            b4: float64[n] = for j in range(0, n, 1) carrying b5: float64[n] = b1:
                b6: float64[n] = update_add(b5, 1.0, j, index=(Slot(position=0),))
                yield b6
            yield b4
        yield b2
    d: float64[n] = np.negative(b)
    e: float64[n] = update(d, 0.0, index=(1,))
    yield b, e
"""


class Named:
    """A program, its versions, and its Vars by their names."""

    def __init__(self, text: str, **options: Any) -> None:
        self.function, _ = parse(text)
        self.versions = Versions.within(self.function.body, **options)
        everything = {*self.function.params, *core.defined_vars(self.function.body)}
        self.vars = {v.name: v for v in everything}

    def __getitem__(self, name: str) -> Var:
        return self.vars[name]

    def names(self, atoms: Any) -> list[Any]:
        return [a.name if isinstance(a, Var) else a for a in atoms]

    def earlier(self, name: str, *until: str) -> list[Any]:
        return self.names(self.versions.earlier(self[name], {self[u] for u in until}))

    def origins(self, name: str) -> list[Any]:
        return self.names(self.versions.origins(self[name]))

    def later(self, name: str, *without: str) -> set[Any]:
        return {*self.names(self.versions.later(self[name], without={self[w] for w in without}))}

    def before(self, name: str) -> str | None:
        found = self.versions.before(self[name])
        return None if found is None else found.name


def test_a_nest_of_loops_and_branches() -> None:
    p = Named(NESTED)
    line = {"x", "a", "b", "b1", "b2", "b3", "b4", "b5", "b6"}
    assert {*p.earlier("b")} == line == p.later("x")
    assert p.earlier("a") == ["a", "x"]
    assert p.origins("b") == ["x"] and p.origins("e") == ["d"]
    assert [p.before(name) for name in ("a", "b", "b2", "b4", "e")] == ["x", "a", "b1", "b1", "d"]
    assert p.before("d") is None and p.before("b1") is None and p.before("x") is None
    assert p.later("d") == {"d", "e"} and p.later("e") == {"e"}
    assert {v.name for v in p.versions.family(p["b5"])} == line
    assert {v.name for v in p.versions.family(p["e"])} == {"d", "e"}
    assert p.versions.family(p["n"]) == {p["n"]}


def test_ways_may_be_closed() -> None:
    p = Named(NESTED)
    assert {*p.earlier("b", "b1")} == {"b", "b1", "a", "x", "b2", "b3", "b4", "b5", "b6"}
    assert p.earlier("b2", "b1", "b5") == ["b2", "b3", "b1", "b4", "b5", "b6"]
    assert p.later("a", "b") == {"a", "b1", "b2", "b3", "b4", "b5", "b6"}
    assert p.later("b1", "b2", "b5") == {"b1", "b3", "b4", "b"}


def test_the_version_on_entry_to_a_block() -> None:
    p = Named(NESTED)
    (loop,) = (s for s in p.function.body.statements if isinstance(s, For))
    assert p.versions.start(loop.body, p["b2"]) is p["b1"]
    assert p.versions.start(loop.body, p["b1"]) is p["b1"]
    assert p.versions.start(p.function.body, p["b"]) is p["x"]
    assert p.versions.start(p.function.body, p["e"]) is None  # d is made anew
    assert p.versions.start(p.function.body, UNDEFINED) is None


def test_only_stores_count() -> None:
    p = Named(NESTED, taken=of_nothing)
    assert p.earlier("a") == ["a"] and p.before("a") is None
    assert p.origins("b") == ["a", "b3", "b6"]
    assert p.before("b") is None


def test_carried_arrays_that_change_places() -> None:
    p = Named("""
f(x: float64[n], y: float64[n], n: int)
    a: float64[n], b: float64[n] = for i in range(0, n, 1) carrying a1: float64[n] = x, b1: float64[n] = y:
        a2: float64[n] = update(a1, 0.0, i, index=(Slot(position=0),))
        yield b1, a2
    yield a, b
""")
    assert {*p.origins("a")} == {*p.origins("b")} == {"x", "y"}
    assert p.before("a") is None and p.before("b") is None
    assert p.later("y") == {"y", "a", "b", "a1", "b1", "a2"}


def test_one_array_carried_twice_has_one_origin_but_no_version_before() -> None:
    p = Named("""
f(x: float64[n], n: int)
    a: float64[n], b: float64[n] = for i in range(0, n, 1) carrying a1: float64[n] = x, b1: float64[n] = x:
        a2: float64[n] = update(a1, 0.0, i, index=(Slot(position=0),))
        yield b1, a2
    yield a, b
""")
    assert p.origins("a") == ["x"] and p.before("a") is None


def test_arms_that_go_on_with_different_versions() -> None:
    p = Named("""
f(x: float64[n], c: bool)
    a: float64[n] = update(x, 0.0, index=(0,))
    b: float64[n] = if c:
        yield a
    else:
        yield x
    d: float64[n] = if c:
        d1: float64[n] = update(a, 0.0, index=(1,))
        yield d1
    else:
        yield a
    yield b, d
""")
    assert p.before("b") is None and p.origins("b") == ["x"]
    assert p.before("d") == "a"
    assert p.versions.start(p.function.body, p["b"]) is None


def test_a_loop_that_has_no_array_before_it() -> None:
    text = """
f(x: float64[n], k: int, n: int)
    a: float64[n] = for i in range(0, k, 1) carrying a1: float64[n] = undefined:
        a2: float64[n] = update(x, 0.0, index=(0,))
        yield a2
    b: float64[n] = update(a, 1.0, index=(0,))
    yield b
"""
    p = Named(text, taken=of_nothing)
    assert {*p.names(p.versions.later(UNDEFINED))} == {UNDEFINED, "a", "a1"}
    p = Named(text)
    assert {*p.origins("b")} == {UNDEFINED, "x"} and p.before("a") is None


def test_stores_in_a_row() -> None:
    p = Named("""
f(x: float64[n], c: bool)
    a: float64[n] = update(x, 0.0, index=(0,))
    b: float64[n] = update_add(a, 1.0, index=(1,))
    d: float64[n] = if c:
        yield b
    else:
        yield x
    e: float64[n] = update(d, 2.0, index=(0,))
    g: float64[n] = update(e, 0.0, index=(0,))
    yield g
""")
    assert [s.out.name for s in p.versions.stores(p["b"])] == ["b", "a"]
    assert [s.out.name for s in p.versions.stores(p["g"])] == ["g", "e"]
    assert p.versions.stores(p["d"]) == [] == p.versions.stores(UNDEFINED)


def test_room_for_more_is_no_plain_store() -> None:
    text = """
f(x: float64[n], k: int)
    a: float64[m] = room(x, k)
    b: float64[m] = update(a, 0.0, k, index=(Slot(position=0),))
    yield b
"""
    p = Named(text)
    assert p.origins("b") == ["x"] and p.names(s.out for s in p.versions.stores(p["b"])) == ["b", "a"]
    assert Named(text, taken=of_plain_stores).origins("b") == ["a"]


def test_views_are_followed_if_asked_for() -> None:
    text = """
f(x: float64[n, m])
    a: float64[m, n] = np.transpose(x, axes=(1, 0))
    b: float64[m, n] = update(a, 0.0, index=(0, 0))
    yield b
"""

    def taken(s: Apply) -> tuple[Any, ...]:
        return s.args[:1]

    assert Named(text).origins("b") == ["a"]
    assert Named(text, taken=taken).origins("b") == ["x"]


def test_statements_are_asked_anew() -> None:
    p = Named(NESTED)
    (store,) = (s for s in p.function.body.statements if isinstance(s, Apply) and s.out is p["e"])
    store.args = (p["x"], *store.args[1:])
    assert p.origins("e") == ["x"] and p.before("e") == "x"


# random programs, run: each array has a mark of its own, which its later versions keep

ARRAY = ArrayType(np.dtype(float), (3,))
FLAG = ArrayType(np.dtype(bool), ())


class Maker:
    """Writes random programs of stores, new arrays, branches and loops."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)

    def block(self, known: list[Var], depth: int) -> tuple[Block, list[Var]]:
        block, known = Block(), list(known)
        for _ in range(self.pick.randint(1, 4)):
            block.statements.append(self.statement(known, depth))
            known += block.statements[-1].outs
        return block, known

    def statement(self, known: list[Var], depth: int) -> Any:
        kind = self.pick.choice(["store", "store", "store", "new"] + ["if", "for", "while"] * (depth > 0))
        if kind == "new":
            return Apply((Var(ARRAY),), zeros, (3,), {})
        if kind == "store":
            return Apply((Var(ARRAY),), update, (self.pick.choice(known[-4:]), 1.0), {"index": (0,)})
        count = self.pick.randint(1, 2)
        outs = tuple(Var(ARRAY) for _ in range(count))
        if kind == "if":
            arms = [self.block(known, depth - 1) for _ in range(2)]
            for arm, there in arms:
                arm.results = [self.result(there) for _ in range(count)]
            return If(outs, Var(FLAG), arms[0][0], arms[1][0])
        phis = tuple(Var(ARRAY) for _ in range(count))
        inits = tuple(self.result(known) for _ in range(count))
        body, there = self.block([*known, *phis], depth - 1)
        body.results = [self.result(there) for _ in range(count)]
        if kind == "for":
            return For(outs, Var(FLAG), 0, 3, 1, phis, inits, body)
        return While(outs, phis, inits, Block([], [True]), body)

    def result(self, known: list[Var]) -> Var:
        return self.pick.choice(known[-3:])


class Machine:
    """Runs a program; a value is the mark of its array, and the list of stores into it."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.now: dict[Any, Any] = {}
        self.seen: list[tuple[Var, Any, dict[Any, Any]]] = []

    def block(self, block: Block) -> list[Any]:
        for s in block.statements:
            before = dict(self.now)
            self.statement(s)
            self.seen += [(out, self.now[out], before) for out in s.outs]
        return [self.now[a] for a in block.results]

    def statement(self, s: Any) -> None:
        match s:
            case Apply() if s.primitive is zeros:
                self.now[s.out] = (s.out, ())
            case Apply():
                mark, stores = self.now[s.args[0]]
                self.now[s.out] = (mark, (*stores, object()))
            case If():
                values = self.block(self.pick.choice([s.then, s.orelse]))
                self.now |= zip(s.outs, values)
            case For() | While():
                values = [self.now[a] for a in s.inits]
                for _ in range(self.pick.randint(0, 3)):
                    self.now |= zip(s.phis, values)
                    self.seen += [(p, self.now[p], {}) for p in s.phis]
                    values = self.block(s.body)
                self.now |= zip(s.outs, values)


@pytest.mark.parametrize("seed", sampled(range(600), 150))
def test_what_runs_agrees(seed: int) -> None:
    params = [Var(ARRAY, "x"), Var(ARRAY, "y")]
    body, known = Maker(seed).block(params, 3)
    versions = Versions.within(body)
    families = {v: versions.family(v) for v in known}
    for chance in range(12):
        machine = Machine(chance)
        machine.now = {p: (p, ()) for p in params}
        machine.block(body)
        for var, (mark, stores), then in machine.seen:
            assert mark in {*versions.origins(var)}
            assert var in versions.later(mark)
            assert mark in families.get(var, versions.family(var))
            source = versions.before(var)
            if source is not None and then:  # the same array, with what was in it, and more
                first, held = then[source]
                assert first is mark and stores[: len(held)] == held


def test_what_no_path_leads_to_is_not_found() -> None:
    """In straight code, exactly the versions of the same array are found."""
    for seed in range(60):
        params = [Var(ARRAY, "x"), Var(ARRAY, "y")]
        body, known = Maker(seed).block(params, 0)
        machine = Machine(seed)
        machine.now = {p: (p, ()) for p in params}
        machine.block(body)
        versions = Versions.within(body)
        for var in known:
            (mark, _) = machine.now[var]
            assert [*versions.origins(var)] == [mark]
            assert {*versions.family(var)} == {v for v in known if machine.now[v][0] is mark}
