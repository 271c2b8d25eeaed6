"""What calls of Python's and NumPy's own functions mean where they are no operation on arrays.

In come calls with known structure and run-time values; out go values, Core, or a refusal that says
what to write instead. Read ``python_builtins``, ``polyfills`` (Python code that is interpreted in
place of C) and ``substitutes``; ``impure`` and ``surroundings`` know what no program can use.
"""
