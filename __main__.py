# PYTHON_ARGCOMPLETE_OK
"""`python -m calque` is the command `calque`."""

from __future__ import annotations

import sys

from calque.cli import main

if __name__ == "__main__":
    sys.exit(main())
