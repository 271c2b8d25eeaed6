"""The version, said in the headers of saved modules."""

__version__ = "0.1.0"
# the oldest and the newest Numba with which saved modules were run, as their headers say
NUMBA_TRIED = "0.61", "0.68"
