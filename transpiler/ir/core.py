"""Core: the small typed language that every pass reads and writes.

Core is in structured SSA and *functional*: a store is the primitive ``update``, which takes an
array and gives its next version. No pass has to reason about aliases or the order of effects; the
printer puts versions of one array back into one name and one piece of memory, and copies only where
an old version is still needed. So stores are ordinary primitives, with ordinary rules.

::

    Apply   outs = primitive(args, **params)
    If      outs = test ? then.results : orelse.results
    For     outs = fold body over range(start, stop, step), carrying phis from inits
    While   the same, as long as the test block's result holds
    Effect  print, assert, raise: kept in order, executed once
    Kernel  statements that go into a function of their own, which a target compiles

A statement's ``phase`` is "forward" or "reverse" where a reverse sweep has been made, else "".
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from calque.transpiler.errors import CoreError, Origin
from calque.transpiler.ir.types import ArrayType
from calque.transpiler.ir.verdicts import Verdict


class Var:
    """A value defined once. ``name`` is the user's name for it, or a hint, or None.

    ``word`` is what to call it where it has no name and needs one: ``p_denominator``.
    """

    __slots__ = ("__weakref__", "name", "origin", "type", "word")

    def __init__(self, type: ArrayType, name: str | None = None, origin: Origin | None = None):
        self.type = type
        self.name = name
        self.origin = origin
        self.word: str | None = None

    def again(self, type: ArrayType | None = None) -> Var:
        """A new Var with the same name, word and origin."""
        made = Var(type or self.type, self.name, self.origin)
        made.word = self.word
        return made

    def __repr__(self) -> str:
        return f"{self.name or '_'}:{self.type}"


class _Undefined:
    """The value of a carried name that no path has assigned yet."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()

Atom = Any  # Var | Python or NumPy scalar | UNDEFINED


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a static template that stands for a dynamic argument."""

    position: int


@dataclass(eq=False, slots=True)
class Block:
    """Statements in order, and the atoms that they yield to the statement around the block."""

    statements: list[Statement] = field(default_factory=list)
    results: list[Atom] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Apply:
    """``outs = primitive(*args, **params)``."""

    outs: tuple[Var, ...]
    primitive: Any
    args: tuple[Atom, ...]
    params: dict[str, Any]
    origin: Origin | None = None
    # an index proven to be in range; a reshape of contiguous memory; matrices that are small
    proven: bool = False
    phase: str = ""

    @property
    def out(self) -> Var:
        """The only result."""
        return self.outs[0]


@dataclass(eq=False, slots=True)
class If:
    """Both blocks' results have the types of ``outs``."""

    outs: tuple[Var, ...]
    test: Atom
    then: Block
    orelse: Block
    origin: Origin | None = None
    phase: str = ""


@dataclass(eq=False, slots=True)
class For:
    """``for index in range(start, stop, step)``; body.results are the next values of phis.

    ``scheduled``: it goes over elements, and is no loop of the user's. ``parallel``: its iterations
    may run at the same time; ``verdict``: why, or why not. ``vector``: it holds no loop, and its
    iterations may run as the lanes of one vector.
    """

    outs: tuple[Var, ...]
    index: Var
    start: Atom
    stop: Atom
    step: Atom
    phis: tuple[Var, ...]
    inits: tuple[Atom, ...]
    body: Block
    origin: Origin | None = None
    scheduled: bool = False
    parallel: bool = False
    vector: bool = False
    verdict: Verdict | None = None
    phase: str = ""


@dataclass(eq=False, slots=True)
class While:
    """``test`` computes one boolean from phis; body.results are their next values."""

    outs: tuple[Var, ...]
    phis: tuple[Var, ...]
    inits: tuple[Atom, ...]
    test: Block
    body: Block
    origin: Origin | None = None
    phase: str = ""


@dataclass(eq=False, slots=True)
class Effect:
    """A statement of the user's kept for its effect; ``template`` is its text with slots."""

    template: str
    args: tuple[Atom, ...]
    origin: Origin | None = None
    phase: str = ""

    @property
    def outs(self) -> tuple[Var, ...]:
        """An effect defines nothing."""
        return ()


@dataclass(eq=False, slots=True)
class Kernel:
    """Statements that a target puts into a function of their own, and the call of it.

    They read ``params`` and nothing else of what is defined outside; ``outs`` are what they define
    that is read outside, and body.results. Both are the program's own Vars: a value is one Var
    within the kernel and around it, as it has one name in the text.
    """

    outs: tuple[Var, ...]
    params: tuple[Var, ...]
    body: Block
    origin: Origin | None = None
    phase: str = ""

    @property
    def space(self) -> tuple[For, ...]:
        """The nest of loops with independent iterations that holds all work of the kernel.

        Statements beside a loop of the nest compute only numbers, which every iteration may
        compute for itself.
        """
        found: list[For] = []
        block = self.body
        while block.statements and not any(map(blocks_of, block.statements[:-1])):
            last = block.statements[-1]
            if not isinstance(last, For) or not last.parallel:
                break
            found.append(last)
            block = last.body
        return tuple(found)


Statement = Apply | If | For | While | Effect | Kernel


@dataclass(eq=False, slots=True)
class Parameter:
    """One argument as the user wrote it: a pytree whose leaves are Vars, or a known value."""

    name: str
    tree: Any  # the argument with Vars (or known values) at its leaves
    keyword_only: bool = False
    default: Any = None  # a literal's text, or None
    variadic: str = ""  # "*" or "**"


@dataclass(eq=False, slots=True)
class Function:
    """A whole program: parameters, one block, and the structure of its results.

    ``result`` is a pytree with ``Slot`` leaves that point into ``body.results``.
    """

    name: str
    params: list[Var]
    body: Block
    result: Any
    signature: list[Parameter] = field(default_factory=list)
    origin: Origin | None = None
    description: str = ""
    dim_values: dict[Var, Any] = field(default_factory=dict)  # integer Var -> its affine dimension
    equal_dims: list[EqualDims] = field(default_factory=list)
    imports: dict[str, str] = field(
        default_factory=dict
    )  # name -> module, or "module:its name there": the user's own
    written: dict[int, int] = field(default_factory=dict)  # parameter position -> result position
    decisions: list[Any] = field(default_factory=list)  # what the reverse sweep saves, and why
    phase: str = ""  # that all its statements are of, as a part of a program is
    swept: bool = False  # its statements are those of a forward and of a reverse phase
    kernel_options: dict[str, Any] = field(default_factory=dict)  # parallel, boundscheck, explained
    checks: dict[str, Check] = field(default_factory=dict)  # of the checked variant, by label
    checker: str = ""  # the name of the helper that the checked variant calls
    helpers: dict[str, str] = field(default_factory=dict)  # name -> definition, in the module
    launches: list[Launch] = field(default_factory=list)  # of its text, in order
    # of the statements of its text, in order: by the names of the functions of the text
    origins: dict[str, list[Origin | None]] = field(default_factory=dict)
    kernel_origins: dict[str, list[Origin | None]] = field(default_factory=dict)  # of its kernels'


@dataclass(frozen=True, slots=True)
class Launch:
    """The operands of a kernel's launch: types, and positions among the function's parameters."""

    kernel: str
    given: tuple[tuple[ArrayType, int | None], ...]

    def elsewhere(self) -> Launch:
        """The launch as it is to a caller of the function: the parameters are other ones."""
        return Launch(self.kernel, tuple([(kind, None) for kind, _ in self.given]))


@dataclass(frozen=True, slots=True)
class Check:
    """The value that a check of the checked variant tests, in the user's terms."""

    origin: Origin | None
    phase: str  # "forward" or "reverse"
    what: str  # a name, "the adjoint of x", or nothing


@dataclass(frozen=True, slots=True)
class EqualDims:
    """Two dimensions taken to be equal by an operation; ``where`` is the Apply's first result."""

    left: Any
    right: Any
    where: Var | None
    origin: Origin | None


def blocks_of(statement: Statement) -> tuple[Block, ...]:
    """The blocks a statement holds."""
    kind = type(statement)
    if kind is Apply or kind is Effect:  # most: every pass asks this of every statement
        return ()
    match statement:
        case If(then=then, orelse=orelse):
            return then, orelse
        case For(body=body):
            return (body,)
        case While(test=test, body=body):
            return test, body
        case Kernel(body=body):
            return (body,)
    return ()


def operands(statement: Statement) -> tuple[Atom, ...]:
    """The atoms a statement reads itself, outside its blocks."""
    if type(statement) is Apply:
        return statement.args
    match statement:
        case Apply(args=args) | Effect(args=args):
            return args
        case If(test=test):
            return (test,)
        case For(start=start, stop=stop, step=step, inits=inits):
            return (start, stop, step, *inits)
        case While(inits=inits):
            return inits
        case Kernel(params=params):
            return params


def bound_vars(statement: Statement) -> tuple[Var, ...]:
    """The Vars a statement binds inside its blocks."""
    if type(statement) is Apply:
        return ()
    match statement:
        case For(index=index, phis=phis):
            return index, *phis
        case While(phis=phis):
            return phis
    return ()


def walk(block: Block) -> Iterator[Statement]:
    """Every statement, outer before inner, in order."""
    for statement in block.statements:
        yield statement
        if type(statement) is not Apply:
            for inner in blocks_of(statement):
                yield from walk(inner)


def every_block(block: Block) -> list[Block]:
    """A block, and all blocks within it, outer before inner."""
    return [block, *(inner for statement in walk(block) for inner in blocks_of(statement))]


def defined_vars(block: Block) -> set[Var]:
    """Every Var that the block or a block within it defines or binds."""
    found: set[Var] = set()
    for statement in walk(block):
        found.update(statement.outs)
        found.update(bound_vars(statement))
    return found


def outs_of(block: Block) -> set[Var]:
    """The Vars that the statements of a block define, without those of blocks within."""
    return {out for statement in block.statements for out in statement.outs}


def free_vars(block: Block) -> dict[Var, None]:
    """The Vars a block reads but does not define, in order of first use."""
    defined: set[Var] = set()
    free: dict[Var, None] = {}

    def read(atoms: Iterable[Atom]) -> None:
        for atom in atoms:
            if isinstance(atom, Var) and atom not in defined:
                free.setdefault(atom)

    def visit(block: Block) -> None:
        for statement in block.statements:
            if type(statement) is Apply:  # most: passes ask this of whole blocks, again and again
                read(statement.args)
                defined.update(statement.outs)
                continue
            read(operands(statement))
            defined.update(bound_vars(statement))
            for inner in blocks_of(statement):
                visit(inner)
            defined.update(statement.outs)
        read(block.results)

    visit(block)
    return free


def substitute(block: Block, mapping: Mapping[Var, Atom]) -> None:
    """Replace atoms in place, everywhere in the block."""

    def sub(atom: Atom) -> Atom:
        return mapping.get(atom, atom) if isinstance(atom, Var) else atom

    if not mapping:
        return
    block.results = [sub(a) for a in block.results]
    for statement in block.statements:
        if isinstance(statement, (Apply, Effect)):
            if any(a in mapping for a in statement.args if isinstance(a, Var)):
                statement.args = tuple(map(sub, statement.args))
            continue
        match statement:
            case If():
                statement.test = sub(statement.test)
            case For():
                statement.start, statement.stop = sub(statement.start), sub(statement.stop)
                statement.step = sub(statement.step)
                statement.inits = tuple(map(sub, statement.inits))
            case While():
                statement.inits = tuple(map(sub, statement.inits))
            case Kernel():
                taken = dict.fromkeys(map(sub, statement.params))
                statement.params = tuple(a for a in taken if isinstance(a, Var))
        for inner in blocks_of(statement):
            substitute(inner, mapping)


Write = Callable[["Statement", MutableMapping[Var, Atom]], "list[Statement] | None"]


def clone(block: Block, mapping: MutableMapping[Var, Atom], write: Write | None = None) -> Block:
    """A copy with fresh Vars; ``mapping`` gives atoms for free Vars and receives the new ones.

    ``write`` may give, for a statement, what stands in the copy in its place; it fills ``mapping``
    with what its results are. Statements for which it gives None are copied.
    """

    def sub(atom: Atom) -> Atom:
        return mapping.get(atom, atom) if isinstance(atom, Var) else atom

    def fresh(vars: Iterable[Var]) -> tuple[Var, ...]:
        made = []
        for var in vars:
            new = var.again()
            mapping[var] = new
            made.append(new)
        return tuple(made)

    def inner(block: Block) -> Block:
        return clone(block, mapping, write)

    def copy(s: Statement) -> Statement:
        match s:
            case Apply():
                args = tuple(map(sub, s.args))
                outs = fresh(s.outs)
                return Apply(outs, s.primitive, args, s.params, s.origin, s.proven, s.phase)
            case Effect():
                return Effect(s.template, tuple(map(sub, s.args)), s.origin, s.phase)
            case If():
                test = sub(s.test)
                then, orelse = inner(s.then), inner(s.orelse)
                return If(fresh(s.outs), test, then, orelse, s.origin, s.phase)
            case For():
                bounds = sub(s.start), sub(s.stop), sub(s.step)
                inits = tuple(map(sub, s.inits))
                (index,), phis = fresh([s.index]), fresh(s.phis)
                body = inner(s.body)
                made = For(fresh(s.outs), index, *bounds, phis, inits, body, s.origin)
                made.scheduled, made.parallel, made.vector = s.scheduled, s.parallel, s.vector
                made.verdict, made.phase = s.verdict, s.phase
                return made
            case While():
                inits = tuple(map(sub, s.inits))
                phis = fresh(s.phis)
                test, body = inner(s.test), inner(s.body)
                return While(fresh(s.outs), phis, inits, test, body, s.origin, s.phase)
            case Kernel():
                params = tuple(a for a in map(sub, s.params) if isinstance(a, Var))
                body = inner(s.body)
                return Kernel(tuple(map(sub, s.outs)), params, body, s.origin, s.phase)
        raise CoreError(f"unknown statement {s!r}")

    made: list[Statement] = []
    for s in block.statements:
        written = write(s, mapping) if write is not None else None
        made += [copy(s)] if written is None else written
    return Block(made, [sub(a) for a in block.results])


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply ``function`` to the leaves of tuples, lists, dicts and namedtuples.

    >>> map_tree(lambda x: x + 1, {"a": (1, [2])})
    {'a': (2, [3])}
    """
    if isinstance(tree, tuple):
        items = [map_tree(function, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, list):
        return [map_tree(function, item) for item in tree]
    if isinstance(tree, dict):
        return dict_like(tree, {key: map_tree(function, item) for key, item in tree.items()})
    return function(tree)


def dict_like(old: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    """A dict of ``items`` of the same kind as ``old``: ordered, with a default, or plain.

    >>> dict_like(OrderedDict(b=1), {"b": 2})
    OrderedDict(...)
    """
    if type(old) is OrderedDict:
        return OrderedDict(items)
    if type(old) is defaultdict:
        made: Any = defaultdict(None, items)
        made.default_factory = old.default_factory  # of interpreted code, perhaps: not callable
        return made
    return items
