"""From the user's source text to Core: an interpreter of Python over recorded arrays.

In come a Python function and the types of its arguments; out comes a Core function, with the
guards under which it holds (``trace``). What is known Python computes, what is not is recorded.
Read ``source``, ``interpreter``, then ``expressions`` and ``statements``; ``control`` has what
branches and loops do, ``values`` the kinds of values besides arrays, ``library`` what calls of
Python's and NumPy's own functions mean, and ``calls`` how all other calls are made.
"""
