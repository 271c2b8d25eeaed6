"""From a call to the generated function for its types, and what is kept of it.

In come a transformed function and its arguments; out comes the program for their types, made once.
Read ``dispatch`` with ``argument_keys`` and ``plans``; ``loading`` makes text callable,
``disk_cache`` and ``machine_code`` keep it between processes; ``sharing`` lets functions that are
made anew share programs; ``accounting`` counts programs and kernels, with the reasons.
"""
