"""Random functional Core: several live versions, views, loops that permute, branches, effects."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array, Builder, atom
from calque.transpiler.ir.core import Slot, Var
from calque.transpiler.ir.types import BOOL, INT, ArrayType
from calque.transpiler.ir.verify import verify
from calque.transpiler.primitives.record import PRIMITIVES

F8 = np.dtype("f8")
KINDS = {"s": ArrayType(F8), "v": ArrayType(F8, (4,)), "m": ArrayType(F8, (3, 4))}
POOL = ["a", "b", "u", "s", "t", None, None, None, None]
Env = dict[str, list[Any]]


class Maker:
    """Writes one random program; ``size`` bounds the statements of a block."""

    def __init__(self, seed: int, size: int = 8):
        self.rng = random.Random(seed)
        self.size = size
        self.builder = Builder([])

    def function(self) -> core.Function:
        rng = self.rng
        kinds = ["v", "m", "s"] + rng.choices("vms", k=rng.randrange(2))
        params = [Var(KINDS[k], f"{k}{'xyzwp'[i]}") for i, k in enumerate(kinds)]
        env: Env = {"s": [0.5], "v": [], "m": [], "i": [0, 2]}
        for kind, param in zip(kinds, params, strict=True):
            env[kind].append(param)
        with self.builder.active():
            block = self.block(env, 0, self.size)
        count = rng.randrange(1, 4)
        block.results = [*env["v"][-count:], *env["m"][-count:], self.pick(env, "s")]
        result = tuple(Slot(k) for k in range(len(block.results)))
        signature = [core.Parameter(p.name, p) for p in params]
        made = core.Function("f", params, block, result, signature)
        verify(made)
        return made

    def pick(self, env: Env, kind: str) -> Any:
        """One of the values of a kind; recent ones more often."""
        values = env[kind]
        recent = values[-4:] if self.rng.random() < 0.7 else values
        return self.rng.choice(recent)

    def block(self, env: Env, depth: int, size: int) -> core.Block:
        """A block that adds its values to ``env``."""
        with self.builder.block() as block:
            for _ in range(self.rng.randrange(1, size + 1)):
                self.statement(env, depth)
        return block

    def apply(self, env: Env, kind: str, primitive: str, *args: Any, **params: Any) -> Any:
        wrapped = [Array(a) if isinstance(a, Var) else a for a in args]
        out = atom(self.builder.apply(PRIMITIVES[primitive], wrapped, params))
        out.name = self.rng.choice(POOL)
        env[kind].append(out)
        return out

    def statement(self, env: Env, depth: int) -> None:
        moves = [self.compute] * 4 + [self.read] * 3 + [self.store] * 6 + [self.through] * 2
        moves += [self.number, self.in_place, self.in_place, self.show]
        if depth < 2:
            moves += [self.branch, self.branch, self.loop, self.loop, self.loop, self.repeat]
        move = self.rng.choice(moves)
        if move in (self.branch, self.loop, self.repeat):
            move(env, depth)
        else:
            move(env)

    def compute(self, env: Env) -> None:
        kind = self.rng.choice("vvm")
        left, right = self.pick(env, kind), self.pick(env, self.rng.choice(["s", "v", kind]))
        match self.rng.randrange(5):
            case 0:
                self.apply(env, kind, "np.sin", left)
            case 1:
                self.apply(env, kind, "copy", left)
            case 2:
                self.apply(env, "v", "np.broadcast_to", self.pick(env, "s"), 4)
            case _:
                name = self.rng.choice(["np.add", "np.subtract"])
                total = self.apply(env, kind, name, left, right)
                if isinstance(left, Var) and self.rng.random() < 0.6:
                    left.name = left.name or "total"
                    total.name = left.name

    def number(self, env: Env) -> None:
        if self.rng.random() < 0.4:
            source = self.pick(env, self.rng.choice("vm"))
            self.apply(env, "s", "np.sum", source, axis=None, keepdims=False)
            return
        left, right = self.pick(env, "s"), self.pick(env, "s")
        if isinstance(left, Var):
            self.apply(env, "s", self.rng.choice(["np.add", "np.multiply"]), left, right)
            self.apply(env, "s", "np.sin", env["s"][-1])

    def index(self, env: Env, top: int) -> tuple[Any, list[Any]]:
        i = self.pick(env, "i")
        if isinstance(i, Var):
            return (Slot(0), [i]) if top == 4 else (1, [])
        return min(i, top - 1), []

    def read(self, env: Env) -> None:
        match self.rng.randrange(6):
            case 0:
                item, dynamic = self.index(env, 4)
                self.apply(env, "s", "getitem", self.pick(env, "v"), *dynamic, index=(item,))
            case 1:
                matrix, row = self.pick(env, "m"), self.rng.randrange(3)
                self.apply(env, "v", "getitem", matrix, index=(row,))
            case 2:
                flip = (slice(None, None, -1),)
                self.apply(env, "v", "getitem", self.pick(env, "v"), index=flip)
            case 3:
                turned = self.apply(
                    {"x": []}, "x", "np.transpose", self.pick(env, "m"), axes=(1, 0)
                )
                column = self.rng.randrange(3)
                self.apply(env, "v", "getitem", turned, index=(slice(None), column))
            case 4:
                self.apply(env, "v", "np.reshape", self.pick(env, "v"), 4)
            case _:
                flip = (slice(None), slice(None, None, -1))
                self.apply(env, "m", "getitem", self.pick(env, "m"), index=flip)

    def store(self, env: Env) -> None:
        primitive = self.rng.choice(["update", "update", "update_add", "add_at"])
        scalar, vector = self.pick(env, "s"), self.pick(env, "v")
        match self.rng.randrange(5):
            case 0 | 1:
                item, dynamic = self.index(env, 4)
                base = self.pick(env, "v")
                self.apply(env, "v", primitive, base, scalar, *dynamic, index=(item,))
            case 2:
                primitive = "update_add" if primitive == "add_at" else primitive
                where = self.rng.choice([slice(None), slice(None, None, -1)])
                self.apply(env, "v", primitive, self.pick(env, "v"), vector, index=(where,))
            case 3:
                row = self.rng.randrange(3)
                self.apply(env, "m", primitive, self.pick(env, "m"), vector, index=(row,))
            case _:
                where = (slice(1, 3), slice(None))
                self.apply(env, "m", primitive, self.pick(env, "m"), vector, index=where)

    def through(self, env: Env) -> None:
        """A store through a view, written back."""
        base, index = self.pick(env, "m"), (self.rng.randrange(3),)
        now = self.apply(env, "v", "getitem", base, index=index)
        for _ in range(self.rng.randrange(1, 3)):
            value, item = self.pick(env, "s"), self.rng.randrange(4)
            now = self.apply({"v": []}, "v", "update", now, value, index=(item,))
        self.apply(env, "m", "update", base, now, index=index)

    def in_place(self, env: Env) -> None:
        """``x[i] = x[i] * v``."""
        base, (item, dynamic) = self.pick(env, "v"), self.index(env, 4)
        old = self.apply({"x": []}, "x", "getitem", base, *dynamic, index=(item,))
        new = self.apply({"x": []}, "x", "np.multiply", old, self.pick(env, "s"))
        old.name = new.name = None
        self.apply(env, "v", "update", base, new, *dynamic, index=(item,))

    def show(self, env: Env) -> None:
        self.builder.emit(core.Effect("print({0})", (self.pick(env, "s"),)))

    # blocks

    def test(self, env: Env) -> Var:
        out = self.apply({"x": []}, "x", "np.greater", self.scalar_var(env), 0.1)
        out.name = None
        return out

    def scalar_var(self, env: Env) -> Var:
        found = [a for a in env["s"] if isinstance(a, Var)]
        if found:
            return self.rng.choice(found)
        source = self.pick(env, "v")
        return self.apply(env, "s", "np.sum", source, axis=None, keepdims=False)

    def outs(self, kinds: list[str], env: Env) -> tuple[Var, ...]:
        made = []
        for kind in kinds:
            made.append(Var(KINDS[kind], self.rng.choice(POOL)))
            env[kind].append(made[-1])
        return tuple(made)

    def branch(self, env: Env, depth: int) -> None:
        test = self.test(env)
        kinds = self.rng.choices("svm", k=self.rng.randrange(1, 3))
        arms = []
        for _ in range(2):
            inner = {k: list(v) for k, v in env.items()}
            arm = self.block(inner, depth + 1, 3) if self.rng.random() < 0.7 else core.Block()
            arm.results = [self.pick(inner, k) for k in kinds]
            arms.append(arm)
        self.builder.emit(core.If(self.outs(kinds, env), test, *arms))

    def carried(self, env: Env) -> tuple[list[str], tuple[Any, ...], tuple[Var, ...], Env]:
        kinds = self.rng.choices("svvm", k=self.rng.randrange(1, 4))
        inits = tuple(self.pick(env, k) for k in kinds)
        phis = tuple(Var(KINDS[k], self.rng.choice(POOL)) for k in kinds)
        inner = {k: list(v) for k, v in env.items()}
        for kind, phi in zip(kinds, phis, strict=True):
            inner[kind].append(phi)
        return kinds, inits, phis, inner

    def loop(self, env: Env, depth: int) -> None:
        kinds, inits, phis, inner = self.carried(env)
        index = Var(INT, self.rng.choice(["i", "j", None]))
        inner["i"].append(index)
        self.builder.dim_values[index] = self.builder.dims.fresh()
        body = self.block(inner, depth + 1, 4)
        body.results = [self.pick(inner, k) for k in kinds]
        stop = self.rng.choice([0, 1, 3, 4])
        outs = self.outs(kinds, env)
        self.builder.emit(core.For(outs, index, 0, stop, 1, phis, inits, body))

    def repeat(self, env: Env, depth: int) -> None:
        kinds, inits, phis, inner = self.carried(env)
        count = Var(INT, self.rng.choice(["count", None]))
        with self.builder.active(), self.builder.block() as test:
            less = self.apply({"x": []}, "x", "np.less", count, self.rng.choice([0, 2, 3]))
            less.name = None
            if self.rng.random() < 0.3:
                self.show({"s": [phi for phi, k in zip(phis, kinds) if k == "s"] or [0.5]})
        test.results = [less]
        body = self.block(inner, depth + 1, 4)
        with self.builder.block() as tail:
            more = self.apply({"x": []}, "x", "np.add", count, 1)
        body.statements += tail.statements
        body.results = [*[self.pick(inner, k) for k in kinds], more]
        outs = (*self.outs(kinds, env), Var(INT, None))
        self.builder.emit(core.While(outs, (*phis, count), (*inits, 0), test, body))


def arguments(function: core.Function, seed: int) -> list[Any]:
    """Values for the parameters."""
    rng = np.random.default_rng(seed)
    made = [rng.uniform(-1, 1, tuple(p.type.dims)) for p in function.params]
    return [m if m.ndim else np.float64(m) for m in made]


__all__ = ["BOOL", "Maker", "arguments"]
