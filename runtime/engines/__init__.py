"""Engines: what runs one program on many devices, and carries what they tell each other.

In comes a generated program of one device, with the arguments of each; out come the results of
each. Read ``communicator`` first (what a collective is made of) and ``engine`` (what an engine
answers), then ``threads``, ``gpu_threads``, ``mpi`` and ``mpi_gpus``; ``choosing`` has them by
name.
"""
