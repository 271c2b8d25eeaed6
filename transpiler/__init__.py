"""From types and source to source; no user's numerical code is run here, no ``runtime`` imported.

In come a Python function and the types of its arguments; out comes the text of a module. Read
``pipeline``, which knows the order; then ``ir``, ``frontend``, ``autodiff`` and ``codegen``. What
``grad`` or ``vmap`` do to a function that is being interpreted stands in ``transformations``.
"""
