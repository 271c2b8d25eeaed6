"""The transpiler: from source and types to source.

The user's numerical code is interpreted here, not run, and ``runtime`` is not imported. In come a
Python function and the types of its arguments; out comes the text of a module. Read ``pipeline``
and ``passes``, the lists of the passes in order; then ``ir``, ``frontend``, ``autodiff`` and
``codegen``.
``transformations`` applies ``grad`` or ``vmap`` to a function that is being interpreted.
"""
