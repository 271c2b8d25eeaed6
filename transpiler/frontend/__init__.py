"""From the user's source text to Core: an interpreter of Python over recorded arrays.

In come a Python function and the types of its arguments; out comes a Core function, with the
guards under which it is valid (``trace``). Python computes with known values; operations on
run-time values are recorded. Read ``source``, ``interpreter``, then ``expressions`` and
``statements``; ``control`` interprets branches and loops, ``values`` has the kinds of values
besides arrays, ``library`` the handlers of Python's and NumPy's own functions, and ``calls`` makes
all other calls.
"""
