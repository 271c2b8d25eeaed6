"""Measures of generated text: its length, the names that it invents, complaints about its style.

    python tests/text_measures.py        # the table, and where each complaint is
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import textwrap
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import corpus
import corpus_programs
import test_golden
import test_golden_cuda
import test_golden_kernels

from battery.registry import load

WIDEST = 88
DERIVED = re.compile(r"(_bar|_dot|_saved|_lanes)+$")
PLACE = re.compile(r"_\d+$")  # in a list of the user's, or among the calls of a function
VERSION = re.compile(r"_(new|next|[b-g])$")
# words that tell versions of a name apart, or parts of an array, without a meaning
VAGUE = re.compile(r"_(now|then|later|other|further|(?<!_of_)part)(?=_|$)|(?<!_kernel)(?<!\d)_\d+$")
INDEX_TWICE = re.compile(r"_([ijkl]{1,3})_\1(_|$)|_[ijkl]+_first$")
CARRIED = re.compile(r"^(carried|chosen)(_|$)")
COMPARED = re.compile(r"_(above|below|at_least|at_most|equal|unequal)_(minus_)?\d+(_\d+)?$")  # the user's number
SWEEP = re.compile(r"grad|hessian|jacrev|vjp|hvp")
# programs of the battery, a few of each family, and what is printed of them
BATTERY = {
    "grad": (
        *("soft_dtw", "viterbi_with_back_pointers", "fast_fourier_in_place", "floyd_warshall"),
        *("tiles_rolls_flips_pads", "augmented_arrays_on_copy", "nested_branches", "lstm"),
        *("elif_chain", "reversed_range", "mutual_recursion", "loop_carries_dict", "mlp_on_pytree"),
        *("nested_break_continue_return", "mandelbrot_escape", "trajectory_of_pairs", "history_in_a_while"),
        *("kalman_filter", "multi_head_causal_attention", "mlp_cross_entropy", "gaussian_mixture_log_likelihood"),
        *("conjugate_gradient", "thomas_algorithm", "cholesky_in_place", "gram_schmidt", "while_inside_for"),
        *("two_loops_in_sequence", "rk4_lorenz", "n_body", "lennard_jones_pairs", "ping_pong_buffers"),
        *("autoencoder",),
    ),
    "vmap_grad": ("nested_branches", "mandelbrot_escape", "kalman_filter", "thomas_algorithm", "rk4_lorenz"),
    "jit_grad": ("soft_dtw", "mlp_cross_entropy", "kalman_filter", "lennard_jones_pairs", "ping_pong_buffers"),
}


@dataclass
class Sample:
    """A generated text, the functions of the user's that it came from, and the names they gave."""

    name: str
    text: str
    primal: list[ast.FunctionDef]
    given: set[str]
    tree: ast.Module = field(init=False)
    functions: list[ast.FunctionDef] = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text)
        self.functions = [n for n in self.tree.body if isinstance(n, ast.FunctionDef)]


@cache
def cuda_samples() -> list[Sample]:
    """The golden modules of CUDA kernels: a launcher, and the text of its kernels."""
    found = []
    for name, (function, *_) in test_golden_cuda.CASES.items():
        text = test_golden_cuda.golden(name)
        found.append(Sample(f"cuda/{name}", text, *origin(test_golden_cuda.ROOT / "tests/cuda_programs.py", function)))
    return found


@cache
def samples() -> list[Sample]:
    """Golden files, golden kernels, and the programs of the battery."""
    found = []
    for module in (test_golden, test_golden_kernels):
        for name, (file, function, *_) in module.CASES.items():
            text = (module.GOLDEN / f"{name}.py").read_text(encoding="utf-8")
            found.append(Sample(f"{module.GOLDEN.name}/{name}", text, *origin(test_golden.ROOT / file, function)))
    programs = {p.name: p for p in load()}
    for what, names in BATTERY.items():
        for name in names:
            p = programs[name]
            text = corpus.made(corpus_programs.of_function(p.fn, p.fresh(), p.diff)[what])
            fn = inspect.unwrap(p.fn)
            found.append(Sample(f"battery/{name} {what}", text, *origin(Path(fn.__code__.co_filename), fn.__name__)))
    return found


def origin(file: Path, function: str) -> tuple[list[ast.FunctionDef], set[str]]:
    """A function with those of its file that it calls, and all names that they and the file give."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    known = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found, pending = [], [function]
    while pending:
        node = known.pop(pending.pop(0), None)
        if node is not None:
            found.append(node)
            pending += [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    return found, stored(found) | {n.id for node in found for n in ast.walk(node) if isinstance(n, ast.Name)}


def stored(nodes: list[ast.FunctionDef]) -> set[str]:
    """Arguments and everything assigned."""
    found = {item.arg for node in nodes for item in ast.walk(node) if isinstance(item, ast.arg)}
    for node in nodes:
        found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


# figures of a sample


def lines(sample: Sample) -> int:
    """Non-blank lines from the first function on, comments included."""
    text = sample.text[re.search(r"^(def |@)", sample.text, re.M).start():]
    return len([line for line in text.splitlines() if line.strip()])


def primal_lines(sample: Sample) -> int:
    return sum(node.end_lineno - node.lineno + 1 for node in sample.primal)


def statements(sample: Sample) -> int:
    """Those of the generated text."""
    inside = (i for node in sample.functions for i in ast.walk(node))
    return sum(isinstance(i, ast.stmt) for i in inside) - len(sample.functions)


def invented(sample: Sample) -> set[str]:
    """Names that are neither the user's nor the adjoint, tangent, store or lanes of one."""
    called = {node.name for node in sample.primal}
    stems = {n: PLACE.sub("", DERIVED.sub("", n)) for n in stored(sample.functions) - sample.given}
    return {n for n, stem in stems.items() if stem not in sample.given | called}


def is_gradient(sample: Sample) -> bool:
    return bool(SWEEP.search(sample.name + sample.functions[-1].name))


def launcher_lines(sample: Sample) -> float:
    """Statements of a launcher of CUDA kernels, without checks, for one of its launches."""
    launcher = sample.functions[-1]
    body = [s for s in launcher.body if not isinstance(s, ast.If | ast.Return)]
    launched = sum("kernel" in ast.unparse(s) or "of_parts" in ast.unparse(s) for s in body if isinstance(s, ast.Expr))
    return len(body) / max(launched, 1)


def names_in_kernels(sample: Sample) -> set[str]:
    """The names within the text of CUDA kernels, without the functions of the device."""
    kernels = re.findall(r'extern "C" __global__.*?\n}\n', sample.text, re.S)
    code = re.sub(r"//.*", "", "".join(kernels))
    return set(re.findall(r"[A-Za-z]\w*", code))


# complaints: each yields what it found, with its line


def vague_names(sample: Sample) -> Iterator[str]:
    """Names told apart by a word or a number without a meaning; ``w_1`` is one of several leaves."""
    names = invented(sample) | (names_in_kernels(sample) - sample.given)
    for n in sorted(names):
        if CARRIED.search(n) or (VAGUE.search(n) and not COMPARED.search(n) and not is_leaf(n, sample)):
            yield n


def is_leaf(name: str, sample: Sample) -> bool:
    """True for ``w_0`` of a list ``w``, and for what is made of it: some name ends so from 0 on."""
    stem, number = DERIVED.sub("", name).rpartition("_")[::2]
    last = stem.rpartition("_")[2]
    if name in re.findall(r"\w+_kernel_\d+", sample.text):
        return True
    if f"{last}[{number}]" in sample.text:
        return True
    return number.isdigit() and any(f"{part}_0" in sample.text for part in (stem, last))


def indices_twice(sample: Sample) -> Iterator[str]:
    """Names that repeat an index, as ``x_ij_ij``, or name the place in an axis of size 1."""
    names = invented(sample) | (names_in_kernels(sample) - sample.given)
    yield from sorted(n for n in names if INDEX_TWICE.search(n))


def without_phases(sample: Sample) -> Iterator[str]:
    """Gradients whose text has no reverse phase."""
    if is_gradient(sample) and not re.search("(#|//) (forward and )?reverse", sample.text):
        yield "no phase"


def without_quotes(sample: Sample) -> Iterator[str]:
    """The first lines of reverse phases that stand under no statement of the user's."""
    for phase in re.findall(r"^ +(?:#|//) reverse\n((?: .*\n|\n)*)", sample.text, re.M):
        first = phase.strip().split("\n")[0].strip()
        if not re.match("#|//|for|while|if|return", first):
            yield first


def versions(sample: Sample) -> Iterator[str]:
    """Names told apart by a suffix that says nothing."""
    yield from sorted(n for n in invented(sample) if VERSION.search(n))


def minus_after_plus(sample: Sample) -> Iterator[str]:
    """``a + -b``."""
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(sample.text).readline):
        if token.string == "-" and before in ("+", "+="):
            yield token.line.strip()
        before = token.string if token.type == tokenize.OP else ""


def sums_written_out(sample: Sample) -> Iterator[str]:
    """``x = x + y`` that the user did not write; of an argument, ``+=`` would change the caller's array."""
    written = {ast.dump(n) for node in sample.primal for n in ast.walk(node) if isinstance(n, ast.Assign)}
    for function in sample.functions:
        given = {a.arg for a in function.args.args}
        for node in (n for n in ast.walk(function) if isinstance(n, ast.Assign)):
            value, place = node.value, node.targets[0]
            if isinstance(place, ast.Name) and isinstance(value, ast.BinOp) and ast.dump(node) not in written:
                sides = [value.left, *[value.right] * isinstance(value.op, ast.Add | ast.Mult)]
                if any(isinstance(s, ast.Name) and s.id == place.id for s in sides) and place.id not in given:
                    yield ast.unparse(node)


def multiples_of_one(sample: Sample) -> Iterator[str]:
    """A product with 1, or with an adjoint that is 1 throughout."""
    for function in sample.functions:
        bound = Counter(n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        ones = {
            n.targets[0].id for n in ast.walk(function)
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and is_one(n.value)
            and bound[n.targets[0].id] == 1
        }  # fmt: skip
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                sides = (node.left, node.right)
                if any(is_one(s) or (isinstance(s, ast.Name) and s.id in ones) for s in sides):
                    yield ast.unparse(node)


def is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == 1


def long_lines(sample: Sample) -> Iterator[str]:
    """Lines of more than 88 columns, but for what heads the file."""
    first = sample.functions[0].lineno
    yield from (line for line in sample.text.splitlines()[first - 1:] if len(line) > WIDEST)


def sizes_of_computed(sample: Sample) -> Iterator[str]:
    """``(a ** 2).size``."""
    for node in every(sample, ast.Attribute):
        if node.attr in ("size", "shape") and isinstance(node.value, ast.BinOp | ast.UnaryOp | ast.Call):
            yield ast.unparse(node)


def adjoints_in_forward(sample: Sample) -> Iterator[str]:
    """Yield the lines that define adjoints under ``# forward`` or under no phase at all."""
    text = sample.text.splitlines()
    for function in sample.functions:
        phase = ""
        for number in range(function.lineno, function.end_lineno + 1):
            line = text[number - 1].strip()
            phase = line.removeprefix("# ") if re.fullmatch("# (forward|first derivative|reverse|forward and reverse)", line) else phase
            names = re.match(r"(for |if |while |#)", line) is None and re.match(r"[\w, ]*_bar(?=[ ,])[\w, ]* [+-]?= ", line)
            if names and phase in ("", "forward"):
                yield line


def read_underscores(sample: Sample) -> Iterator[str]:
    """``_`` as a value."""
    for node in every(sample, ast.Name):
        if node.id == "_" and isinstance(node.ctx, ast.Load):
            yield f"line {node.lineno}"


def every(sample: Sample, kind: type) -> Iterator[Any]:
    return (n for function in sample.functions for n in ast.walk(function) if isinstance(n, kind))


COMPLAINTS: dict[str, Callable[[Sample], Iterator[str]]] = {
    "names told apart by nothing": vague_names,
    "names that repeat an index": indices_twice,
    "gradients without phases": without_phases,
    "reverse phases that quote nothing": without_quotes,
    "names that end in _new, _next, _b to _g": versions,
    "+ -": minus_after_plus,
    "x = x + y": sums_written_out,
    "products with a known 1": multiples_of_one,
    "lines over 88 columns": long_lines,
    "sizes of computed arrays": sizes_of_computed,
    "adjoints outside of `# reverse`": adjoints_in_forward,
    "_ that is read": read_underscores,
}


@cache
def figures() -> dict[str, float]:
    """Every figure over all samples."""
    all_of_them = samples()
    ratios = [lines(s) / primal_lines(s) for s in all_of_them]
    gradients = [lines(s) / primal_lines(s) for s in all_of_them if is_gradient(s) and "jit" not in s.name and "kernels" not in s.name]
    launchers = [launcher_lines(s) for s in cuda_samples()]
    names = sum(len(invented(s)) for s in all_of_them)
    return {
        "lines for one of the primal's": sum(ratios) / len(ratios),
        "lines of a gradient for one of the primal's": sum(gradients) / len(gradients),
        "a launcher's statements for a CUDA kernel": max(launchers),
        "invented names a statement": names / sum(map(statements, all_of_them)),
        **{what: sum(len([*found(s)]) for s in complained_of(what)) for what, found in COMPLAINTS.items()},
    }


def complained_of(what: str) -> list[Sample]:
    """The samples that a complaint is looked for in."""
    return [*samples(), *(cuda_samples() if what in ALSO_CUDA else [])]


ALSO_CUDA = {"names told apart by nothing", "names that repeat an index", "gradients without phases"}


def main() -> None:
    for what, found in COMPLAINTS.items():
        if re.search(sys.argv[1] if len(sys.argv) > 1 else "", what):
            print(f"\n{what}")
            for s in complained_of(what):
                for one in found(s):
                    print(textwrap.shorten(f"  {s.name}: {one}", 150))
    for what, figure in figures().items():
        print(f"{figure:8.2f}  {what}")


if __name__ == "__main__":
    main()
