"""Loop passes: lower statements on whole arrays to loops over scalars, and optimize the loops.

In comes Core on arrays; out comes Core whose loops a kernel can hold. Read ``array_lowering``, with
``fusion``, ``fusion_groups``, ``virtual_arrays`` and ``nest_builder``; then ``nest`` and
``dependence``, which answer what a loop touches, and in which order. ``schedule`` holds the
rewritings of loops, and ``policies`` decides where they pay; ``index_set_splitting``,
``scatter_to_gather``, ``scalar_replacement``, ``parallelize``, ``bounds_checks`` and others are
passes with a rewriting of their own; ``products`` raises contractions. ``passes`` has their order.
"""
