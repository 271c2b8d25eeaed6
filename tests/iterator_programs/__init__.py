"""Programs that make iterators, change what these run over, and consume them later."""
