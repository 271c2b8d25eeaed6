"""Arguments of a function that a file holds, JSON or npz, as in ``--args @args.json``."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import re
import typing
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace, UnionType
from typing import Any

import numpy as np

from calque.runtime import record_types
from calque.runtime.spec import Spec, annotation_tree, leaves, names_of, spec
from calque.transpiler.errors import SpecError

# a text that is meant as the type of an array, right or wrong
_LIKE_A_TYPE = re.compile(r"\s*[a-z]+\d+\s*\[")
_JSON = 'as in {"w": [1.0, 2.0], "x": "f8[n,3]"}'


def file_args(path: str, fn: Callable[..., Any]) -> tuple[Any, ...]:
    """The arguments of a function that a file holds by the names of its parameters.

    ``path`` ends with ``.json`` or ``.npz``. Raises SpecError for a file that cannot be read, and
    for names and values that do not fit the function's parameters.
    """
    readers = {".json": _json_values, ".npz": _npz_values}
    reader = readers.get(os.path.splitext(path)[1].lower())
    if reader is None:
        raise SpecError(f"{path or '@'} is neither a .json nor a .npz file.")
    try:
        values = reader(path)
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, KeyError, RecursionError, zipfile.BadZipFile) as error:
        raise SpecError(f"{path} cannot be read: {_reason(error)}") from None
    try:
        return _by_parameter(values, fn)
    except SpecError as error:
        raise SpecError(f"{path}: {error.message}", hint=error.hint) from None
    except RecursionError as error:
        raise SpecError(f"{path} cannot be read: {_reason(error)}") from None


def doubts(fn: Callable[..., Any], args: tuple[Any, ...]) -> tuple[list[str], list[str]]:
    """Remarks on a function's arguments from a JSON file, which say why an error may have come.

    The first are for any error, the second for those about integers where floats are needed.

    >>> doubts(lambda x, k: x * k, ([np.ones(2), np.ones(1)], 3))[1]
    ['k is a whole number: write 1.0 for 1, or annotate it, as in k: float']
    """
    found: list[str] = []
    integers: list[str] = []
    for parameter, value in zip(inspect.signature(fn).parameters.values(), args):
        nullable = parameter.default is None or parameter.annotation is not parameter.empty
        for place, part in _parts(value, parameter.name):
            if part is None and not nullable:
                found.append(f"{place} is null, which is None in Python")
            if isinstance(part, list) and len({np.shape(item) for item in part}) > 1:
                if all(isinstance(item, np.ndarray) for item in part):
                    found.append(f"{place} became a list, not an array: its lists differ in length")
        if parameter.annotation is not parameter.empty or isinstance(value, bool):
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind == "i":
            hint = f'or annotate it, as in {parameter.name}: "f8[{",".join("nmkl"[: value.ndim])}]"'
            integers.append(f"{parameter.name} holds whole numbers: write 1.0 for 1, {hint}")
        elif isinstance(value, int):
            hint = f"or annotate it, as in {parameter.name}: float"
            integers.append(f"{parameter.name} is a whole number: write 1.0 for 1, {hint}")
    return found, integers


def _parts(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    """A value and the parts of its lists and dicts, each with the words for its place."""
    yield place, value
    if isinstance(value, (list, tuple)):
        for k, part in enumerate(value):
            yield from _parts(part, f"{place}[{k}]")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _parts(part, f"{place}.{key}")


def _reason(error: Exception) -> str:
    """The reason why a file cannot be read, in words."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "allow_pickle" in str(error):
        return "it holds pickled objects, which may run code: save arrays of numbers alone"
    return str(error) or type(error).__name__


def _json_values(path: str) -> Any:
    with open(path, "rb") as file:
        return json.loads(file.read(), object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} stands twice")
    return found


def _npz_values(path: str) -> dict[str, Any]:
    """The arrays of a file; ``p.w`` and ``p.b`` are the parts of p."""
    found: dict[str, Any] = {}
    with open(path, "rb") as file:
        read = np.load(file, allow_pickle=False)
        if isinstance(read, np.ndarray):
            raise ValueError("it holds an array without a name: write it by np.savez")
        for name in read.files:
            *owners, last = name.split(".")
            place = found
            for owner in owners:
                place = place.setdefault(owner, {})
                if not isinstance(place, dict):
                    raise ValueError(f"{name} is a part of {owner}, which is an array")
            if last in place:
                raise ValueError(f"{name} stands twice")
            place[last] = read[name]
    return found


def _by_parameter(values: Any, fn: Callable[..., Any]) -> tuple[Any, ...]:
    """The positional arguments that named values give, each read as its parameter is annotated."""
    if not isinstance(values, dict):
        raise SpecError("Arguments are given by their names.", hint=_JSON)
    parameters = inspect.signature(fn).parameters
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in parameters.items() if parameter.kind in places]
    for name in values:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {close[0]}?" if close else "."
            raise SpecError(f"The function has no positional parameter {name}{hint}")
    space = names_of(fn)
    found: list[Any] = []
    for name in names[: max(map(names.index, values), default=-1) + 1]:
        parameter = parameters[name]
        if name in values and values[name] is None and parameter.default is None:
            found.append(None)
        elif name in values:
            found.append(_argument(values[name], _meaning(parameter.annotation, space), name))
        elif parameter.default is not parameter.empty:
            found.append(parameter.default)
        else:
            raise SpecError(f"The argument {name} is missing.")
    return tuple(found)


def _meaning(annotation: Any, space: Mapping[str, Any]) -> Any:
    """The tree of types, the class or the generic that an annotation stands for; else None.

    >>> _meaning("f8[3]", {}), _meaning(float, {}), _meaning("list[Rod]", {"Rod": str})
    (spec('f8[3]'), spec('float'), list[str])
    """
    if annotation is inspect.Parameter.empty:
        return None
    holder = SimpleNamespace(__annotations__={"given": annotation})
    try:
        found = typing.get_type_hints(holder, dict(space))["given"]
    except Exception:  # a text may be anything
        found = annotation
    if record_types.is_record(found):
        return found
    try:
        return annotation_tree(annotation, space)
    except SpecError:
        return None if isinstance(found, str) else found


def _argument(value: Any, meaning: Any, place: str) -> Any:
    """A value of a file as an argument; ``meaning`` is that of its annotation."""
    if typing.get_origin(meaning) in (typing.Union, UnionType):
        meaning = _chosen(value, typing.get_args(meaning))
    if isinstance(meaning, type) and not record_types.is_record(meaning):
        meaning = _meaning(meaning, {})
    if value is None and isinstance(meaning, Spec):
        raise SpecError(f"{place} is null, and annotated as {meaning.dtype.name}.")
    if isinstance(value, dict):
        return _of_object(value, meaning, place)
    if record_types.is_record(meaning) and value is not None:
        raise SpecError(f"{place} must be an object with the fields of {meaning.__name__}.")
    if isinstance(value, list):
        return _of_list(value, meaning, place)
    if isinstance(value, str):
        return _of_text(value, meaning, place)
    is_scalar = isinstance(meaning, Spec) and not meaning.dims
    if isinstance(value, np.ndarray):
        if value.ndim:
            return value
        is_python = value.dtype.kind == "U" or (is_scalar and meaning.weak)
        return value.item() if is_python else value[()]
    if is_scalar and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _of_number(value, meaning, place)
    return value


def _chosen(value: Any, meanings: Sequence[Any]) -> Any:
    """The member of a union of annotations that a value is for; None for texts, if they fit."""
    if isinstance(value, str) and str in meanings:
        return None
    fitting = (m for m in meanings if isinstance(value, dict) == record_types.is_record(m))
    return next((m for m in fitting if m is not type(None)), None)


def _of_number(value: int | float, meaning: Spec, place: str) -> Any:
    """A number of the annotated dtype: JSON does not tell 2 from 2.0."""
    array = _cast(np.asarray(value), meaning.dtype, place)
    return array.item() if meaning.weak else array[()]


def _cast(array: np.ndarray[Any, Any], dtype: np.dtype[Any], place: str) -> np.ndarray[Any, Any]:
    """An array of the annotated dtype, unless that would lose more than digits."""
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise SpecError(f"{place} is {array.dtype.name}, and annotated as {dtype.name}.")
    return array.astype(dtype)


def _of_text(value: str, meaning: Any, place: str) -> Any:
    """The type that a text describes; any other text is a value, where no array is needed."""
    if meaning is str:
        return value
    try:
        return spec(value)
    except SpecError as error:
        if _LIKE_A_TYPE.match(value) or isinstance(meaning, Spec):
            raise SpecError(f"{place}: {error.message}", hint=error.hint) from None
        return value


def _of_object(value: dict[str, Any], meaning: Any, place: str) -> Any:
    """An instance of the annotated class, a type given by dtype and shape, or a dict."""
    if record_types.is_record(meaning):
        return _of_record(value, meaning, place)
    if "dtype" in value and value.keys() <= {"dtype", "shape"}:
        return _of_shape(value["dtype"], value.get("shape", []), place)
    parts: Mapping[str, Any] = meaning if isinstance(meaning, dict) else {}
    generic = typing.get_args(meaning) if typing.get_origin(meaning) in (dict, Mapping) else ()
    rest = generic[1] if len(generic) == 2 else None
    return {k: _argument(v, parts.get(k, rest), f"{place}.{k}") for k, v in value.items()}


def _of_shape(dtype: Any, shape: Any, place: str) -> Spec:
    """The type that ``{"dtype": "float64", "shape": [3, "n"]}`` gives."""
    dims = shape if isinstance(shape, list) else [shape]
    text = f"{dtype}[{','.join(map(str, dims))}]" if dims else str(dtype)
    try:
        return spec(text)
    except SpecError as error:
        raise SpecError(f"{place}: {error.message}", hint=error.hint) from None


def _of_record(value: dict[str, Any], cls: type, place: str) -> Any:
    """An instance of a dataclass or named tuple with these fields."""
    space, fields = record_types.names_around(cls), record_types.fields_of(cls)
    values = {}
    for name, part in value.items():
        if name not in fields:
            raise SpecError(f"{place}: {record_types.unknown_field(cls, name)}")
        values[name] = _argument(part, _meaning(fields[name].annotation, space), f"{place}.{name}")
        if fields[name].is_static and any(leaves(values[name])):
            raise SpecError(f"{place}.{name} is static: write its value, not its type.")
    try:
        return record_types.instance_of(cls, values, any(leaves(values)))
    except record_types.UnfitRecord as error:
        raise SpecError(f"{place}: {error}") from None


def _of_list(value: list[Any], meaning: Any, place: str) -> Any:
    """A list or tuple where the annotation says so; else an array, if it holds numbers alone."""
    origin, parts = typing.get_origin(meaning) or meaning, list(typing.get_args(meaning))
    if isinstance(meaning, (list, tuple)):
        origin, parts = type(meaning), list(meaning)
    if origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        parts = parts[:1] * len(value)
    elif origin in (list, Sequence) and len(parts) == 1:
        parts = parts * len(value)
    array = None if origin in (list, tuple, Sequence) else _array(value, place)
    if array is not None:
        return _cast(array, meaning.dtype, place) if isinstance(meaning, Spec) else array
    if isinstance(meaning, Spec) and meaning.dims:
        raise SpecError(f"{place} is no array of numbers, and annotated as {meaning}.")
    if parts and len(parts) != len(value):
        raise SpecError(f"{place} must have {len(parts)} items, and has {len(value)}.")
    given = zip(value, parts or [None] * len(value))
    made = [_argument(v, m, f"{place}[{k}]") for k, (v, m) in enumerate(given)]
    return tuple(made) if origin is tuple else made


def _array(value: list[Any], place: str) -> np.ndarray[Any, Any] | None:
    """Nested lists of equal lengths that hold numbers alone, or truth values alone, as an array."""
    kinds = set(map(type, _items(value)))
    if not (kinds <= {int, float} or kinds == {bool}):
        return None
    dtype = {frozenset({int}): np.int64, frozenset({bool}): np.bool_}.get(frozenset(kinds))
    try:
        return np.array(value, dtype or np.float64)
    except ValueError:  # the lists are of several lengths
        return None
    except OverflowError:
        raise SpecError(f"{place} has a number that fits no int64 and no float64.") from None


def _items(value: Any) -> Iterator[Any]:
    """The items of nested lists, in order."""
    for item in value:
        if isinstance(item, list):
            yield from _items(item)
        else:
            yield item
