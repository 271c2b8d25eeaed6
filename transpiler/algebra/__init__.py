"""Rewrites that linear algebra allows: identities, symmetry, triangles, scalars, like terms.

In comes Core on whole arrays; out comes Core that computes the same with less work. Read
``scalar_factoring`` and ``triangular_solves``, which are passes; passes query the other modules.
"""
