"""The interface and the state of the interpreter, for the files that its classes are made of.

The interpreter is one object of the class ``Interpreter``, which ``library/python_builtins``
completes. Its classes inherit from one another, one for each part of Python, and ``Machine`` is
the first. Functions outside of these classes take the interpreter as an argument ``machine``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gast

from calque.transpiler.errors import CalqueError, Origin
from calque.transpiler.frontend.control.exit_chains import Links
from calque.transpiler.frontend.paths import Path
from calque.transpiler.frontend.source import FunctionSource
from calque.transpiler.frontend.values.containers.frames import Frame
from calque.transpiler.frontend.values.containers.outside_kinds import OutsidePlaces
from calque.transpiler.frontend.values.heap import Snapshot
from calque.transpiler.frontend.values.iterables import Generator, Walk
from calque.transpiler.frontend.values.optional import Facts, Flags, Maybe, Presence
from calque.transpiler.frontend.values.tagged import TaggedValue
from calque.transpiler.ir.builder import Array, Builder
from calque.transpiler.ir.core import Block, Statement, Var
from calque.transpiler.ir.types import Dim, DimLike

Args = list[Any]  # the arguments of a call, evaluated: by position,
Kwargs = dict[str, Any]  # and by name


@dataclass(frozen=True)
class Settings:
    """The choices with which a program is interpreted, from its start to its end."""

    compiled: bool = False  # kernels are to be made
    grid: bool = False  # for a grid of threads
    varying: frozenset[Any] = frozenset()  # places of numbers that change between calls
    memory: dict[int, Any] = field(default_factory=dict)  # where leaves lie, if a program asks it
    stacking: bool = False  # lists within a list kept in arrays are arrays too
    lists_stay: bool = False  # what could be of known length is to be
    unrolled: dict[Any, Any] = field(default_factory=dict)  # loops, with what asked for it
    telling: bool = False  # numbers whose class differs between paths say of which class they are
    saves_within: int | None = None  # bytes for the values that each reverse sweep saves
    outside: dict[Any, Any] = field(default_factory=dict)  # captured containers that change
    arms_apart: bool = False  # what follows a branch of which an arm may leave is written twice
    tagging: bool = False  # values of two kinds are tagged values
    loops_tag: bool = False  # so is what only a loop gives a value


@dataclass(frozen=True)
class Completion:
    """The way in which a block was left before its end; ``value`` is that of a return.

    ``end`` says that a branch has already run everything up to the enclosing boundary.
    """

    kind: str  # "return", "break", "continue", "raise", "end"
    value: Any = None


@dataclass(eq=False)
class Closure:
    """A function defined by interpreted code."""

    source: FunctionSource
    node: Any
    frame: Frame
    globals: dict[str, Any]
    cells: dict[str, Any]
    defaults: tuple[Any, ...]
    kw_defaults: dict[str, Any]
    name: str

    def calque_children(self) -> list[Any]:
        """The values that a snapshot of the heap must follow."""
        return [self.frame, *self.defaults, *self.kw_defaults.values()]


@dataclass(eq=False)
class Activation:
    """One call in progress."""

    frame: Frame
    source: FunctionSource
    globals: dict[str, Any]
    cells: dict[str, Any]
    nonlocals: set[str]
    globals_written: set[str]
    node: Any = None
    pending: list[list[Any]] = field(default_factory=list)
    flags: Any = None  # the innermost loop's hidden names
    flag_stack: list[Any] = field(default_factory=list)
    consume: Callable[[Any], Any] | None = None  # what a generator yields to
    blocks: int = 0  # of `with` around, that no run-time test may leave
    throws: bool = False  # an error of the present statement may go to a handler around
    throws_out: bool = False  # also to one in the function that made the call
    place: Origin | None = None  # of the call

    @functools.cached_property
    def is_quoted(self) -> bool:
        """True if generated code quotes the function's statements; False for one-line functions."""
        body = getattr(self.node, "body", None)
        docstring = isinstance(body, list) and gast.get_docstring(self.node) is not None
        return isinstance(body, list) and len(body) - docstring > 1


NEXT = object()  # what a handler of a kind of calls returns to leave the call to the next kind


class Machine:
    """The interpreter's state, and the methods by which one part uses another."""

    on_behalf: Origin | None = None  # the statement to which a rule of the user's belongs
    in_library = False  # what is interpreted is SciPy's code, or calque's in its place
    statement: tuple[str, int] = ("", 0)
    indexing = False  # known lists may be read at run-time places
    arrays_for_lists = False  # whether there is one that could be of known length
    return_origin: Origin | None = None  # where the last call gave its result
    temporary = 0
    reversing = False  # a reverse sweep is to come
    uniform = 0  # paths must give one dtype: np.vectorize would take the first one's
    derivatives = 0  # how many derivative passes are to come
    links: Links | None = None  # the chains of forks that are being interpreted
    error_on_path: Exception  # the last that an arm was found to raise
    loop_depth = 0  # the number of loops of the generated program that are being interpreted
    copies = 1  # how often what follows is written at this place
    splits = 0  # statements that were interpreted for either kind of a tagged value
    joined = False  # an arm that may leave was joined with one that goes on
    site: Any = None  # a call that is a statement of its own, within a `try`
    catching = 0  # blocks of warnings.catch_warnings around the present code

    def __init__(self, builder: Builder, settings: Settings | None = None):
        self.builder = builder
        self.settings = settings or Settings()
        builder.machine = self
        self.calls: list[Activation] = []
        self.owned: dict[int, Any] = {}
        self.compared: dict[int, Any] = {}  # objects whose whole state is guarded
        self.made: dict[int, Any] = {}  # what Python's own calls gave
        self.builtins_read: dict[int, set[str]] = {}  # by the globals that could shadow them
        self.unsure: dict[Var, Any] = {}  # values that some path does not define: what decides
        self.of_loops: dict[Var, tuple[Dim, ...]] = {}  # those that loops define if they run
        self.presence: dict[Var, Presence] = {}  # and on which paths they have one
        self.half_bound: dict[tuple[int, Any], Any] = {}  # names that a break, or its else, binds
        self.undecided: dict[int, Any] = {}  # containers that may be one object with another
        self.held: dict[int, tuple[Any, Any]] = {}  # containers within a list kept in arrays
        self.perhaps: dict[tuple[int, Any], tuple[Any, Any]] = {}  # keys that a path may lack
        self.disordered: dict[int, Any] = {}  # dicts whose keys' order differs between paths
        self.unsigned: set[Var] = set()  # integers whose sign was asked for in vain
        self.tests: list[Any] = []  # of the run-time branches that are being interpreted
        self.flags = Flags()  # of values that may be None
        self.facts: Facts = []  # what these, and loops around, are known to have come out as
        self.unread: set[int] = set()  # nodes whose value may be None
        self.arguments: list[Array] = []  # cells that the caller holds
        self.sources: dict[str, tuple[str, ...]] = {}
        self.phased: list[Statement] = []  # of the last transformation that was put in place
        self.decisions: list[Any] = []  # what reverse sweeps save, and why
        self.holding: list[Any] = []  # values that only the interpreter holds: a loop's iterable
        self.arm_loop_depths: list[int] = []  # the number of loops around each arm around
        self.ends: list[int] = []  # and around each arm or body at whose depth a path may end
        self.attempts: list[tuple[Block, int]] = []  # statements around that may be taken back
        self.scopes: list[Any] = []  # the bodies of `try` around
        self.handled: list[list[Exception]] = []  # what may have come to the handlers around
        self.tested: dict[int, Any] = {}  # statements whose errors a test before them tells
        self.float_errors: dict[str, str] = {}  # what NumPy does at each kind, where it is set
        self.error_classes: dict[str, type] = {}  # of errors that the program raises, by name
        self.walked: list[Walk] = []  # the for statements around
        self.loop_bases: list[Snapshot] = []  # taken before each run-time loop around
        # assumptions that elements fit into lists: a size, that of its place, and the origin
        self.element_sizes: list[tuple[DimLike, DimLike, Any]] = []
        self.captures: dict[Any, Any] = {}  # by an array's id, by the place of a number
        self.guards: list[Any] = []  # of captured constants
        self.lifted: dict[int, tuple[Any, Any]] = {}
        self.readers: dict[int, Path] = {}  # of what was lifted, where it was first
        self.paths: dict[int, tuple[Any, Path]] = {}  # to copies of functions and instances
        self.function_copies: dict[int, tuple[Any, Any]] = {}  # of functions, by the functions' ids
        self.foreign: dict[int, Any] = {}
        self.outside = OutsidePlaces()  # that the program has written
        self.parameters: set[str] = set()  # the names of the program's own
        self.around: set[int] = set()  # the containers whose items are being lifted

    @contextmanager
    def acting_for(self, origin: Origin | None, library: bool = False) -> Iterator[None]:
        """Inside, statements belong to the one at ``origin``, whose rule is interpreted.

        ``library``: what is interpreted is a library's code, whose names generated code may have.
        """
        before = self.on_behalf, self.in_library
        self.on_behalf, self.in_library = origin, library
        try:
            yield
        finally:
            self.on_behalf, self.in_library = before

    @contextmanager
    def before_passes(self, derivatives: int, reversing: bool = False) -> Iterator[None]:
        """Inside, so many derivative passes are to come, and a reverse sweep if one reverses."""
        before = self.derivatives, self.reversing
        self.derivatives, self.reversing = derivatives, self.reversing or reversing
        try:
            yield
        finally:
            self.derivatives, self.reversing = before

    if TYPE_CHECKING:  # defined by the classes that inherit from this one
        # captures
        def lift(self, value: Any, name: str, read: Path) -> Any: ...

        def path_of(self, value: Any) -> Path: ...
        # interpreter
        @property
        def call(self) -> Activation: ...
        def origin(self, node: Any) -> Any: ...
        def fail(
            self, kind: type[CalqueError], node: Any, message: str, hint: str | None = None
        ) -> Any: ...
        def at(self, node: Any) -> AbstractContextManager[None]: ...
        def own(self, value: Any) -> Any: ...
        def check_writable(self, value: Any, node: Any, what: str) -> None: ...
        def check_apart(self, value: Any, node: Any) -> None: ...
        def checked(self, value: Any, name: str, node: Any) -> Any: ...
        def ask_for(self, test: Any) -> None: ...
        def fresh_name(self, stem: str) -> str: ...
        def name_value(self, value: Any, name: str) -> None: ...
        # formatting
        def formatted(self, value: Any, conversion: str, spec: Any, node: Any) -> Any: ...
        def text_method(
            self, owner: Any, name: str, args: Args, kwargs: Kwargs, node: Any
        ) -> Any: ...
        def settled(self, value: Any, node: Any) -> Any: ...
        # comparisons
        def compare(self, op: Any, left: Any, right: Any, node: Any) -> Any: ...
        def binary(self, kind: type, left: Any, right: Any, node: Any) -> Any: ...
        def unary(self, kind: type, value: Any, node: Any) -> Any: ...
        def iterated(self, value: Any, node: Any) -> Any: ...
        def condition(self, node: Any) -> Any: ...
        def short_circuit(
            self, value: Any, rest: Callable[[], Any], node: Any, is_and: bool
        ) -> Any: ...
        def truth(self, value: Any, node: Any) -> Any: ...
        def recorded(self, value: Any) -> Any: ...
        # expressions
        def evaluate(self, node: Any) -> Any: ...
        def hashable(self, key: Any, node: Any, what: str = ...) -> Any: ...
        def looked_up(self, table: dict[Any, Any], key: Any, node: Any) -> Any: ...
        def attribute(self, value: Any, name: str, node: Any) -> Any: ...
        def subscript(self, value: Any, index: Any, node: Any) -> Any: ...
        def known_items(self, value: Any, node: Any) -> list[Any]: ...
        # control/tries
        def may_leave(self, statements: list[Any]) -> bool: ...
        def handler_for(self, kind: type) -> Any: ...
        def tests_may_throw(self, test: Any) -> bool: ...
        def raised(self, kind: Any, args: Args, kwargs: Kwargs, node: Any) -> Completion: ...
        def left_by_error(self, scope: Any) -> Any: ...
        def throw(self, error: Exception) -> Completion: ...
        def thrown(self, error: Exception) -> Completion | None: ...
        # control/phi_inference
        def is_unsure(self, value: Any) -> bool: ...
        def surely_runs(self, certain: bool | Dim) -> bool: ...
        # control/branch
        def roots(self) -> list[Any]: ...
        def fork(
            self,
            test: Array,
            then: Callable[[], Any],
            orelse: Callable[[], Any],
            node: Any,
            leaves: bool = False,
        ) -> Any: ...
        def loops_around(self) -> bool: ...
        def path_raises(self, error: Exception, node: Any) -> None: ...
        def required(self, value: Maybe, name: str, node: Any) -> Any: ...
        def decided(self, value: Any, *more: tuple[Any, bool]) -> Any: ...
        def _emit_if(
            self, test: Array, outcomes: list[Any], outs: list[Var], results: list[Any], node: Any
        ) -> None: ...
        def choose(
            self, test: Array, then: Callable[[], Any], orelse: Callable[[], Any], node: Any
        ) -> Any: ...
        # values/lists
        def append(self, values: Any, item: Any, node: Any) -> None: ...
        def extend(self, values: Any, items: Any, node: Any) -> None: ...
        def pop(self, values: Any, index: Any, node: Any) -> Any: ...
        def ordered(self, values: Any, options: dict[str, Any], node: Any) -> Any: ...
        def list_copy(self, values: Any) -> Any: ...
        def repeated(self, values: Any, count: Any) -> Any: ...
        def list_method(
            self, name: str, values: Any, args: Args, kwargs: Kwargs, node: Any
        ) -> Any: ...
        def order_of(self, columns: list[Any], reverse: bool, node: Any) -> Any: ...
        def check_not_walked(
            self, values: Any, node: Any, what: str, live: bool = False
        ) -> None: ...
        # control/generator
        def start(self, source: Generator, node: Any) -> None: ...
        def body_of(self, source: Generator, leaves: bool) -> list[Any]: ...
        def activation(
            self, source: Generator, consume: Callable[[Any], Any] | None
        ) -> Activation: ...
        # control/tagged_reads
        def of_one_kind(self, value: TaggedValue, name: str, node: Any) -> Any: ...
        # statements
        def exec_block(self, statements: list[Any]) -> Completion | None: ...
        def execute(self, node: Any) -> Completion | None: ...
        def assign(self, target: Any, value: Any, node: Any) -> None: ...
        def set_attribute(self, owner: Any, name: str, value: Any, node: Any) -> None: ...
        def store(self, container: Any, index: Any, value: Any, node: Any) -> None: ...
        def augmented(self, old: Any, value: Any, node: Any) -> Any: ...
        # native_calls
        def native(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any: ...
        @staticmethod
        def rule_of(function: Any) -> Callable[..., Any] | None: ...
        def construct(self, cls: type, args: Args, kwargs: Kwargs, node: Any) -> Any: ...
        # calls
        def arguments_of(self, function: Any, node: Any) -> tuple[list[Any], dict[str, Any]]: ...
        def call_value(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any: ...
        def call_for_user(self, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any: ...
        def bind(
            self, closure: Closure, frame: Frame, args: Args, kwargs: Kwargs, node: Any
        ) -> None: ...
        # control/comprehension
        def consumed(self, node: Any) -> Any: ...
        def consumed_value(self, value: Any, node: Any) -> Any: ...
        def listed(self, values: Any, node: Any) -> Any: ...
        def steps(self, value: Any, node: Any) -> Any: ...
        def each(self, values: Any, node: Any, action: Callable[[Any], None]) -> None: ...
