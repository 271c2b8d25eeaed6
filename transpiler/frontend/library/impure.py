"""Calls that draw random numbers, read files, run text, or read the surroundings of the process."""

from __future__ import annotations

import io
from typing import Any

import gast
import numpy as np

from calque.transpiler.errors import ImpureFunction, UnsupportedSyntax
from calque.transpiler.frontend.callables import is_in
from calque.transpiler.frontend.library.keyed_draws import keyed_call, keyed_call_of_python
from calque.transpiler.frontend.library.scipy_objects import is_scipys
from calque.transpiler.frontend.library.seeded_generators import draws_loaded, seeded
from calque.transpiler.frontend.library.shipped_files import reads_shipped
from calque.transpiler.frontend.library.surroundings import reads_surroundings
from calque.transpiler.frontend.machine import NEXT, Args, Kwargs, Machine
from calque.transpiler.ir.builder import function_name

_EVALUATE = {exec, eval, compile}
_NAMESPACES = {locals, globals, vars, dir}
_FILES = {open, input, np.load, np.save, np.savez, np.savez_compressed, np.loadtxt, np.savetxt}
_FILES |= {np.genfromtxt, np.fromfile}


def refuse_impure(machine: Machine, function: Any, args: Args, kwargs: Kwargs, node: Any) -> Any:
    """Refuse a call that reads or changes state outside of the program; leave others be."""
    made = seeded(machine, function, args, kwargs)
    if made is NEXT:
        made = reads_shipped(machine, function, args, kwargs, node)
    if made is not NEXT:
        return made
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__name__", "")
    plain = module == "random" or type(owner).__module__ == "random"
    random = plain or (
        draws_loaded() and isinstance(owner, (np.random.RandomState, np.random.Generator))
    )
    drawn = name == "rvs" or (name == "resample" and module.startswith("scipy.stats"))
    random = random or (drawn and is_scipys(function))
    if random or (module.startswith("numpy.random") and not isinstance(function, type)):
        values: dict[Any, Any] = dict(enumerate(args))
        values |= kwargs
        machine.fail(
            ImpureFunction,
            node,
            f"{name} draws from a hidden state: generated code would not be a function.",
            _with_a_key(machine, name, values, node, plain),
        )
    if is_in(function, _EVALUATE):
        machine.fail(
            UnsupportedSyntax,
            node,
            f"`{name}` runs text.",
            "write the code itself, in a function",
        )
    if is_in(function, _NAMESPACES) and not args:
        machine.fail(
            UnsupportedSyntax,
            node,
            f"`{name}()` looks names up at run time.",
            "write the name, or keep the values in a dict of your own",
        )
    if module.partition(".")[0] == "tqdm":
        machine.fail(
            ImpureFunction,
            node,
            "tqdm draws a progress bar, which is outside of the function.",
            "loop over what it is given, and use it around calls of the function",
        )
    files = is_in(function, _FILES) or isinstance(owner, io.IOBase)
    if files or reads_surroundings(function):
        machine.fail(
            ImpureFunction,
            node,
            f"{function_name(function)} reads or writes outside the function.",
            "do it outside, and pass the values in",
        )
    return NEXT


def _with_a_key(machine: Machine, name: str, values: dict[Any, Any], node: Any, plain: bool) -> str:
    """The hint for a refused draw: the same draw with a key, if there is such a function."""
    made = None
    if machine.calls and isinstance(node, gast.Call):
        source = machine.call.source
        if plain:
            made = keyed_call_of_python(name, node, source)
        else:
            made = keyed_call(name, node, source, values)
    if made is None:
        return "take a key argument and draw with calque.random, or draw outside and pass it in"
    if made.startswith("key ="):
        return f"make `{made}` outside, take it as an argument, and draw with calque.random"
    return f"take a key argument and write `{made}`"
