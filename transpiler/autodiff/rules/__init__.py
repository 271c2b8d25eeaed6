"""Calls with rules of their own: custom_jvp, custom_vjp, checkpoint.

In comes a call that an interpreted function makes; out goes one operation that holds the callee's
blocks and its rule's, until the last derivative pass has met it. Read ``rule_tracing``, then one of
``custom_jvp``, ``custom_vjp`` and ``checkpoint``; ``segmented_loops`` keeps a loop's segments.
"""
