"""Checks of derivatives against differences and against each other.

In come a function and its arguments; out goes nothing, or the statement whose derivative is wrong.
Read ``checking``, ``directional``, then ``bisecting``.
"""
