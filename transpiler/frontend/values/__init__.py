"""Values besides arrays: what a list, a dict, an object or None is while a program is read.

In come Python's values and recorded ones; out go their contents, kept and put back when a branch or
a loop tries something (``heap``), and the arrays that stand for lists of run-time length. Read
``heap``, ``list_arrays`` with ``lists`` and ``growing_lists``; ``optional`` and ``key_presence``.
"""
