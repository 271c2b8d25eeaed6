"""Every error calque raises, each showing the user's file, line and text with a caret.

The base class renders::

    examples/bad.py, line 4, in noisy
        x = x + np.random.randn(3)
                ^^^^^^^^^^^^^^^^^^
    randn draws from a hidden state: generated code would not be a function.
    Instead: take a key argument and write `calque.random.normal(key, (3,))`
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Origin:
    """A location in the user's source (1-based lines, 0-based columns)."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str  # the first source line of the span, as it stands
    function: str
    statement: str = ""  # the whole statement of the transformed function, dedented
    statement_line: int = 0  # where that statement stands: with ``statement``, what groups code
    note: str = ""  # what generated code says of this place instead of quoting the statement
    rule: str = ""  # what generated code says of the derivative of what stands here
    of_derivative: bool = False  # what is differentiated here is the statement's derivative
    # where the function was called that this place is in; two calls do not make two places
    called_from: Origin | None = field(default=None, compare=False, repr=False)

    def calls(self) -> Iterator[Origin]:
        """The calls on the way to this place, the innermost first."""
        call = self.called_from
        while call is not None:
            yield call
            call = call.called_from

    def caret(self) -> str:
        """The source line with carets under the span.

        >>> Origin("f.py", 3, 4, 3, 7, "y = foo(x)", "f").caret()
        'y = foo(x)\\n    ^^^'
        """
        end = self.end_column if self.end_line == self.line else len(self.text)
        indent = len(self.text) - len(self.text.lstrip())
        width = max(1, end - self.column)
        return self.text[indent:] + "\n" + " " * (self.column - indent) + "^" * width


def cell_name(file: str) -> str | None:
    """The name of a notebook's cell by that of its file, as in ``In [2]``; None of other files."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    named = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = named(file) if named is not None else None
    return None if found is None else found[1].replace("In[", "In [")


def file_name(file: str) -> str:
    """The name under which a message shows a file: without its folder, or that of a cell.

    >>> file_name("models/rod.py")
    'rod.py'
    """
    return cell_name(file) or os.path.basename(file)


def file_name_in_code(file: str) -> str:
    """The name of a file in generated code, which does not depend on when a cell was run.

    >>> file_name_in_code("models/rod.py")
    'rod.py'
    """
    return os.path.basename(file) if cell_name(file) is None else "a notebook's cell"


MOST_CALLS = 8  # that a message shows


def called_from(origin: Origin) -> str:
    """A line about a call on the way to an error.

    >>> called_from(Origin("f.py", 3, 4, 3, 7, "y = foo(x)", "f"))
    'Called from f.py, line 3, in f: y = foo(x)'
    """
    place = f"{cell_name(origin.file) or origin.file}, line {origin.line}, in {origin.function}"
    return f"Called from {place}: {origin.text.strip()}"


class CalqueError(Exception):
    """The base of all errors of calque: what is wrong, where, and what to write instead.

    A note, which tracebacks show last, says which page tells more: see ``help_page``.
    """

    help_page: ClassVar[str] = "CalqueError"  # what `calque help` prints of this class

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__ and "help_page" not in vars(cls):
            cls.help_page = cls.__name__

    def __init__(self, message: str, origin: Origin | None = None, hint: str | None = None):
        super().__init__(message)
        self.add_note(f"more: calque help {self.help_page}")
        self.message = message
        self.origin = origin
        self.hint = hint
        self.calls: list[Origin] = []  # the user's, on the way here; innermost first
        self.theirs: Exception | None = None  # what NumPy raises instead, at run time

    def __str__(self) -> str:
        lines = []
        if self.origin is not None:
            o = self.origin
            lines.append(f"{cell_name(o.file) or o.file}, line {o.line}, in {o.function}")
            lines += ["    " + line for line in o.caret().split("\n")]
        lines.append(self.message)
        if self.hint:
            lines.append(f"Instead: {self.hint}")
        lines += map(called_from, self.calls[:MOST_CALLS])
        if len(self.calls) > MOST_CALLS:
            lines.append(f"and {len(self.calls) - MOST_CALLS} calls more")
        return "\n".join(lines)

    def __reduce__(self):
        state = {"calls": self.calls, "__notes__": self.__notes__}
        return type(self), (self.message, self.origin, self.hint), state


class UnsupportedSyntax(CalqueError):
    """A construct of Python that calque does not translate."""


class UnsupportedFunction(CalqueError, NotImplementedError):
    """A call of a function, or with an option, without a rule and without readable source."""


class Unstackable(UnsupportedFunction):
    """An operation that NumPy cannot do for several examples at once."""


class ImpureFunction(CalqueError):
    """Hidden state: global random numbers, I/O, writes to globals or to captured objects."""


class KeyReuseError(CalqueError):
    """Random numbers are drawn twice with one key (see ``debug_keys``): they would be the same."""


class BranchMismatch(CalqueError):
    """Two arms of a run-time branch, or two iterations of a loop, do not fit together."""


class TagNeeded(BranchMismatch):
    """A value of two kinds is read where nothing decides which of them it is.

    ``value`` is the value, ``node`` the expression that made it, if it was made there;
    ``entering``: a loop changes it.
    """

    help_page = "BranchMismatch"
    value: Any = None
    node: Any = None
    entering = False


class AliasUndecided(CalqueError):
    """A store into an array of which another name may, or may not, be a view."""


class NeedsKnownValue(CalqueError):
    """A value that must be known before the code is generated depends on run-time data."""

    of_list = False  # it is the place of an element: an array of them would do


class UndefinedVariable(CalqueError, NameError):
    """A name is read that no path, or not every path, to here has assigned."""


class UndefinedOnPath(UndefinedVariable):
    """A name is read that not every path to here has assigned."""


class UnboundAxisName(CalqueError, NameError):
    """A collective over an axis name that no ``vmap`` around it has."""


class DivergentCollective(CalqueError, ValueError):
    """A collective where not every example takes part: under a test that differs between them."""


class VariesOverDevices(CalqueError, ValueError):
    """A value is to be the same on all devices of an axis, and differs."""


class DevicesDiffer(CalqueError, ValueError):
    """Devices would run different programs, or store into the same array."""


class RanksDiffer(CalqueError, RuntimeError):
    """The ranks of a program were about to run different things."""


class NoSuchDevice(CalqueError, ValueError):
    """More devices, or others, are asked for than there are."""


class NumbaMissing(CalqueError, ImportError):
    """Kernels are asked for, and Numba, which compiles them, cannot be imported."""


class FrameworkMissing(CalqueError, ImportError):
    """A bridge, or ``calque.sparse``, leads to a library that is not installed."""


class MixedDevices(CalqueError, TypeError):
    """Arrays of one call that lie on several devices, or where the program cannot use them."""


class NoGraph(CalqueError, ValueError):
    """``jit(f, graph=True)`` of what no CUDA graph can hold."""


class NotDifferentiable(CalqueError, TypeError):
    """No gradient: integer inputs, an output that is no real scalar, a missing rule."""


class CustomRuleError(CalqueError, TypeError):
    """A rule given with custom_jvp or custom_vjp does not fit its function."""


class MissingRule(CustomRuleError, AttributeError):
    """A function of custom_jvp or custom_vjp is called before it was given a rule."""


class NotLinear(CalqueError, ValueError):
    """A function that was to be transposed is not linear, or calque cannot see that it is."""


class ShapeError(CalqueError, ValueError):
    """Shapes that do not fit together, or an axis out of range."""


class UnequalIterations(BranchMismatch, ShapeError):
    """An array that a loop changes has another size after an iteration than the loop needs."""


class AxisOutOfRange(ShapeError, IndexError):
    """An axis that an array does not have; NumPy's AxisError is both kinds of error too."""


class IndexOutOfRange(CalqueError, IndexError):
    """An index outside an array, or more indices than axes."""


class DtypeError(CalqueError, TypeError):
    """A dtype on which an operation is not defined."""


class SpecError(CalqueError, ValueError):
    """A type specification such as ``f8[n,3]`` that cannot be read, or is missing."""


class SparsityUndecided(CalqueError, ValueError):
    """A program whose sparsity pattern depends on more than the sizes of its arguments."""


class NestedTooDeeply(CalqueError, ValueError):
    """A list, a tuple or a dict that holds itself, or thousands of others, one within the other."""


class UnsupportedOption(CalqueError, NotImplementedError):
    """A parameter that JAX has, and that calque only takes at its default."""


class SourceNotFound(CalqueError, OSError):
    """The source text of a function cannot be read."""


class NonFiniteError(CalqueError, FloatingPointError):
    """A NaN or an infinity: made under ``debug_nans``, or given to ``check``."""


class WrongDerivative(CalqueError, AssertionError):
    """A derivative that disagrees with differences, or forward mode with reverse mode."""


class CoreError(CalqueError):
    """An intermediate program that breaks a rule of Core: a defect of calque itself."""


class UnrollingNeeded(Exception):
    """Internal: lists or dicts that a loop put into a list are changed; ``trace`` starts again.

    ``loops`` are the places of the loops that fill the list, ``origin`` that of the change.
    """

    def __init__(self, loops: frozenset[Any], origin: Origin | None):
        super().__init__("loops must be unrolled")
        self.loops = loops
        self.origin = origin


class OutsideChanged(Exception):
    """Internal: a captured list, dict or set is changed; ``trace`` starts again, and follows it."""

    def __init__(self, name: str, read: Any, origin: Origin | None):
        super().__init__("a container outside is changed")
        self.name, self.read, self.origin = name, read, origin


class ClassesNeeded(Exception):
    """Internal: the class of a number that differs between paths is asked for; start again."""

    def __init__(self, origin: Origin | None):
        super().__init__("numbers must say of which class they are")
        self.origin = origin


class SpecializationNeeded(Exception):
    """Internal: interpretation needs a value or a size; the pipeline starts again.

    ``leaves`` are indices of flattened arguments whose value, ``symbols`` names of dimensions
    whose size, must become part of the signature; ``numbers`` are places of captured ones,
    ``memory`` leaves of which is asked where they lie.
    """

    def __init__(
        self,
        leaves: frozenset[int],
        symbols: frozenset[str],
        origin: Origin | None,
        why: str,
        numbers: frozenset[Any] = frozenset(),
        memory: frozenset[int] = frozenset(),
    ):
        super().__init__(why)
        self.leaves = leaves
        self.symbols = symbols
        self.numbers = numbers
        self.memory = memory
        self.origin = origin
        self.why = why
        self.calls: list[Origin] = []
        self.captures: list[Any] = []  # filled in by ``trace``: where captured sizes are read
