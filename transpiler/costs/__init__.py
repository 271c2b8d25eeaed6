"""Costs of programs as formulas of sizes: operations, memory traffic, and what a sweep saves.

In come traced programs, with symbols for the sizes of their arguments; out come formulas by measure
and by the user's line. Read ``counting`` first, then ``formulas``; the rules of operations are in
``operation_counts``.
"""
