"""The programs of tests/corpus.py, by name: what is done to each, and how its text is made."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import linecache
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import calque
from battery.oracle import copied, leaves, rebuilt
from battery.registry import load, weights
from calque import cli

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "benchmarks")]

Texts = dict[str, Callable[[], str]]  # what is done to a program: how its text is made
Corpus = dict[str, Callable[[], Texts]]


@functools.cache
def programs() -> Corpus:
    """Every program of the corpus; its family is the first part of its name."""
    return {**golden(), **battery(), **benchmarks(), **random(), **lanes(), **compositions(), **devices()}


def of_function(fn: Callable[..., Any], args: tuple[Any, ...], moving: tuple[int, ...]) -> Texts:
    """Value, gradient, jvp and vmap of a function, and kernels; each text has arguments of its own."""

    texts: Texts = {
        "value": lambda: calque.source(fn, *copied(args)),
        "jit": lambda: text_of(calque.jit(fn), args),
    }
    if not moving:
        return texts
    tangents = tuple(rebuilt(arg, map(tangent, leaves(arg))) for arg in args)
    axes = tuple(0 if k in moving else None for k in range(len(args)))
    batch = tuple(batch_of(arg) if k in moving else arg for k, arg in enumerate(args))

    gradient = calque.value_and_grad(loss_of(fn, args), argnums=moving)

    def over_examples(of: Any) -> str:
        return text_of(calque.vmap(of, in_axes=axes), batch)

    return {
        **texts,
        "jvp": lambda: text_of(calque.jvp(fn), (*args, *tangents)),
        "vmap": lambda: over_examples(fn),
        "grad": lambda: text_of(gradient, args),
        "jit_grad": lambda: text_of(calque.jit(gradient), args),
        "vmap_grad": lambda: over_examples(gradient),
    }


def text_of(transformed: Any, args: tuple[Any, ...]) -> str:
    """The module that a call with these arguments would run; the call gets copies."""
    return str(transformed.program(*copied(args)).text)


# a scalar of what a function gives: each loss has code like no other's, which share programs
LOSS = """\
def loss(*given):
    "The loss {number}."
    result = fn(*given)
    return {scalar}
"""
SCALARS = {
    "array": "np.sum(result * weights[0])",
    "dict": "sum(np.sum(result[k] * w) for k, w in zip(sorted(result), weights))",
    "tuple": "sum(np.sum(part * w) for part, w in zip(result, weights))",
    "squares": "sum(np.sum(abs(part) ** 2) for part in (result if type(result) is tuple else (result,)))",
}
_numbered = itertools.count()


def loss_of(fn: Callable[..., Any], args: tuple[Any, ...], form: str = "") -> Callable[..., Any]:
    """A scalar of the function's result; where it gives none here, of any arrays that it may give."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            result = None if form else fn(*copied(args))
    except Exception:
        result = None
    kinds = {np.ndarray: "array", dict: "dict", tuple: "tuple", list: "tuple"}
    flat = not isinstance(result, dict | tuple | list) or len(leaves(result)) == len(result)
    if isinstance(result, float | np.floating):
        return fn
    form = form or (kinds.get(type(result), "squares") if flat else "squares")
    number = next(_numbered)
    text = LOSS.format(number=number, scalar=SCALARS[form])
    made = [weights(np.shape(leaf)) for leaf in leaves(result)]
    return executed(text, f"<loss {number}>", "loss", fn=fn, weights=made)


def tangent(leaf: Any) -> Any:
    """The leaf itself, or what stands for a tangent of what has none."""
    value = np.asarray(leaf)
    return leaf if value.dtype.kind in "fc" else np.zeros(value.shape, [("float0", "V")])


def batch_of(tree: Any) -> Any:
    """The leaves of three examples, stacked."""
    return rebuilt(tree, (np.stack([leaf] * 3) for leaf in leaves(tree)))


def golden() -> Corpus:
    """The output of `calque show` for each golden file, and a saved module where it has kernels."""
    import test_golden
    import test_golden_kernels

    def shown(command: list[str]) -> str:
        out = io.StringIO()
        before, search = Path.cwd(), sys.path.copy()
        os.chdir(ROOT)
        try:
            with contextlib.redirect_stdout(out):
                code = cli.main(command)
        finally:
            os.chdir(before)
            sys.path[:] = search
        return out.getvalue() if code == 0 else f"# exit code {code}\n"

    def saved(command: list[str]) -> str:
        """With all that its kernels call."""
        folder = Path(os.environ["CALQUE_CACHE"])
        shown([*command, "-o", str(folder / "saved.py")])
        return (folder / "saved.py").read_text(encoding="utf-8")

    found: Corpus = {}
    for name, case in test_golden.CASES.items():
        command = test_golden.command_of(*case)
        found[f"golden/{name}"] = functools.partial(lambda c: {"show": lambda: shown(c)}, command)
    for name, case in test_golden_kernels.CASES.items():
        command = test_golden.command_of(*case)
        found[f"golden/kernels/{name}"] = functools.partial(
            lambda c: {"show": lambda: shown(c), "save": lambda: saved(c)}, command
        )
    return found


def battery() -> Corpus:
    """The battery of the tests, with what it refuses."""
    return {
        f"battery/{p.family}/{p.name}": functools.partial(of_function, p.fn, p.fresh(), p.diff)
        for p in load()
    }


def benchmarks() -> Corpus:
    """The programs that are timed, with small arguments and with large ones."""
    import numpy_programs

    from cpu_work import cases, loop_cases

    def timed(p: Any, size: int) -> Texts:
        """The gradient is that of a loss, the value that of the program itself."""
        args = p.inputs(size)
        loss = loss_of(p.numpy, args, "squares")
        return {**of_function(loss, args, p.wrt), **of_function(p.numpy, args, ())}

    found: Corpus = {}
    for p in numpy_programs.PROGRAMS:
        for size in (p.small, p.large):
            found[f"benchmarks/{p.name}_{size}"] = functools.partial(timed, p, size)
    for c in loop_cases.CASES:
        for quick in (True, False):
            found[f"benchmarks/loops/{c.name}_{c.small if quick else c.large}"] = functools.partial(
                lambda c, quick: of_function(c.function, c.inputs(quick), c.wrt), c, quick
            )
    for k, case in enumerate([*cases.array_cases(quick=True), *cases.call_cases()]):
        found[f"benchmarks/arrays/{k}"] = functools.partial(of_function, case.ours, case.args, ())
    return found


def executed(text: str, name: str, function: str, **known: Any) -> Callable[..., Any]:
    """A function of a text that lives in memory alone."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {"np": np, **known}
    exec(compile(text, name, "exec"), namespace)
    made: Callable[..., Any] = namespace[function]
    return made


def random() -> Corpus:
    """Random programs, as the tests draw them."""
    from access_programs import Accesses
    from branch_programs import Program
    from random_columns import Columns
    from random_loops import Nest
    from random_nests import Nests
    from random_products import Products
    from random_programs import text as random_text
    from sharing_programs import Sharing

    def drawn(*shapes: Any) -> tuple[Any, ...]:
        rng = np.random.default_rng(5)
        return tuple(s if isinstance(s, float | int) else rng.uniform(-1.0, 1.0, s) for s in shapes)

    v, m = (5,), (5, 5)
    kinds: dict[str, tuple[Callable[[int], str], tuple[Any, ...], range]] = {
        "programs": (random_text, drawn(0.314, v, m), range(0, 500, 12)),
        "accesses": (lambda s: Accesses(s).text, drawn((6,), (9,), (4, 5)), range(1000, 1600, 20)),
        "branches": (lambda s: Program(s).text, drawn(v, v), range(0, 150, 5)),
        "columns": (lambda s: Columns(s).text(), drawn(v, v, m, m), range(0, 400, 14)),
        "loops": (lambda s: Nest(s).text(), drawn((13,), (13,), (13, 13), 2.0), range(30)),
        "nests": (lambda s: Nests(s).text(), drawn(m, m, v), range(0, 200, 7)),
        "products": (lambda s: Products(s).text(), drawn((6, 5), m, m, 2), range(30)),
        "sharing": (lambda s: Sharing(s).text, drawn(v, v, 1), range(0, 600, 20)),
    }

    def texts(kind: str, seed: int) -> Texts:
        text, args, _ = kinds[kind]
        body = text(seed)
        fn = executed(body, f"<{kind} {seed}>", "program" if "def program(" in body else "f")
        moving = tuple(k for k, a in enumerate(args) if not isinstance(a, int))
        return of_function(fn, args, moving)

    return {
        f"random/{kind}/{seed}": functools.partial(texts, kind, seed)
        for kind, (_, _, seeds) in kinds.items()
        for seed in seeds
    }


def lanes() -> Corpus:
    """Examples that go ways of their own: batched, as kernels, and differentiated."""
    import lane_programs

    def texts(case: Any) -> Texts:
        def batched() -> Any:
            return calque.vmap(case.fn, in_axes=case.axes)

        return {
            "vmap": lambda: text_of(batched(), case.args),
            "jit_vmap": lambda: text_of(calque.jit(batched()), case.args),
            "jvp_vmap": lambda: text_of(calque.jvp(batched()), (*case.args, *map(tangent, case.args))),
        }

    return {f"lanes/{n}": functools.partial(texts, c) for n, c in lane_programs.CASES.items()}


def compositions() -> Corpus:
    """Derivatives of derivatives of small programs."""
    from compositions.programs import PROGRAMS

    def texts(fn: Callable[..., Any], argument: Any) -> Texts:
        x = rebuilt(argument, map(np.asarray, leaves(argument))) if type(argument) is tuple else np.asarray(argument)
        g = calque.grad(loss_of(fn, (x,)))
        ways = {"jvp_grad": calque.jvp(g), "jacfwd_grad": calque.jacfwd(g), "jit_jacrev": calque.jit(calque.jacrev(g))}
        given = {"jvp_grad": (x, x)}
        return {w: lambda f=f, w=w: text_of(f, given.get(w, (x,))) for w, f in ways.items()}

    return {f"compositions/{n}": functools.partial(texts, *case) for n, case in PROGRAMS.items()}


def devices() -> Corpus:
    """Programs of several devices, and what starts them."""
    import device_programs

    def texts(fn: Any, args: tuple[Any, ...]) -> Texts:
        return {"source": lambda: calque.source(fn, *copied(args))}

    return {
        f"devices/{'_'.join(re.findall('[A-Za-z]+', name))}": functools.partial(texts, *case)
        for name, case in device_programs.cases().items()
    }
