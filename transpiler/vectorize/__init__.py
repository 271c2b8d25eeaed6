"""Batching: one program for many examples, which stand along a leading axis.

In comes Core for one example, and which inputs are batched; out comes Core for all of them. Read
``batch``, then ``divergence`` (which values differ between examples), ``stacking`` (what is written
with), ``masking`` (branches) and ``serial_regions`` (what has another shape for each example).
"""
