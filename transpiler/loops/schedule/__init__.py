"""Schedule primitives: each has one legality test, and one writer; policies say where they pay.

In comes a loop with what a policy wants of it; out comes the rewritten loop, or ``Refused`` with
the reason. Read ``private_arrays``: privatize, contract and expand; then ``permutation``, and
``element_loops``: permute; ``parts``: strip-mine and split at; ``tasks``, with ``scalar_expansion``
and ``loop_splitting``: distribute; ``body_fusion``: fuse.
"""
