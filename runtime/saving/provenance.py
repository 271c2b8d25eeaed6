"""The header of a saved module: where it comes from, and the command that makes it again."""

from __future__ import annotations

import ast
import functools
import inspect
import operator
import os
import pickle
import shlex
import sys
import textwrap
from collections.abc import Mapping
from types import MethodType, ModuleType
from typing import Any

import numpy as np

from calque.runtime.call.argument_keys import dim_name
from calque.runtime.call.loading import Program
from calque.runtime.call.symbol_letters import letters
from calque.runtime.custom import Checkpoint
from calque.runtime.engines.choosing import ENGINES
from calque.runtime.meshes import Mesh
from calque.runtime.spec import Spec, format_args, function_behind, names_of, parse_args
from calque.runtime.transformed import Transformed
from calque.runtime.version import __version__
from calque.transpiler.errors import SpecError
from calque.transpiler.frontend.callables import default_of
from calque.transpiler.frontend.trace import Traced
from calque.transpiler.ir import pytrees
from calque.transpiler.ir.core import Var
from calque.transpiler.ir.device_arrays import is_device_array
from calque.transpiler.ir.quotients import is_symbol
from calque.transpiler.ir.types import DimLike, dim_symbols, substitute_dim, symbol
from calque.transpiler.transformations.mesh_programs import PartitionSpec
from calque.transpiler.transformations.vmap import Axes

STAGES = ("core", "numpy", "kernels", "cuda")
LOST = "No command makes it again: "


def _inner(transformed: Transformed | Checkpoint) -> Any:
    return transformed.fun if isinstance(transformed, Checkpoint) else transformed.function


def _parts(transformed: Any) -> list[Any]:
    """The functions of which a composition is made: itself first, the plain function last."""
    found = [transformed]
    while isinstance(found[-1], (Transformed, Checkpoint)):
        found.append(_inner(found[-1]))
    return found


def _plain(transformed: Any) -> Any:
    return _parts(transformed)[-1]


def transform_text(transformed: Any, named: Any = None) -> str:
    """``grad(f, argnums=(0, 1))``; f is what its name in the file stands for, decorated or not.

    ``named`` is the part of the composition that has the name, where it is no plain function.
    """
    if transformed is named or not isinstance(transformed, (Transformed, Checkpoint)):
        return "f"
    if _has_name(transformed):
        return "f"
    text = transform_text(_inner(transformed), named)
    if isinstance(transformed, Checkpoint):
        every = "" if transformed.every is None else f", every={transformed.every!r}"
        memory = "" if transformed.memory is None else f", memory={transformed.memory}"
        return f"checkpoint({text}{every}{memory})"
    if transformed.kind == "identity":
        return text
    given, kind = _given(transformed), transformed.kind
    if given.pop("explained", False) and given.get("parallel") is True:
        del given["parallel"]
        kind = "parallel"
    shown = [f"{k}={_written(v)}" for k, v in given.items()]
    return f"{kind}({', '.join([text, *shown])})"


def _given(transformed: Transformed) -> dict[str, Any]:
    """The options that a transformation was given, without those that are its defaults."""
    defaults: dict[str, Any] = {
        "argnums": 0,
        "static_argnums": (),
        "static_argnames": (),
        "parallel": "auto",
        "boundscheck": None,
        "reassociate": True,
        "devices": None,
        "engine": None,
        "check_vma": True,
    }
    options, axes = dict(transformed.options), transformed.options.get("axes")
    options.pop("device", None)  # the text is the same on all
    if isinstance(axes, Axes):  # as vmap was given them
        del options["axes"]
        options |= vars(axes)
        defaults = {**defaults, **vars(Axes())}
    return {k: v for k, v in options.items() if v != defaults.get(k, False)}


def _written(value: Any) -> str:
    """An option as the command has it.

    >>> _written((PartitionSpec("x"), None))
    "(P('x'), None)"
    """
    if isinstance(value, Mesh):
        return f"make_mesh({tuple(value.shape.values())}, {value.axis_names})"
    return repr(value)


def _has_name(transformed: Transformed | Checkpoint) -> bool:
    """True if a module's name stands for the transformed function, which decorators made."""
    module = sys.modules.get(getattr(transformed, "__module__", ""))
    try:
        found = operator.attrgetter(getattr(transformed, "__qualname__", ""))(module)
    except AttributeError:
        return False
    return found is transformed


def provenance(
    transformed: Transformed,
    program: Program,
    args: tuple[Any, ...],
    stage: str | None = None,
    engine: str | None = None,
) -> list[str]:
    """The lines of the header that say where the module comes from."""
    plain = inspect.unwrap(_plain(transformed))
    code = _code(plain)
    types = [types_line(program.traced), *_defaults_lines(program, plain)]
    written = f"Written by calque {__version__}"
    if code is None or not os.path.exists(code.co_filename):
        return [f"{written}.", *types]
    file = os.path.relpath(code.co_filename).replace(os.sep, "/")
    if "\n" in file:
        return [f"{written}.", *types]
    place = f"From {file}, line {code.co_firstlineno}. {written}"
    found = _command(transformed, plain, file, program, args, stage, engine)
    if isinstance(found, Reason):
        lines = textwrap.wrap(f"{LOST}{found}.", 98, subsequent_indent="    ")
        return [f"{place}.", *lines, *types]
    return [f"{place}; regenerate with", f"    {found}", *types]


class Reason(str):
    """The reason why no command makes a module again."""


def _command(
    transformed: Transformed,
    plain: Any,
    file: str,
    program: Program,
    args: tuple[Any, ...],
    stage: str | None,
    engine: str | None,
) -> str | Reason:
    """The command that makes a module again, read back as it will be; or why there is none."""
    name, named = _named_in_file(transformed, plain)
    if name is None:
        return Reason(f"no name in {file} stands for {_described(plain)}")
    transform, specs = transform_text(transformed, named), specs_of(program, args)
    types = format_args(specs)
    if not _are_literals(transformed, named):
        return Reason("a transformation was given what cannot be written in a command")
    if not _is_read_back(types, specs, names_of(plain)):
        return Reason("its arguments cannot be written in a command")
    file = f"./{file}" if file.startswith("-") else file
    words = ["calque", "show", f"{file}:{name}"]
    words += ["--transform", transform] if transform != "f" else []
    words += ["--stage", stage] if stage is not None else []
    words += ["--engine", engine] if engine is not None else []
    words += ["--args", types]
    return " ".join([*words[:2], shlex.quote(words[2]), *map(_quoted, words[3:])])


def _is_read_back(text: str, specs: Any, space: Mapping[str, Any]) -> bool:
    """True if a text of types gives these types again, of the same classes.

    >>> _is_read_back("f8[n], 3", (Spec(np.dtype("f8"), ("n",)), 3), {})
    True
    """
    try:
        found = parse_args(text, space)
    except SpecError:
        return False
    return format_args(found) == text and pytrees.flatten(found)[1] == pytrees.flatten(specs)[1]


def _quoted(word: str) -> str:
    """A word of a command for a shell, in double quotes where nothing in it means more there.

    >>> _quoted("f8[n]"), _quoted("--args"), _quoted("'$x'")
    ('"f8[n]"', '--args', '\\'\\'"\\'"\\'$x\\'"\\'"\\'\\'')
    """
    if word.startswith("--") or word in STAGES or word in ENGINES:
        return word
    return shlex.quote(word) if set(word) & set('"$`\\!') else f'"{word}"'


def _code(plain: Any) -> Any:
    """The code that a function, a method, an object's call, or a partial of one, runs."""
    return getattr(function_behind(plain), "__code__", None)


def _named_in_file(transformed: Any, plain: Any) -> tuple[str | None, Any]:
    """The name in its module of a function, or of a part of what is made of it, and its function.

    The name of the function itself comes first, decorated or not, and None as its part.
    """
    space = names_of(plain)
    parts = _parts(transformed)
    name = _qualified(plain, space) or _global_name(space, plain, parts[-1])
    if name is not None:
        return name, None
    for part in parts[:-1]:
        name = _global_name(space, part)
        if name is not None:
            return name, part
    owner = getattr(plain, "__self__", None)
    made = owner is not None and not isinstance(owner, (type, ModuleType)) and _is_as_made(owner)
    return (plain.__qualname__ if made else None), None


def _qualified(plain: Any, space: dict[str, Any]) -> str | None:
    """``model.loss`` or ``Model.loss``, if that stands for a function."""
    owner = getattr(plain, "__self__", None)
    if owner is not None and not isinstance(owner, (type, ModuleType)):
        name = _global_name(space, owner)
        return None if name is None else f"{name}.{plain.__name__}"
    qualified = str(getattr(plain, "__qualname__", ""))
    first, *others = qualified.split(".")
    try:
        found = functools.reduce(getattr, others, space[first])
    except (KeyError, AttributeError):
        return None
    return qualified if _is_same(found, plain) else None


def _global_name(space: dict[str, Any], *wanted: Any) -> str | None:
    """A name that stands for one of these objects; a method is made anew whenever it is read."""
    for name, value in space.items():
        if any(value is w or (isinstance(value, MethodType) and value == w) for w in wanted):
            return name
    return None


def _is_same(found: Any, plain: Any) -> bool:
    """True if the object that a name stands for is this function, decorated or not."""
    if not callable(found):
        return False
    bare = inspect.unwrap(_plain(found))
    return bare is plain or (isinstance(bare, MethodType) and bare == plain)


def _is_as_made(owner: Any) -> bool:
    """True if an object is what its class makes without arguments, so that it can be made anew."""
    try:
        return _state(type(owner)()) == _state(owner)
    except Exception:  # a user's class may raise anything
        return False


def _state(owner: Any) -> bytes:
    return pickle.dumps(vars(owner))


def _described(plain: Any) -> str:
    """
    >>> _described(functools.partial(abs)), _described(lambda x: x)
    ('this partial', 'this lambda')
    """
    if isinstance(plain, functools.partial):
        return "this partial"
    if isinstance(plain, MethodType):
        return f"the object whose {plain.__name__} it is"
    name = getattr(plain, "__name__", type(plain).__name__)
    return "this lambda" if name == "<lambda>" else str(name)


def _are_literals(transformed: Any, named: Any) -> bool:
    """True if all options of a composition can be written down, and read back."""
    if transformed is named or not isinstance(transformed, (Transformed, Checkpoint)):
        return True
    if _has_name(transformed):
        return True
    given = _given(transformed) if isinstance(transformed, Transformed) else {}
    return all(map(_is_literal, given.values())) and _are_literals(_inner(transformed), named)


def _is_literal(value: Any) -> bool:
    if isinstance(value, Mesh):
        value = value.axis_names
    if isinstance(value, PartitionSpec) or type(value) in (tuple, list):
        return all(map(_is_literal, value))
    if type(value) is dict:
        return all(_is_literal(k) and _is_literal(v) for k, v in value.items())
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _defaults_lines(program: Program, plain: Any) -> list[str]:
    """The defaults that are written into a module: its function does not take them."""
    function = getattr(plain, "__func__", plain)
    given = {parameter.name for parameter in program.traced.function.signature}
    found = {}
    for guard in program.traced.guards:
        path = guard.path
        if path.operation is default_of and path.base.read(plain) is function:
            name = _parameter(function, path.keys[0])
            if name not in given:
                found[name] = _shown(guard.value)
    if not found:
        return []
    shown = ", ".join(f"{name}={value}" for name, value in found.items())
    return textwrap.wrap(f"Defaults: {shown}.", 98, subsequent_indent="    ")


def _parameter(function: Any, key: int | str) -> str:
    """The parameter of a default: by its number among the defaults, or its name."""
    if isinstance(key, str):
        return key
    code = function.__code__
    return str(code.co_varnames[code.co_argcount - len(function.__defaults__) + key])


def _shown(value: Any) -> str:
    """A value as it can be written; else its type, which is the same in every process."""
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return getattr(value, "__name__", f"<{type(value).__name__}>")
    return text


def specs_of(program: Program, args: tuple[Any, ...]) -> Any:
    """The arguments as types, general where the generated code is."""
    leaves, structure = pytrees.flatten(args)
    known = program.known_symbols
    resolve = program.traced.builder.dims.resolve

    def name_of(position: int, axis: int) -> str:
        """The symbol of an axis, which is another's where the program needs equal sizes."""
        found = resolve(symbol(dim_name(position, axis)))
        return next(iter(dim_symbols(found))) if is_symbol(found) else dim_name(position, axis)

    names = [
        name_of(position, axis)
        for position, leaf in enumerate(leaves)
        if isinstance(leaf, np.ndarray) or is_device_array(leaf)
        for axis, size in enumerate(leaf.shape)
        if size != 1 and dim_name(position, axis) not in known
    ]
    own = [d for leaf in leaves if isinstance(leaf, Spec) for d in leaf.dims if isinstance(d, str)]
    table = letters(own + names)

    def spec_of(position: int, leaf: Any) -> Any:
        if isinstance(leaf, (Spec, str, bytes, bool)) or leaf is None:
            return leaf
        if isinstance(leaf, (float, int, complex)):
            whole = position in program.known_leaves | program.asked_leaves
            return leaf if whole else Spec(np.dtype(type(leaf)), (), weak=True)
        value = leaf if is_device_array(leaf) else np.asarray(leaf)
        if position in program.known_leaves:
            return value.item()
        axes = [
            s if dim_name(position, axis) in known else table.get(name_of(position, axis), s)
            for axis, s in enumerate(value.shape)
        ]
        return Spec(value.dtype, tuple(axes))

    return pytrees.unflatten(structure, [spec_of(i, leaf) for i, leaf in enumerate(leaves)])


def types_line(traced: Traced) -> str:
    """``Types: w float64[n], x float64[m, n].``, with the user's letters or letters of its own."""
    resolve = traced.builder.dims.resolve
    params = traced.function.params
    kinds = {p: p.type.with_dims([resolve(d) for d in p.type.dims]) for p in params}
    used = [s for p in params for d in kinds[p].dims for s, _ in getattr(d, "terms", ())]
    values: dict[str, DimLike] = {old: symbol(new) for old, new in letters(used).items()}

    def text(leaf: Any) -> str:
        if not isinstance(leaf, Var):
            return repr(leaf)
        kind = kinds[leaf]
        return str(kind.with_dims([substitute_dim(d, values) for d in kind.dims]))

    found = []
    for parameter in traced.function.signature:
        if parameter.tree is None:
            continue  # a communicator
        made = pytrees.map_leaves(text, parameter.tree)
        shown = made if isinstance(made, str) else str(made).replace("'", "")
        found.append(f"{parameter.name} {shown}")
    lines = textwrap.wrap(f"Types: {', '.join(found)}.", 98, subsequent_indent="    ")
    return "\n".join(lines)
