"""Derivatives of Core: forward mode (tangents) and reverse mode (adjoints).

In comes Core, and the inputs to differentiate by; out comes Core that computes derivatives, too.
Read ``forward``; then ``reverse`` with ``unbroadcast`` and ``reverse_loop``; ``tape`` decides how
the reverse sweep gets values of the forward sweep; ``dead_stores`` finds elements that it need not
restore; ``rules`` has calls with derivatives defined by the user.
"""
