"""Settings that all tests share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

# The same examples on every run, and no deadline: two test processes share two cores.
settings.register_profile("calque", deadline=None, derandomize=True, database=None)
settings.load_profile("calque")

# JAX is an oracle here: it need not be quick, but it is to compile quickly. Set before its import.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# Compiled kernels go to a folder of this run: nothing of an earlier one is found, nothing stays.
if "CALQUE_CACHE" not in os.environ:
    os.environ["CALQUE_CACHE"] = tempfile.mkdtemp(prefix="calque-tests-")
    atexit.register(shutil.rmtree, os.environ["CALQUE_CACHE"], ignore_errors=True)
