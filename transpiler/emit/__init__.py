"""Core to text."""
