"""What the passes must know about a Core function."""
