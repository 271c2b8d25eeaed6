"""Loop passes: lower statements on whole arrays to loops over scalars, and optimize the loops.

In comes Core on arrays; out comes Core whose loops a kernel can hold. Read ``array_lowering``, with
``fusion``, ``fusion_groups``, ``virtual_arrays`` and ``nest_builder``; then ``accesses`` and
``dependence``, which every other pass uses: ``interchange``, ``distribution``,
``index_set_splitting``, ``array_contraction``, ``scatter_to_gather``, ``scalar_replacement``,
``parallelize``, ``bounds_checks``, ``hoisted_products``. ``passes`` has their order.
"""
