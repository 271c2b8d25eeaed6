"""Derivatives of Core: tangents computed along, and the sweep back that accumulates adjoints.

In comes Core, and which inputs are differentiated; out comes Core that computes derivatives, too.
Read ``forward``; then ``reverse`` with ``unbroadcast`` and ``reverse_loop``; ``tape`` says what the
sweep back finds of the forward one; ``dead_stores`` what it need not put back; ``rules`` has calls
whose derivative the user says.
"""
