"""``pmap``, ``shard_map`` and placing: functions and arrays on many devices.

In come a function, a mesh and arguments; out come results of all devices, by an engine of
``engines``. Read ``mapped``, then ``pmapped`` and ``sharded``; ``device_source`` writes the text.
"""
