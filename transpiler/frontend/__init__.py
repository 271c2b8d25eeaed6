"""From the user's source text to Core: an interpreter of Python over recorded arrays."""
