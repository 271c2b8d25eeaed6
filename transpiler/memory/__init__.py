"""Which values share memory, and whose memory can be used again.

In comes Core, where a store gives a new version; out go the copies that in-place stores need
(``bufferize``, on the ``printed_program``, with ``alias`` and ``live_values``), and arrays made
once instead of once a round (``buffer_reuse``, ``hoisted_allocation``, ``data_layout``).
"""
