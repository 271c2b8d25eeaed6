"""Compiles kernels: serial code for little work, parallel code for much."""

from __future__ import annotations

import functools
import os
import sys

import numpy as np
from llvmlite import ir
from numba import njit, typeof
from numba.core import ir as numba_ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, get_definition, guard, mk_unique_var
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering
from numba.core.types import Float, Integer, uintp
from numba.core.untyped_passes import ReconstructSSA
from numba.extending import intrinsic
from numba.np.ufunc import parallel as numba_threads

from calque.runtime.kernels.kept_memory import keep_memory
from calque.runtime.kernels.pace import Pace
from calque.runtime.kernels.wrapping_integers import Wrapping

# elements of the largest array from which threads always run, and from which they may
PARALLEL_FROM, MEASURED_FROM = 1 << 21, 1 << 14
PROCESS = os.getpid()  # threads do not outlive a fork: in the child, OpenMP ends the program
FLAGS = {"contract", "reassoc"}
# only loops that are written so run on threads: what is not named counts as asked for
OFF = ("comprehension", "reduction", "inplace_binop", "setitem", "numpy", "stencil", "fusion")
ON_THREADS = {"prange": True, **dict.fromkeys(OFF, False)}
CHOICES = {"maximum", "minimum", "max", "min"}
vrange = range  # of a loop whose iterations may run side by side, in one vector


def kernel(function=None, *, parallel="auto", boundscheck=False, reassociate=True):
    """A function of loops over scalars, compiled by Numba on its first call.

    ``parallel``: its ``prange`` loops run on several threads always, never, or where an array is
    large, or measured to be quicker so (threads wait for cores that other programs use), or, if
    it is "measured", only there.
    ``boundscheck``: an index out of range is an IndexError, and it runs on one thread; without it,
    all are proven to be inside. Without ``reassociate``, sums are made in the order in which they
    are written, and no product is fused with one. With ``CALQUE_JIT=0`` in the environment the
    function runs as it is, for a debugger to step through.
    """
    if function is None:
        given = {"parallel": parallel, "boundscheck": boundscheck, "reassociate": reassociate}
        return functools.partial(kernel, **given)
    if os.environ.get("CALQUE_JIT") == "0":
        return uncompiled(function)
    keep_memory()
    options = {"error_model": "numpy", "nogil": True, "boundscheck": bool(boundscheck)}
    options["pipeline_class"] = _Proven if boundscheck is False else Wrapping
    options["fastmath"] = FLAGS if reassociate else False
    serial = njit(**options)(function)
    if boundscheck or parallel is False or not _has_prange(function):
        return serial
    threads = njit(parallel=dict(ON_THREADS), **options)(function)
    measured, always = (0, 0) if parallel is True else (MEASURED_FROM, PARALLEL_FROM)
    always = sys.maxsize if parallel == "measured" else always
    arrays: list[int] = []  # the places of the arguments that are arrays
    paces: dict[int, Pace] = {}  # by the size of the largest array, in powers of two
    aside = VersionChoice(serial, threads)

    @functools.wraps(function)
    def launch(*args):
        if not arrays:
            arrays.extend(k for k, a in enumerate(args) if isinstance(a, np.ndarray))
        size = 0
        for k in arrays:
            if args[k].size > size:
                size = args[k].size
        if size < measured or os.getpid() != PROCESS:
            return (threads if aside.is_parallel(False, args) else serial)(*args)
        if size >= always:
            if not aside.is_parallel(True, args):
                return serial(*args)
            start_threads()
            return threads(*args)
        width = size.bit_length()
        if width not in paces:
            paces[width] = Pace()
        wanted = paces[width].on_threads
        if aside.is_parallel(wanted, args) != wanted:
            return (serial if wanted else threads)(*args)  # its time says nothing of the other's
        start_threads()
        return paces[width].run(serial, threads, args)

    vars(launch).update(versions=(serial, threads), aside=aside)
    return launch


class VersionChoice:
    """Chooses the version of a kernel that answers a call: the wanted one, or what there is.

    The first call for arguments of some types waits for a compiler. No later call does: where it
    wants the other version, the one that is there answers until the other has been made aside, by
    ``makers``. With ``never_wait`` the first call does not wait for the version for threads either.
    """

    def __init__(self, serial, threads):
        # types with machine code: there are none where Numba is told to compile nothing
        self.made = {p: getattr(v, "overloads", {}) for p, v in ((False, serial), (True, threads))}
        self.covered = {False: 0, True: 0}  # of the other version: as many have this one, too
        self.makers = {}  # by "parallel" or not: each is told the types, and returns at once
        self.never_wait = False

    def is_parallel(self, wanted, args):
        """Return whether the version for threads runs where it is wanted, or where it is not."""
        mine, other = self.made[wanted], self.made[not wanted]
        cautious = wanted and self.never_wait
        count = len(other)
        if count == self.covered[wanted] and not cautious:
            return wanted
        if wanted not in self.makers or os.getpid() != PROCESS:
            return wanted
        types = tuple(map(typeof, args))
        if types in mine:
            if all(t in mine for t in tuple(other)):
                self.covered[wanted] = count
            return wanted
        if types not in other and not cautious:
            return wanted  # a first call
        self.makers[wanted](types)
        return not wanted


def _has_prange(function):
    """True if a kernel, or a part that it calls, has a loop for threads."""
    names = function.__code__.co_names
    called = (function.__globals__.get(n) for n in names)
    parts = [c.py_func for c in called if hasattr(c, "on_threads")]
    return "prange" in names or any("prange" in p.__code__.co_names for p in parts)


def kernel_part(function):
    """A function that kernels alone call, with no index to check: compiled within each of them.

    On several threads its text stands in the place of its calls: its loops are the kernel's own.
    """
    if os.environ.get("CALQUE_JIT") == "0":
        return function
    options = {"error_model": "numpy", "nogil": True, "boundscheck": False, "fastmath": FLAGS}
    options["pipeline_class"] = _Proven
    part = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
    part.on_threads = njit(inline="always", **options)(function)
    return part


@functools.cache
def start_threads():
    """Start Numba's threads such that those that wait sleep: else they take BLAS's threads' cores.

    libgomp reads how long they spin from the environment, once, when it is loaded.
    """
    if {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        return
    os.environ["GOMP_SPINCOUNT"] = "0"
    try:
        numba_threads._launch_threads()
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def uncompiled(function):
    """The same function in plain Python: numbers count as NumPy's do, and no warning is given."""

    @functools.wraps(function)
    def run(*args):
        with np.errstate(all="ignore"):
            found = function(*[np.asarray(a)[()] if type(a) in (float, int) else a for a in args])
        several = found if isinstance(found, tuple) else (found,)
        plain = tuple(x.item() if isinstance(x, np.generic) else x for x in several)
        return plain if isinstance(found, tuple) else plain[0]

    return run


@intrinsic
def _from_start(typingctx, index):
    if isinstance(index, Integer) and getattr(index, "signed", False):
        signature = uintp(index)

        def code(context, builder, signature, args):
            return context.cast(builder, args[0], signature.args[0], uintp)

        return signature, code

    def same(context, builder, signature, args):
        if context.enable_nrt:  # where references are counted
            context.nrt.incref(builder, signature.return_type, args[0])
        return args[0]

    return index(index), same


@register_pass(mutates_CFG=False, analysis_only=False)
class _CountFromStart(FunctionPass):
    """Makes every computed index unsigned, so that none is taken from the end if negative.

    Numba chooses between ``i`` and ``i + n`` at each access, which keeps LLVM from seeing that a
    loop goes over memory in order; a loop that counts down ran ten times slower.
    """

    _name = "calque_count_from_start"

    def __init__(self):
        FunctionPass.__init__(self)

    def run_pass(self, state):
        """Rewrite the indices of all reads and stores."""
        self.unread = set()  # tuples that only these read
        for block in state.func_ir.blocks.values():
            body: list[object] = []
            for s in block.body:
                value = getattr(s, "value", None)
                if isinstance(s, numba_ir.SetItem):
                    s.index = self._unsigned(state.func_ir, block.scope, s.index, body)
                elif isinstance(value, numba_ir.Expr) and value.op == "getitem":
                    value.index = self._unsigned(state.func_ir, block.scope, value.index, body)
                body.append(s)
            block.body = body
        for block in state.func_ir.blocks.values():
            block.body = [s for s in block.body if not self._is_unread(s)]
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True

    def _is_unread(self, s):
        return isinstance(s, numba_ir.Assign) and s.target.name in self.unread

    def _unsigned(self, function, scope, index, body):
        made = guard(get_definition, function, index)
        if isinstance(made, (numba_ir.Const, numba_ir.Global, numba_ir.FreeVar)):
            return index  # written as a number: it may be negative
        where = index.loc
        if isinstance(made, numba_ir.Expr) and made.op == "build_tuple":
            if index.name.startswith("$"):  # of this access, and of no variable
                self.unread.add(index.name)
            items = [self._unsigned(function, scope, item, body) for item in made.items]
            value = numba_ir.Expr.build_tuple(items, where)
        else:
            cast = numba_ir.Var(scope, mk_unique_var("$from_start"), where)
            function_itself = numba_ir.Global("_from_start", _from_start, where)
            body.append(numba_ir.Assign(function_itself, cast, where))
            value = numba_ir.Expr.call(cast, [index], (), where)
        out = numba_ir.Var(scope, mk_unique_var("$place"), where)
        body.append(numba_ir.Assign(value, out, where))
        return out


class _Distinct(ir.MDValue):
    """A metadata node that is like no other."""

    __eq__, __ne__, __hash__ = object.__eq__, object.__ne__, object.__hash__

    def __init__(self, module):
        super().__init__(module, (), str(len(module.metadata)))

    def descr(self, buf):
        """Write the text of the metadata."""
        super().descr(buf)
        buf[-2] = f"distinct {buf[-2]}"


class _SideBySide(Lower):
    """Tells LLVM that no iteration of a ``vrange`` loop touches what another one writes.

    See "llvm.loop.parallel_accesses" in LLVM's language reference. Else LLVM compares all addresses
    before each loop, and gives up where arrays are many or rows of one array meet in a nest.
    """

    def lower_block(self, block):
        """Note which of LLVM's blocks are of which of Numba's."""
        before = len(self.function.blocks)
        here = self.builder.basic_block
        self.in_block = id(block)
        super().lower_block(block)
        made = self.__dict__.setdefault("made", {})
        made[here] = [here, *self.function.blocks[before:]]

    def lower_function_body(self):
        """Write the function, with metadata on its loops."""
        loops = compute_cfg_from_blocks(self.blocks).loops().values()
        headers = {loop.header for loop in loops}
        innermost = [loop for loop in loops if headers & set(loop.body) == {loop.header}]
        self.kept = {}
        for loop in innermost:
            self._note_kept(loop)
        entry = super().lower_function_body()
        for loop in innermost:
            if self._over_vrange(self.blocks[loop.header]):
                self._annotate(loop)
        return entry

    def _note_kept(self, loop):
        """Note, block by block, the arrays into which iterations may store unchanged elements."""
        statements = [s for label in loop.body for s in self.blocks[label].body]
        stored = {s.target.name for s in statements if isinstance(s, numba_ir.SetItem)}
        values = [s.value for s in statements if isinstance(s, numba_ir.Assign)]
        calls = [v.func for v in values if isinstance(v, numba_ir.Expr) and v.op == "call"]
        called = [guard(get_definition, self.func_ir, f) for f in calls]
        chosen = any(isinstance(f, numba_ir.Global) and f.name in CHOICES for f in called)
        if chosen or len(loop.body) > 2:
            self.kept.update((id(self.blocks[label]), stored) for label in loop.body)

    def lower_getitem(self, resty, expr, value, index, signature):
        """Load an element; hide from LLVM that it may be stored unchanged.

        Else LLVM stores only the other elements, with a mask, which takes several times as long on
        some processors as to store all.
        """
        found = super().lower_getitem(resty, expr, value, index, signature)
        if not isinstance(resty, Float) or value.name not in self.kept.get(self.in_block, ()):
            return found
        same = self.module.declare_intrinsic("llvm.canonicalize", [found.type])
        return self.builder.call(same, [found])

    def _over_vrange(self, header):
        steps = [s.value for s in header.body if isinstance(s, numba_ir.Assign)]
        for step in steps:
            if isinstance(step, numba_ir.Expr) and step.op == "iternext":
                made = guard(get_definition, self.func_ir, step.value)
                call = made and guard(get_definition, self.func_ir, made.value)
                called = call and guard(get_definition, self.func_ir, call.func)
                return isinstance(called, numba_ir.Global) and called.name == "vrange"
        return False

    def _annotate(self, loop):
        start = self.blkmap[loop.header]
        blocks = [b for label in loop.body for b in self.made[self.blkmap[label]]]
        back = [b.terminator for b in blocks if start in getattr(b.terminator, "operands", ())]
        if len(back) != 1:
            return
        group = _Distinct(self.module)
        access = self.module.add_metadata(
            [ir.MetaDataString(self.module, "llvm.loop.parallel_accesses"), group]
        )
        own = _Distinct(self.module)
        own.operands = (own, access)
        back[0].set_metadata("llvm.loop", own)
        for block in blocks:
            for s in block.instructions:
                if isinstance(s, (ir.LoadInstr, ir.StoreInstr)):
                    # a variable may carry a value from one iteration to the next: a sum
                    if not isinstance(s.operands[-1], ir.AllocaInstr):
                        s.set_metadata("llvm.access.group", group)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):
    """Numba's last step, with metadata on loops."""

    _name = "calque_lowering"

    @property
    def lowering_class(self):
        """The class that writes LLVM's instructions."""
        return _SideBySide


class _Proven(Wrapping):
    """The compiler for functions whose computed indices are all proven to be in bounds."""

    def define_pipelines(self):
        """The compiler's passes and one more."""
        (passes,) = super().define_pipelines()
        passes.add_pass_after(_CountFromStart, ReconstructSSA)
        passes.passes = [
            (_Lowering if step is NativeLowering else step, told) for step, told in passes.passes
        ]
        passes.finalize()
        return [passes]
