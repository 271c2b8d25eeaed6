"""Programs that many devices run: what differs from device to device, and messages between them.

In comes the Core of one device's program, with collectives; out goes Core in which casts and sums
over axes stand where the transposes need them (``mesh_variance``), or the calls of a library that
the collectives are (``library_calls``; those of mpi4py: ``mpi_calls``). Read them in this order.
"""
