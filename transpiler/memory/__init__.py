"""Memory passes: alias analysis, the copies that in-place stores need, and buffer reuse.

In comes Core, where a store makes a new version of an array; out comes Core with explicit copies,
and with arrays allocated once instead of in every iteration. Read ``printed_program``, ``alias``,
``live_values``, ``bufferize`` and ``copies``, with which printing begins, and ``donation``, with
which its passes end; ``buffer_reuse``, ``hoisted_allocation`` and ``data_layout`` are passes of
``jit``.
"""
