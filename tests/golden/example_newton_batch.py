"""kepler for a batch of arguments.

From examples/newton_batch.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/newton_batch.py:kepler --transform "vmap(f)" --args "f8[n], f8[n]"
Types: mean float64[n], eccentricity float64[n].
"""
import numpy as np


def kepler_vmap(mean, eccentricity):
    live = np.abs(mean - eccentricity * np.sin(mean) - mean) > 1e-12
    e = mean.copy()  # the argument is kept as it is
    while np.any(live):
        lanes = np.flatnonzero(live)
        eccentricity_lanes = eccentricity[lanes]
        mean_lanes = mean[lanes]
        e_lanes = e[lanes]
        e_lanes_numerator = e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean_lanes
        e_lanes -= e_lanes_numerator / (1.0 - eccentricity_lanes * np.cos(e_lanes))
        e[lanes] = e_lanes
        live[lanes] = np.abs(e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean_lanes) > 1e-12
    return e
