"""Compositions of transformations: programs, the operators as a user writes them, and an oracle."""
