"""Calls with custom rules: custom_jvp, custom_vjp, checkpoint.

In comes a call of an interpreted function; out goes one operation that holds the callee's blocks
and its rule's, until the last derivative pass has processed it. Read ``rule_tracing``, then one of
``custom_jvp``, ``custom_vjp`` and ``checkpoint``; ``segmented_loops`` cuts loops into segments.
"""
