"""Calls that derivative passes treat by rules of their own: custom_jvp, custom_vjp, checkpoint."""
