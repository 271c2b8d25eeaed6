"""The runtime: transformations as callables, arguments, caches, checks.

In come users' functions and arguments; out come results, computed by programs that ``transpiler``
wrote. Read ``api`` and ``transformed``, then ``call``; ``kernels`` and ``vecmath`` are libraries
that compiled programs call, ``engines`` and ``devices`` run one program on many devices.
"""
