"""A kernel's elements, sizes and loops in few instructions.

Numba copies an array's whole descriptor at each access, some forty instructions that LLVM has to
remove again, and a loop over a range takes a hundred. Here an access is the arithmetic of the
address and one load; the members of arguments' descriptors are read once, at the function's start.
"""

from __future__ import annotations

import functools
from typing import Any

from numba.core import ir, types
from numba.core.cgutils import alloca_once_value, gep_inbounds, pointer_add
from numba.core.ir_utils import get_definition, guard
from numba.core.lowering import Lower
from numba.core.types.containers import BaseTuple, Pair
from numba.core.types.iterators import RangeIteratorType, RangeType
from numba.core.types.misc import SliceType
from numba.np.arrayobj import load_item, store_item

PLAIN = types.Number, types.Boolean, types.Dummy, RangeType, RangeIteratorType, SliceType
DATA, SHAPE, STRIDES = 4, 5, 6  # members of an array, as Numba has them


def is_plain(t: Any) -> bool:
    """True if a type's values hold no memory."""
    if isinstance(t, BaseTuple):
        return all(map(is_plain, t))
    if isinstance(t, Pair):
        return is_plain(t.first_type) and is_plain(t.second_type)
    return isinstance(t, PLAIN)


class ShortLowering(Lower):
    """Numba's lowering, with short forms of what kernels are full of."""

    def init(self) -> None:
        """Start with empty tables."""
        super().init()
        self._given: dict[str, dict[Any, Any]] = {}  # arrays that are arguments: their members
        self._tuples: dict[str, list[tuple[Any, Any]]] = {}  # of numbers: these, and their types
        self._steps: dict[str, tuple[Any, Any, int]] = {}  # ranges: number, iterations left, step
        self._counters: dict[str, tuple[Any, Any]] = {}  # a range's number, and whether it has one
        self._once: bool | None = None  # whether each range is gone through in one place

    # variables

    def loadvar(self, name: str) -> Any:
        """A variable's value."""
        if name not in self._tuples:
            return super().loadvar(name)
        t = self.typeof(name)
        parts = [
            self.context.cast(self.builder, value, own, wanted)
            for (value, own), wanted in zip(self._tuples[name], t, strict=True)
        ]
        return self.context.make_tuple(self.builder, t, parts)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Give a variable a value; the one before is let go of where it holds memory."""
        t = self.typeof(name)
        if self.context.enable_debuginfo or argidx is not None or not is_plain(t):
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, t)
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Let go of a value, where there is one."""
        if not any(name in known for known in (self._tuples, self._steps, self._counters)):
            super().delvar(name)

    def lower_assign(self, ty: Any, inst: ir.Assign) -> Any:
        """A statement's value; of an array that is an argument, its members for all accesses."""
        found = super().lower_assign(ty, inst)
        name = inst.target.name
        if isinstance(inst.value, ir.Arg) and _has_elements(ty) and self._made_once(name):
            self._given[name] = {DATA: self.builder.extract_value(found, DATA)}
            for member in (SHAPE, STRIDES):
                for axis in range(ty.ndim):
                    place = member, axis
                    self._given[name][place] = self.builder.extract_value(found, list(place))
        return found

    def _made_once(self, name: str) -> bool:
        return len(self.func_ir._definitions[name]) == 1

    # statements that need no instructions of their own, or few

    def is_short(self, s: ir.Assign) -> bool:
        """True if a statement is written here, in short, or left to those that read its value."""
        name, value = s.target.name, s.value
        if isinstance(value, ir.Var) and value.name in self._steps:
            self._steps[name] = self._steps[value.name]
            return True
        if not isinstance(value, ir.Expr):
            return False
        match value.op:
            case "getiter":
                return self._begin(name, value.value.name)
            case "iternext" if value.value.name in self._steps:
                self._counters[name] = self._next(*self._steps[value.value.name])
            case "pair_first" if value.value.name in self._counters:
                self._receive(name, self._counters[value.value.name][0], types.int64)
            case "pair_second" if value.value.name in self._counters:
                self._receive(name, self._counters[value.value.name][1], types.boolean)
            case "call" if name.startswith("$place") and self._are_integers(value.args):
                (index,) = value.args
                self._receive(name, self.loadvar(index.name), self.typeof(index.name))
            case "build_tuple" if name.startswith("$place") and self._are_integers(value.items):
                given = [v.name for v in value.items]
                self._tuples[name] = [(self.loadvar(n), self.typeof(n)) for n in given]
            case "getattr" if value.attr == "shape" and value.value.name in self._given:
                if not self._made_once(name):
                    return False
                known, axes = self._given[value.value.name], range(self.typeof(name).count)
                self._tuples[name] = [(known[SHAPE, axis], types.intp) for axis in axes]
            case _:
                return False
        return True

    def _receive(self, name: str, value: Any, t: Any) -> None:
        self.storevar(self.context.cast(self.builder, value, t, self.typeof(name)), name)

    def _are_integers(self, variables: Any) -> bool:
        return all(isinstance(self.typeof(v.name), types.Integer) for v in variables)

    # loops over ranges

    def _begin(self, name: str, given: str) -> bool:
        """Start to go through a range whose steps are of one; False where it is another thing."""
        t, step = self.typeof(given), self._step(given)
        if not isinstance(t, RangeType) or t.dtype != types.int64 or step is None:
            return False
        if self._once is None:
            kinds = self.fndesc.typemap
            named = [n for n in self.func_ir._definitions if n in kinds]
            ranges = [n for n in named if isinstance(kinds[n], RangeIteratorType)]
            self._once = all(map(self._made_once, ranges))
        if not self._once:
            return False
        whole = self.loadvar(given)
        start, stop = (self.builder.extract_value(whole, k) for k in (0, 1))
        count = self.builder.sub(stop, start) if step > 0 else self.builder.sub(start, stop)
        some = self.builder.icmp_signed(">", count, count.type(0))
        count = self.builder.select(some, count, count.type(0))
        places = [alloca_once_value(self.builder, v) for v in (start, count)]
        self._steps[name] = (*places, step)
        return True

    def _step(self, name: str) -> int | None:
        """The step of a range, if it is one or minus one; else None."""
        made = guard(get_definition, self.func_ir, name)
        if not isinstance(made, ir.Expr) or made.op != "call" or made.kws or made.vararg:
            return None
        if len(made.args) < 3:
            return 1
        step = guard(get_definition, self.func_ir, made.args[2])
        return step.value if isinstance(step, ir.Const) and step.value in (1, -1) else None

    def _next(self, number: Any, left: Any, step: int) -> tuple[Any, Any]:
        """A range's next number, and whether there is one."""
        now, count = self.builder.load(number), self.builder.load(left)
        more = self.builder.icmp_signed(">", count, count.type(0))
        self.builder.store(self.builder.sub(count, count.type(1), flags=["nsw"]), left)
        self.builder.store(self.builder.add(now, now.type(step)), number)
        return now, more

    # elements and sizes

    def lower_expr(self, resty: Any, expr: ir.Expr) -> Any:
        """An expression's value; a size is known from the start on."""
        if expr.op == "static_getitem" and expr.value.name in self._tuples:
            if isinstance(expr.index, int):
                number, t = self._tuples[expr.value.name][expr.index]
                return self.context.cast(self.builder, number, t, resty)
        return super().lower_expr(resty, expr)

    def lower_getitem(
        self, resty: Any, expr: ir.Expr, value: ir.Var, index: ir.Var, signature: Any
    ) -> Any:
        """An element, or what Numba has of a part of an array."""
        place = self._place_of(value.name, index)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        t = self.typeof(value.name)
        found = load_item(self.context, self.builder, t, place)
        return self.context.cast(self.builder, found, t.dtype, resty)

    def lower_setitem(
        self, target_var: ir.Var, index_var: ir.Var, value_var: ir.Var, signature: Any
    ) -> None:
        """Store into an element, or what Numba does to a part of an array."""
        given = self.typeof(value_var.name)
        is_number = isinstance(given, (types.Number, types.Boolean))
        place = self._place_of(target_var.name, index_var) if is_number else None
        if place is None:
            super().lower_setitem(target_var, index_var, value_var, signature)
            return
        t = self.typeof(target_var.name)
        value = self.loadvar(value_var.name)
        value = self.context.cast(self.builder, value, given, signature.args[2])
        value = self.context.cast(self.builder, value, signature.args[2], t.dtype)
        store_item(self.context, self.builder, t, value, place)

    def _place_of(self, name: str, index: ir.Var) -> Any:
        """The address of an element; None where its index is not all integers from the start."""
        t = self.typeof(name)
        if not _has_elements(t) or self.context.enable_boundscheck:
            return None
        parts = self._tuples.get(index.name)
        if parts is None:
            if not isinstance(self.typeof(index.name), types.Integer):
                return None
            parts = [(self.loadvar(index.name), self.typeof(index.name))]
        places = [self._from_start(*part) for part in parts]
        return self._address(name, t, places) if len(places) == t.ndim and all(places) else None

    def _from_start(self, number: Any, t: Any) -> Any:
        """An index as a number; None where it may be counted from the end."""
        if isinstance(t, types.IntegerLiteral):
            known = t.literal_value
            return self.context.get_constant(types.intp, known) if known >= 0 else None
        return None if t.signed else self.context.cast(self.builder, number, t, types.uintp)

    def _address(self, name: str, t: Any, places: list[Any]) -> Any:
        if t.layout == "A":
            strides = [self._member(name, (STRIDES, axis)) for axis in range(t.ndim)]
            offsets = [self.builder.mul(s, p) for s, p in zip(strides, places, strict=True)]
            offset = functools.reduce(self.builder.add, offsets)
            return pointer_add(self.builder, self._member(name, DATA), offset)
        order = range(t.ndim) if t.layout == "C" else range(t.ndim)[::-1]
        terms = []
        for k, axis in enumerate(order):
            sizes = [self._member(name, (SHAPE, inner)) for inner in order[k + 1 :]]
            step = functools.reduce(self.builder.mul, sizes) if sizes else None
            terms.append(places[axis] if step is None else self.builder.mul(places[axis], step))
        offset = functools.reduce(self.builder.add, terms)
        return self.builder.gep(self._member(name, DATA), [offset])

    def _member(self, name: str, place: Any) -> Any:
        """A number that is known of an array, or where its elements are."""
        if name in self._given:
            return self._given[name][place]
        path = place if isinstance(place, tuple) else (place,)
        if name in self._blk_local_varmap and not self._disable_sroa_like_opt:
            return self.builder.extract_value(self._blk_local_varmap[name], list(path))
        return self.builder.load(gep_inbounds(self.builder, self.getvar(name), 0, *path))


def _has_elements(t: Any) -> bool:
    """True if a type is of arrays of numbers, with axes."""
    is_array = isinstance(t, types.Array) and t.ndim > 0
    return is_array and isinstance(t.dtype, (types.Number, types.Boolean))
