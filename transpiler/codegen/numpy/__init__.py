"""Core as NumPy source: the text that runs, is shown, saved and stepped through.

In comes a Core function; out comes the ``def`` or the module. Read ``emit``; ``device_launchers``
writes what stands around the program of a device.
"""
