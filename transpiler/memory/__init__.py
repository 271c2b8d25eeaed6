"""Which values share memory, and whose memory can be used again.

In comes Core, where a store gives a new version; out go the copies that in-place stores need, and
arrays made once instead of once a round. Read ``printed_program``, ``alias``, ``live_values``,
``bufferize`` and ``copies``, with which printing begins; ``buffer_reuse``,
``hoisted_allocation`` and ``data_layout`` are passes.
"""
