"""Handlers for calls of Python's and NumPy's functions that are not operations on arrays.

In come calls with known structure and run-time values; out go values, Core, or a refusal with a
hint for what to write instead. Read ``python_builtins``, which imports the files that register
handlers, ``polyfills`` (Python code that is interpreted in place of C) and ``substitutes``;
``impure`` and ``surroundings`` list the functions that no program can use.
"""
