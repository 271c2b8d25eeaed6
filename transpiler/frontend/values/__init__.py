"""Values besides arrays: lists, dicts, objects and None during interpretation.

In come Python's values and recorded ones; out go snapshots of their contents, which branches and
loops restore (``heap``), and the arrays that represent lists of run-time length. Read ``heap`` with
``containers/container_kinds``, ``list_arrays`` with ``lists`` and ``growing_lists``; ``optional``
and ``key_presence``.
"""
