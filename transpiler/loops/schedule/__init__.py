"""Schedule primitives: each has one legality test, and one writer; passes decide where they pay.

In comes a loop with what a pass wants of it; out comes the rewritten loop, or ``Refused`` with the
reason. Read ``private_arrays``, with ``privatization``: privatize, contract and expand; then
``permutation``; ``parts``: strip-mine and split at; ``body_fusion``: fuse.
"""
