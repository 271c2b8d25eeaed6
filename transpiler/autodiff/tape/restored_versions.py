"""Versions of an array that is only stored into, and the Vars that hold them when restored."""

from __future__ import annotations

from collections.abc import Mapping

from calque.transpiler.ir import core
from calque.transpiler.ir.builder import Array
from calque.transpiler.ir.core import Apply, Atom, Block, For, If, Statement, Var, While
from calque.transpiler.ir.versions import Versions


def use_versions(
    block: Block, versions: Mapping[Var, Atom], done: dict[int, Apply] | None = None
) -> None:
    """Replace each version by the Var it was restored into, after that Var's definition.

    Operations in ``done``, by id, are already replaced.
    """
    if not versions:
        return
    done = {} if done is None else done
    here = {o for s in block.statements for o in s.outs}
    waiting: dict[Var, list[Var]] = {}
    active: dict[Var, Atom] = {}
    for version, now in versions.items():
        if now in here:
            waiting.setdefault(now, []).append(version)
        else:
            active[version] = now
    for s in block.statements:
        if id(s) not in done:
            core.substitute(Block([s]), active)
            if isinstance(s, Apply):
                done[id(s)] = s
        for out in s.outs:
            if out in waiting:
                active.update(dict.fromkeys(waiting[out], out))
    rest = Block([], block.results)
    core.substitute(rest, active)
    block.results = rest.results


def current_versions(restored: dict[Var, Array]) -> dict[Var, Var]:
    """For each restored version, the Var that holds it at the end."""
    direct = {v: a.atom for v, a in restored.items()}
    closed = {}
    for version, now in direct.items():
        while now in direct and direct[now] is not now:
            now = direct[now]
        if now is not version:
            closed[version] = now
    return closed


def source_of_branch(s: If, position: int) -> Var | None:
    """The version before a branch, if its arms only store into the array; else None."""
    return Versions.within(Block([s])).before(s.outs[position])


def _chain(block: Block, result: Atom) -> tuple[Var, set[Var]] | None:
    """Follow stores back from a result to an outer Var; return it and the versions passed."""
    versions = Versions.within(block)
    start = versions.start(block, result)
    if start is None:
        return None
    return start, {v for v in versions.earlier(result) if isinstance(v, Var)} - {start}


def restorable_versions(s: For | While, k: int) -> set[Var] | None:
    """The versions of carried array ``k``, if the loop only stores into it; else None."""
    chain = _chain(s.body, s.body.results[k])
    if chain is None or chain[0] is not s.phis[k]:
        return None
    return chain[1] | {s.phis[k]}


def versions_after(
    s: Statement, version: Var, within: bool
) -> tuple[Var, set[Var]] | None:
    """The array that a statement computes from a version by stores alone, and earlier versions.

    The version is one ``within`` the statement, or the one that it starts from.
    """
    match s:
        case Apply():
            if s.primitive.kind == "store" and s.args[0] is version:
                return s.outs[0], {version}
        case For() | While():
            for k, out in enumerate(s.outs):
                if out.type.ndim and (within or s.inits[k] is version):
                    versions = restorable_versions(s, k)
                    if versions is not None and (not within or version in versions):
                        return out, versions
        case If():
            for k, out in enumerate(s.outs):
                if not out.type.ndim:
                    continue
                chains = [_chain(arm, arm.results[k]) for arm in (s.then, s.orelse)]
                for chain in chains if within else ():
                    if chain is not None and version in chain[1]:
                        return out, chain[1]
                if not within and source_of_branch(s, k) is version:
                    return out, {version}.union(*(chain[1] for chain in chains if chain))
    return None


def shape_source(block: Block) -> dict[Var, Var]:
    """For each version of an array in the block, the last one: its shape is always available."""
    following: dict[Var, Var] = {}
    for s in block.statements:
        match s:
            case Apply(primitive=primitive) if primitive.kind == "store":
                if isinstance(s.args[0], Var):
                    following[s.args[0]] = s.outs[0]
            case For() | While():
                for init, out in zip(s.inits, s.outs, strict=True):
                    if isinstance(init, Var) and init.type.ndim and init.type.dims == out.type.dims:
                        following[init] = out
    last: dict[Var, Var] = {}
    for var in following:
        end = var
        while end in following:
            end = following[end]
        last[var] = end
    return last
