"""What runs: transformations as callables, arguments, caches, checks."""
