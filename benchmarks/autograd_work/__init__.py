"""Stand-ins for autograd's modules, over calque and plain NumPy and SciPy."""
