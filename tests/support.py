"""Writes docs/support.md and docs/support-scipy.md: ``python tests/support.py``, from the root.

Every public function of NumPy is called once, as ``support_examples`` says, under calque: its value
is compared with NumPy's, forward and reverse mode with differences, ``vmap`` with a loop.
"""

from __future__ import annotations

import importlib
import linecache
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import support_examples as examples
import support_families
import support_linalg
import support_special
import support_stats
from scipy import linalg, special

import calque
from calque.runtime.check.checking import examine
from calque.runtime.transformed import Transformed
from calque.transpiler.errors import CalqueError
from calque.transpiler.frontend.library.scipy_twins import twin_of
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.builder import FUNCTIONS
from calque.transpiler.primitives.scipy_modules import register_scipy

PAGE = Path(calque.__file__).resolve().parent / "docs" / "support.md"
BY_TESTS = ("optimize.curve_fit", "optimize.least_squares", "optimize.minimize")
SCIPY_PAGE = PAGE.with_name("support-scipy.md")
X = np.random.default_rng(7).permutation(np.linspace(0.2, 0.8, 12)).reshape(3, 4)
FLOAT0 = np.dtype([("float0", "V")])
I = np.array([[1, 2, 3, 0], [2, 2, 1, 3], [0, 1, 3, 1]])
HEAD = """\
# Supported functions of NumPy and SciPy

Written by `python tests/support.py` with NumPy {version}; a test keeps it current. Each function was
called as in the column *tried as*, with `x` a float64 array of shape (3, 4), `i` an integer array.

*value*: equal to NumPy's. *jvp*, *vjp*: forward and reverse mode agree with differences and with each
other; `0`: the function is piecewise constant, or its result is not floating point. *batch*: `vmap`
equals a loop. A function that is refused is refused with your line, never guessed.
"""


SCIPY_HEAD = """\
# Supported functions of SciPy's other families

Written by `python tests/support.py` with SciPy {version}; `scipy.special`, `scipy.linalg` and the
distributions are on [the page of NumPy](support.md), as is what the columns mean. What these
functions compute is tested in `tests/test_scipy_*.py`, against SciPy and differences.
"""


def module_of(name: str) -> Any:
    """A module of SciPy, given its name there."""
    return importlib.import_module(f"scipy.{name}")


@dataclass(frozen=True)
class Row:
    """One function: what it was tried with, four verdicts, and the reason of the first refusal."""

    name: str
    example: str
    verdicts: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        if not self.verdicts or set(self.verdicts) == {"no"}:
            shown = f"`{self.example}`" if self.example else ""
            return f"| `{self.name}` | {shown} | refused, because {self.reason} | | | |"
        *marks, last = self.verdicts
        note = f"; refused, because {self.reason}" if self.reason else ""
        return (
            f"| `{self.name}` | `{self.example}` | {' | '.join([*marks, last + note])} |".replace(
                "||", "\\|\\|"
            )
        )


def public(module: Any) -> list[str]:
    """The public functions of a module, ufuncs included."""
    names = getattr(module, "__all__", None) or dir(module)
    found = {n for n in names if not n.startswith("_") and callable(getattr(module, n, None))}
    return sorted(n for n in found if not isinstance(getattr(module, n), type))


def known_scipy(module: Any) -> list[str]:
    """The names in a module of SciPy that calque knows."""
    register_scipy()
    named = {n: getattr(module, n) for n in dir(module) if not n.startswith("_")}
    return sorted(n for n, f in named.items() if callable(f) and (_in_table(f) or twin_of(f)))


def _in_table(function: Any) -> bool:
    try:
        return function in FUNCTIONS
    except TypeError:
        return False


def example_of(prefix: str, name: str, table: dict[str, str], function: Any) -> str:
    """The call in the table; else with x, twice where two operands are needed."""
    if name in table:
        return table[name]
    count = getattr(function, "nin", 1)
    operands = ("x", "x[::-1]", "x[:, ::-1]")[:count]
    return f"{prefix}.{name}({', '.join(operands)})"


def function_of(example: str) -> Callable[..., Any]:
    """The example as a function of x and i; stores go to y, a copy of x."""
    store = example.startswith(("np.copyto(y", "np.fill_d", "np.place(y", "np.put"))
    body = (
        f"    y = x.copy()\n    {example}\n    return y\n" if store else f"    return {example}\n"
    )
    text, file = f"def f(x, i):\n{body}", f"<{example}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"np": np, "special": special, "linalg": linalg}
    namespace |= {m.rpartition(".")[2]: module_of(m) for m in support_families.TABLES}
    exec(compile(text, file, "exec"), namespace)
    made: Callable[..., Any] = namespace["f"]
    return made


def tried(name: str, example: str) -> Row:
    """The verdicts on one function."""
    fn = function_of(example)
    verdicts, reasons = [], []
    for test in (_value, _forward, _reverse, _batch):
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                verdicts.append(test(fn))
        except (CalqueError, TypeError, ValueError, NotImplementedError) as error:
            verdicts.append("no")
            reasons.append(_reason(error, name))
            if test is _value:
                return Row(name, example, ("no",), reasons[0])
    return Row(name, example, tuple(verdicts), reasons[0] if reasons else "")


def _reason(error: Exception, name: str) -> str:
    text = error.message if isinstance(error, CalqueError) else str(error)
    text = re.sub(r"^vmap of \S+: ", "", text.split("\n")[0].rstrip("."))
    if re.search(r" has (neither a rule nor|no rule, and the code of)", text):
        return next((r for r, names in examples.WITHOUT.items() if name in names), "it has no rule")
    return text.replace("|", "\\|")


def _value(fn: Callable[..., Any]) -> str:
    _same(Transformed("identity", fn)(X.copy(), I), fn(X.copy(), I))
    return "yes"


def _same(found: Any, want: Any) -> None:
    for a, b in zip(pytrees.flatten(found)[0], pytrees.flatten(want)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        assert np.shape(a) == np.shape(b)


def _forward(fn: Callable[..., Any]) -> str:
    found = pytrees.flatten(
        calque.jvp(fn, (X, I), (np.cos(5.0 * X), np.zeros(I.shape, FLOAT0)))[1]
    )[0]
    return "yes" if any(np.asarray(t).dtype.kind in "fc" and np.any(t) for t in found) else "0"


def _reverse(fn: Callable[..., Any]) -> str:
    report = examine(fn, (X, I))
    assert report.agrees, report
    return "yes" if any(row.reverse for _, row in report.rows) else "0"


def _batch(fn: Callable[..., Any]) -> str:
    xs = np.stack([X, X[::-1], np.sqrt(X)])
    _same(calque.vmap(fn, in_axes=(0, None))(xs, I), _stacked([fn(x.copy(), I) for x in xs]))
    return "yes"


def _stacked(results: list[Any]) -> Any:
    return pytrees.tree_map(lambda *leaves: np.stack(leaves), *results)


def rows(module: Any, prefix: str, table: dict[str, str], names: list[str]) -> Iterator[Row]:
    """A row for each function."""
    reasons = {n: reason for reason, given in examples.REFUSED.items() for n in given}
    for name in names:
        function = getattr(module, name)
        if prefix == "np" and name in reasons:
            assert not _in_table(function), f"{name} is known, and said to be refused"
            yield Row(f"{prefix}.{name}", "", (), f"it {reasons[name]}")
        else:
            yield tried(f"{prefix}.{name}", example_of(prefix, name, table, function))


def page() -> str:
    """The text of docs/support.md."""
    parts = [HEAD.format(version=".".join(np.__version__.split(".")[:2]))]
    for title, found in sections():
        if title == "scipy.special":
            parts.append(f"\n## {title}\n\n{support_special.HEAD}")
            parts += [f"{row} {' | '.join(compiled(row))} |\n" for row in found]
            continue
        parts.append(f"\n## {title}\n\n| function | tried as | value | jvp | vjp | batch |\n")
        parts.append("| --- | --- | --- | --- | --- | --- |\n")
        parts += [f"{row}\n" for row in found]
    parts.append(support_stats.table())
    return "".join(parts)


def scipy_page() -> str:
    """The text of docs/support-scipy.md."""
    parts = [SCIPY_HEAD.format(version=".".join(scipy.__version__.split(".")[:2]))]
    for name in support_families.TABLES:
        parts.append(f"\n## scipy.{name}\n\n| function | tried as | value | jvp | vjp | batch |\n")
        parts.append("| --- | --- | --- | --- | --- | --- |\n")
        parts += [f"{row}\n" for row in family(name)]
    return "".join(parts)


def family(name: str) -> Iterator[Row | str]:
    """A row for each function of a module of SciPy that calque knows."""
    module, table = module_of(name), support_families.TABLES[name]
    prefix = name.rpartition(".")[2]
    names = known_scipy(module)
    yield from rows(module, prefix, table, [n for n in names if f"{prefix}.{n}" not in BY_TESTS])
    for n in sorted(set(names) & {n.partition(".")[2] for n in BY_TESTS if n.startswith(prefix)}):
        why = "its last digits are left to chance, which these differences would see"
        tests = f"`tests/test_scipy_{name}.py`"
        yield f"| `{prefix}.{n}` | in {tests}: {why} | yes | by its tests | by its tests | by its tests |"


def compiled(row: Row) -> tuple[str, str]:
    """The places where compiled code has a function of ``scipy.special``."""
    return support_special.columns(function_of(row.example), (X, I))


def sections() -> Iterator[tuple[str, list[Row]]]:
    """The tables of the page."""
    yield "numpy", list(rows(np, "np", examples.NUMPY, public(np)))
    yield "numpy.linalg", list(rows(np.linalg, "np.linalg", examples.LINALG, public(np.linalg)))
    yield "numpy.fft", list(rows(np.fft, "np.fft", examples.FFT, public(np.fft)))
    table = {**examples.SPECIAL, **support_special.EXAMPLES}
    yield "scipy.special", list(rows(special, "special", table, known_scipy(special)))
    table = {**examples.SCIPY_LINALG, **support_linalg.EXAMPLES}
    yield "scipy.linalg", list(rows(linalg, "linalg", table, known_scipy(linalg)))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    SCIPY_PAGE.write_text(scipy_page(), encoding="utf-8")
