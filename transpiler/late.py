"""Modules that are imported when first used, so that a program pays for what it uses.

``import calque``, and a first derivative, load the interpreter and the derivative passes. All that
serves fewer programs (kernels, CUDA, devices, SciPy, random numbers) stands behind a ``Late``::

    if TYPE_CHECKING:
        from calque.transpiler import kernel_passes
    else:
        kernel_passes = Late("calque.transpiler.kernel_passes")

Type checkers, and the test of layers, see the import; the program imports the module where it asks
for something in it: ``kernel_passes.KERNEL_PASSES``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


class Late(ModuleType):
    """Stands for a module, which is imported when something in it is first asked for.

    >>> json = Late("json")
    >>> json.dumps([1])
    '[1]'
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__name__))


def names_from(package: str, table: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``: names that are imported when they are asked for.

    ``table`` has them by their modules, as words of one text: names in a module, or of modules in
    a package. What is found stays in the package.
    """
    homes = {name: module for module, names in table.items() for name in names.split()}

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(home), name, None)
        if found is None:
            found = importlib.import_module(f"{home}.{name}")
        setattr(sys.modules[package], name, found)
        return found

    return find
