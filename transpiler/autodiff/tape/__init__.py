"""The tape: how the reverse sweep gets values of the forward sweep, and the arrays that save them.

In come the values that derivative rules read; out goes, for each, whether it is at hand, read
again, recomputed, restored or saved; and arrays with a value of each iteration. Read ``policy``,
then ``unsaved_elements`` with ``access_order``, and ``storage``, ``nest_storage`` and
``ragged_storage``; ``trip_counts`` counts iterations, and ``restored_versions``
says which versions of arrays the sweep can restore.
"""
