"""Programs whose first calls are timed, in plain NumPy and for JAX."""
