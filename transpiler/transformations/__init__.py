"""grad, jvp, vmap ... as operations on a function that is being interpreted.

In come a Python function, a transformation's options, and recorded arguments; out come recorded
results, with the transformed block in place of the call. Read ``derivatives``, then ``vmap``,
``jacobian``, ``transpose``, ``implicit`` and ``mesh_programs``. This layer is above the frontend
and the passes, for it uses both.
"""
