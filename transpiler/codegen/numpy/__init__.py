"""NumPy source from Core: the text that runs, is shown, saved and stepped through.

In comes a Core function; out comes the ``def`` or the module. Read ``emit``; ``device_launchers``
writes the function around the program of a device.
"""
