"""The version, said in the headers of saved modules."""

__version__ = "0.1.0"
