"""The sparsity of derivatives: the inputs that results may depend on, read from Core.

In come programs of Core, with sizes for their dimensions; out come sets of inputs for the elements
of their results. Read ``reached_inputs``, then ``detection``; the rules of operations are in
``rules``, ``place_rules``, ``product_rules`` and ``filter_rules``.
"""
