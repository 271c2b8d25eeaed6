"""The tape: what the sweep back needs of the forward sweep's values, and where it is kept.

In come the values that rules ask for; out goes, for each, how it is had (at hand, read again,
recomputed, restored or saved), and arrays that save one value an iteration. Read ``policy``, then
``kept_elements`` with ``access_order``, ``storage``, ``nest_storage`` and ``ragged_storage``;
``trip_counts`` counts iterations, ``versions`` arrays' states.
"""
