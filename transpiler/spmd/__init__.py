"""Programs for many devices: values that differ between devices, and the messages between them.

In comes the Core of one device's program, with collectives; out goes Core with casts and sums over
axes where the transposes need them (``mesh_variance``), or with a library's calls in place of the
collectives (``library_calls``; those of mpi4py: ``mpi_calls``). Read them in this order.
"""
