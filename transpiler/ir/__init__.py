"""Core, the small typed language that every pass reads and writes, and the builder that records it.

In comes nothing: this package knows neither Python's syntax nor NumPy's functions, only tables that
``primitives`` fills. Out go types, dimensions, Core's statements, and the ``Builder`` that records
NumPy code on duck arrays as Core. Read ``types`` and ``core``, then ``builder`` with ``arrays``;
``dims`` with ``sizes``, ``value_ranges`` and ``inequalities`` hold what is known of integers, and
``path_conditions`` adds what a branch's test implies. Passes ask ``uses`` who reads a value,
``versions`` what an array was and becomes, and ``effects`` what a statement does. ``text`` prints a
program, ``verify`` checks that it is well formed. ``target`` is the interface to the machine that a
kernel is compiled for.
"""
