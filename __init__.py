"""calque writes the derivative of a NumPy function as NumPy source that a person can review."""

__version__ = "0.1.0"
