"""What is asked of a program besides running it: where it becomes NaN, where each line runs.

In comes Core; out come checks after each statement (``finite_checks``), the statements one by one
(``single_statements``), and whether each line is in a kernel (``placements``); ``parsing`` reads
back what ``ir.text`` prints. Read any of them first.
"""
