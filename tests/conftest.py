"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

# The same examples on every run, and no deadline: two test processes share two cores.
settings.register_profile("calque", deadline=None, derandomize=True, database=None)
settings.load_profile("calque")
