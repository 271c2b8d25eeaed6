"""The numbers of random keys, in plain NumPy: nothing is checked here, nothing is recorded.

In come keys, shapes and dtypes that are known to be such; out go arrays of numbers, those of
``jax.random``. ``runtime/random`` is the public face, ``primitives/random`` declares its functions.
Read ``threefry``.
"""
