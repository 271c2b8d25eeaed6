"""Diagnostics of a program: where a NaN arises, which derivative is wrong, where each line runs.

In comes Core; out come checks after each statement (``finite_checks``), single statements as
programs (``single_statements``), and for each line whether it is in a kernel (``placements``).
``parsing`` reads the text that ``ir.text`` prints. Read any of them first.
"""
