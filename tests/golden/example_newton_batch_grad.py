"""The gradient of kepler with respect to mean for a batch of arguments.

From examples/newton_batch.py, line 8. Written by calque 0.1.0; regenerate with
    calque show examples/newton_batch.py:kepler --transform "vmap(grad(f))" --args "f8[n], f8[n]"
Types: mean float64[n], eccentricity float64[n].
"""
import numpy as np


def kepler_grad_vmap(mean, eccentricity):
    # forward
    iterations = np.zeros(mean.shape[0], dtype=np.int64)
    e_saved = np.empty((mean.shape[0], 16))
    live = np.abs(mean - eccentricity * np.sin(mean) - mean) > 1e-12
    e = mean.copy()  # the argument is kept as it is
    while np.any(live):
        lanes = np.flatnonzero(live)
        eccentricity_lanes = eccentricity[lanes]
        mean_lanes = mean[lanes]
        e_lanes = e[lanes]
        iterations_lanes = iterations[lanes]
        if np.max(iterations_lanes, initial=0) == e_saved.shape[1]:
            e_saved = np.concatenate((e_saved, np.empty_like(e_saved)), axis=1)
        e_saved[lanes, iterations_lanes] = e_lanes
        e_numerator = e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean_lanes
        e_lanes -= e_numerator / (1.0 - eccentricity_lanes * np.cos(e_lanes))
        e[lanes] = e_lanes
        iterations[lanes] = iterations_lanes + 1
        live[lanes] = np.abs(e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean_lanes) > 1e-12

    # reverse
    # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
    iterations_shifted = iterations - 1
    e_bar = np.full(mean.shape[0], 1.0)
    mean_bar = np.zeros(mean.shape[0])
    live = iterations_shifted > -1
    while np.any(live):
        lanes = np.flatnonzero(live)
        eccentricity_lanes = eccentricity[lanes]
        e_bar_lanes = e_bar[lanes]
        mean_bar_lanes = mean_bar[lanes]
        iterations_shifted_lanes = iterations_shifted[lanes]
        # e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
        e_lanes = e_saved[lanes, iterations_shifted_lanes]
        e_denominator = 1.0 - eccentricity_lanes * np.cos(e_lanes)
        e_numerator = e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean[lanes]
        e_denominator_bar = e_bar_lanes * (e_numerator / e_denominator / e_denominator)
        e_bar_lanes_product = e_denominator_bar * eccentricity_lanes * np.sin(e_lanes)
        mean_bar_lanes += e_bar_lanes / e_denominator
        e_before_bar_lanes = e_bar_lanes + e_bar_lanes_product - e_bar_lanes / e_denominator
        e_bar_lanes_product = e_bar_lanes / e_denominator * eccentricity_lanes * np.cos(e_lanes)
        e_bar_lanes = e_before_bar_lanes + e_bar_lanes_product
        # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
        iterations_sum = iterations_shifted_lanes - 1
        e_bar[lanes] = e_bar_lanes
        mean_bar[lanes] = mean_bar_lanes
        iterations_shifted[lanes] = iterations_sum
        live[lanes] = iterations_sum > -1
    mean_bar += e_bar
    return mean_bar
