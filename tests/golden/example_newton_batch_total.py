"""Gradient of total with respect to mean.

From examples/newton_batch.py, line 15. Written by calque 0.1.0; regenerate with
    calque show examples/newton_batch.py:total --transform "grad(f)" --args "f8[n], f8[n]"
Types: mean float64[n], eccentricity float64[n].
"""
import numpy as np


def total_grad(mean, eccentricity):
    # forward
    live = np.abs(mean - eccentricity * np.sin(mean) - mean) > 1e-12
    argmax_live_saved = np.empty(16, dtype=np.int64)
    live_saved = np.empty((16, mean.shape[0]), dtype=np.bool_)
    e_saved = np.empty((16, mean.shape[0]))
    e = mean
    iterations = 0
    while np.any(live):
        if iterations == e_saved.shape[0]:
            e_saved = np.concatenate((e_saved, np.empty_like(e_saved)))
            live_saved = np.concatenate((live_saved, np.empty_like(live_saved)))
            argmax_live_saved = np.concatenate(
                (argmax_live_saved, np.empty_like(argmax_live_saved))
            )
        e_saved[iterations] = e
        live_saved[iterations] = live
        argmax_live = np.argmax(live)
        argmax_live_saved[iterations] = argmax_live
        rows = np.where(live, np.arange(mean.shape[0]), argmax_live)
        eccentricity_lanes = eccentricity[rows]
        mean_lanes = mean[rows]
        e_lanes = e[rows]
        e_numerator = e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean_lanes
        e_after = e_lanes - e_numerator / (1.0 - eccentricity_lanes * np.cos(e_lanes))
        e = np.where(live, e_after, e)
        e_after_difference = e_after - eccentricity_lanes * np.sin(e_after) - mean_lanes
        live = live & (np.abs(e_after_difference) > 1e-12)
        iterations += 1

    # reverse
    # kepler: while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
    e_bar = np.full(mean.shape[0], 1.0)
    mean_bar = np.zeros_like(e)
    for i in range(iterations - 1, -1, -1):
        live = live_saved[i]
        e_bar_where_live = np.where(live, e_bar, 0.0)
        e_bar = np.where(live, 0.0, e_bar)
        # kepler: e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity *
        #     np.cos(e))
        rows = np.where(live, np.arange(mean.shape[0]), argmax_live_saved[i])
        e = e_saved[i]
        e_lanes = e[rows]
        eccentricity_lanes = eccentricity[rows]
        e_denominator = 1.0 - eccentricity_lanes * np.cos(e_lanes)
        mean_lanes = mean[rows]
        e_numerator = e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean_lanes
        e_lanes_quotient = e_numerator / e_denominator / e_denominator
        e_numerator_bar = np.where(live, -e_bar_where_live / e_denominator, 0.0)
        e_denominator_bar = np.where(live, e_bar_where_live * e_lanes_quotient, 0.0)
        live_product = e_denominator_bar * eccentricity_lanes * np.sin(e_lanes)
        mean_lanes_bar = -e_numerator_bar
        e_lanes_bar = e_bar_where_live + live_product + e_numerator_bar
        e_lanes_bar -= e_numerator_bar * eccentricity_lanes * np.cos(e_lanes)
        # kepler: while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
        np.add.at(e_bar, rows, e_lanes_bar)  # places may repeat
        np.add.at(mean_bar, rows, mean_lanes_bar)  # places may repeat
    mean_bar += e_bar
    return mean_bar
