"""Contractions in loop nests, written as products of whole arrays, which BLAS computes.

In comes Core with loops of the user's or of a reverse sweep; out comes Core in which products that
iterations compute are products of matrices. Read ``raised_products``, the pass; then
``array_sections`` and ``contractions``, the model of what iterations read and multiply.
"""
