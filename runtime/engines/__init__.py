"""Engines: they run one program on many devices, and carry the messages between these.

In comes a generated program of one device, with the arguments of each; out come the results of
each. Read ``communicator`` first (the operations of collectives) and ``engine`` (the interface),
then ``threads``, ``gpu_threads``, ``mpi`` and ``mpi_gpus``; ``choosing`` has them by name.
"""
