"""Generated source for reading: as text, as a module, with where it comes from.

In come a transformed function and types; out comes text that runs without calque. Read ``reading``,
then ``provenance`` (the header that ``calque verify`` reads again) and ``writing``.
"""
