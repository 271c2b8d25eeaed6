"""Core to Core: one transformation a file."""
