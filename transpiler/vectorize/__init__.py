"""Batching: one program for many examples, which stand along a leading axis.

In comes Core for one example, and which inputs are batched; out comes Core for all of them. Read
``batch``, then ``divergence`` (values that differ between examples), ``stacking`` (the state of the
pass), ``masking`` (branches) and ``serial_regions`` (shapes that differ between examples).
"""
