"""Policies: passes that decide which loops a schedule primitive is worth, and for which target.

In comes a function whose statements on arrays are loops; out comes the function with some of its
loops rewritten, and a remark on each loop that was considered. Read ``interchange``, then
``distribution``.
"""
