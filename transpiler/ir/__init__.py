"""Core, the small typed language that every pass reads and writes, and what writes it.

In comes nothing: this room knows neither Python's syntax nor NumPy's functions, only tables that
``primitives`` fills. Out go types, dimensions, Core's statements, and the ``Builder`` that records
NumPy code on duck arrays as Core. Read ``types`` and ``core``, then ``builder`` with ``arrays``;
``dims`` with ``sizes``, ``value_ranges`` and ``inequalities`` say what is known of integers, and
``path_conditions`` what a branch adds to it. ``text`` prints a program, ``verify`` says whether it
is well formed. ``target`` is what passes ask of the machine that a kernel is for.
"""
