"""Functions of ``scipy.special`` that kernels call: SciPy's own machine code for one element.

SciPy's functions of arrays are NumPy's ufuncs, whose loops in C hold no lock of Python's. A kernel
calls a loop for one element; or, where ``scipy.special.cython_special`` exports the function itself
for float64, that. Both are called by name, so that machine code may be kept for another process,
where they have other addresses: these are told when a module of kernels is imported.
"""

from __future__ import annotations

import ctypes
import inspect

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin
from numba.np.numpy_support import as_dtype, from_dtype

# of a function of scipy.special, the ufuncs that it is for numbers
_UFUNCS = dict[object, list[np.ufunc]]()


class _UfuncHead(ctypes.Structure):
    """The beginning of a ufunc in memory, which is part of NumPy's binary interface."""

    _fields_ = (
        *(("references", ctypes.c_ssize_t), ("type", ctypes.c_void_p)),
        *((name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")),
        *((name, ctypes.POINTER(ctypes.c_void_p)) for name in ("functions", "data")),
    )


def in_kernels(*functions):
    """Let kernels call functions of ``scipy.special``; of a pair, the second is the ufunc of it."""
    for given in functions:
        function, ufunc = given if isinstance(given, tuple) else (given, inspect.unwrap(given))
        if function not in _UFUNCS:
            _UFUNCS[function] = []
            _tell_numba(function)
        if ufunc not in _UFUNCS[function]:
            _UFUNCS[function].append(ufunc)
            _tell_addresses(ufunc)


def _tell_numba(function):
    """Tell Numba the types of a function's results, and the instructions of a call."""

    class ScipyFunction(AbstractTemplate):
        key = function

        def generic(self, args, kws):
            found = None if kws else _ufunc_loop(function, args)
            if found is None:
                return None
            gives = [from_dtype(np.dtype(c)) for c in found[1].partition("->")[2]]
            return signature(gives[0] if len(gives) == 1 else types.Tuple(gives), *args)

    infer_global(function, types.Function(ScipyFunction))

    @lower_builtin(function, types.VarArg(types.Any))
    def lowered(context, builder, sig, args):
        ufunc, text = _ufunc_loop(function, sig.args)
        takes = [from_dtype(np.dtype(c)) for c in text.partition("->")[0]]
        values = [context.cast(builder, *of) for of in zip(args, sig.args, takes)]
        if {*text} == {*"d->"} and _exported_address(ufunc) is not None:
            return _call_exported(builder, ufunc, values)
        return _call_loop(context, builder, ufunc, text, values, sig.return_type)


def _tell_addresses(ufunc):
    """Tell LLVM the addresses of a ufunc's loops, and of what is exported for it."""
    head = _UfuncHead.from_address(id(ufunc))
    for k, text in enumerate(ufunc.types):
        binding.add_symbol(_loop_symbol(ufunc, text), head.functions[k])
        binding.add_symbol(_loop_symbol(ufunc, text) + ".data", head.data[k])
    if (address := _exported_address(ufunc)) is not None:
        binding.add_symbol(_exported_symbol(ufunc), address)


def _loop_symbol(ufunc, text):
    return f"scipy.special.{ufunc.__name__}.{text}"


def _exported_symbol(ufunc):
    return f"scipy.special.cython_special.{ufunc.__name__}"


def _exported_address(ufunc):
    """The address of the function of float64 numbers in ``cython_special``; None if none is."""
    from scipy.special import cython_special

    head = f"double ({'double, ' * ufunc.nin}int __pyx_skip_dispatch)".encode()
    api, is_valid = cython_special.__pyx_capi__, ctypes.pythonapi.PyCapsule_IsValid
    is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = is_valid.argtypes, ctypes.c_void_p
    for name in (f"{kind}{ufunc.__name__}" for kind in ("", "__pyx_fuse_0", "__pyx_fuse_1")):
        if name in api and is_valid(api[name], head):
            return pointer(api[name], head)
    return None


def _ufunc_loop(function, args):
    """The ufunc, and the types of its loop, that NumPy takes for numbers of some types."""
    try:
        dtypes = [as_dtype(a) for a in args]
    except NotImplementedError:
        return None
    for ufunc in _UFUNCS[function]:
        for text in ufunc.types if ufunc.nin == len(args) else ():
            if all(np.can_cast(d, c) for d, c in zip(dtypes, text)):
                return ufunc, text
    return None


def _call_exported(builder, ufunc, values):
    """Call a function of numbers, whose last argument is Cython's."""
    number, whole = ir.DoubleType(), ir.IntType(32)
    kind = ir.FunctionType(number, [number] * ufunc.nin + [whole])
    called = cgutils.get_or_insert_function(builder.module, kind, _exported_symbol(ufunc))
    return builder.call(called, [*values, whole(0)])


def _call_loop(context, builder, ufunc, text, values, gives):
    """Call a ufunc's loop for one element, whose arguments and results are on the stack."""
    byte, size = ir.IntType(8), context.get_value_type(types.intp)
    pointer = byte.as_pointer()
    takes = [pointer.as_pointer(), size.as_pointer(), size.as_pointer(), pointer]
    symbol = _loop_symbol(ufunc, text)
    kind = ir.FunctionType(ir.VoidType(), takes)
    loop = cgutils.get_or_insert_function(builder.module, kind, symbol)
    data = builder.module.globals.get(f"{symbol}.data")
    if data is None:
        data = cgutils.add_global_variable(builder.module, byte, f"{symbol}.data")
    results = [gives] if ufunc.nout == 1 else list(gives)
    kinds = [v.type for v in values] + [context.get_data_type(t) for t in results]
    places = [cgutils.alloca_once(builder, k) for k in kinds]
    for value, place in zip(values, places):
        builder.store(value, place)
    addresses = cgutils.alloca_once(builder, pointer, len(places))
    steps = cgutils.alloca_once(builder, size, len(places))
    for k, place in enumerate(places):
        builder.store(builder.bitcast(place, pointer), builder.gep(addresses, [size(k)]))
        builder.store(size(0), builder.gep(steps, [size(k)]))
    builder.call(loop, [addresses, cgutils.alloca_once_value(builder, size(1)), steps, data])
    found = [builder.load(place) for place in places[ufunc.nin :]]
    return found[0] if len(found) == 1 else context.make_tuple(builder, gives, found)
