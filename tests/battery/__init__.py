"""A battery of ordinary NumPy programs, the oracle that checks their derivatives, and twins for peers."""
