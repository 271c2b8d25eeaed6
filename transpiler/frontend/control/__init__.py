"""Branches, loops, generators, ``with``: Python's control flow as Core's If, For, While.

In come syntax trees whose tests or lengths are known only at run time; out go Core's structured
statements, and one joined state of all names and containers after them. Read ``branch`` with
``state_join`` and ``value_join``, then ``loop`` with ``phi_inference`` and ``loop_memory``.
"""
