"""Branches, loops, generators, ``with``: Python's control flow as Core's If, For, While.

In come syntax trees whose tests or lengths exist at run time only; out go Core's structured
statements, and one state of all names and containers behind them. Read ``branch`` with
``state_join`` and ``value_join``, then ``loop`` with ``phi_inference`` and ``loop_memory``.
"""
