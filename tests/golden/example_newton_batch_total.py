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
    rounds = 0
    while np.any(live):
        if rounds == e_saved.shape[0]:
            e_saved = np.concatenate((e_saved, np.empty_like(e_saved)))
        e_saved[rounds] = e
        if rounds == live_saved.shape[0]:
            live_saved = np.concatenate((live_saved, np.empty_like(live_saved)))
        live_saved[rounds] = live
        argmax_live = np.argmax(live)
        if rounds == argmax_live_saved.shape[0]:
            argmax_live_saved = np.concatenate(
                (argmax_live_saved, np.empty_like(argmax_live_saved))
            )
        argmax_live_saved[rounds] = argmax_live
        rows = np.where(live, np.arange(mean.shape[0]), argmax_live)
        eccentricity_lanes = eccentricity[rows]
        mean_lanes = mean[rows]
        e_lanes = e[rows]
        e_numerator = e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean_lanes
        e_new = e_lanes - e_numerator / (1.0 - eccentricity_lanes * np.cos(e_lanes))
        e = np.where(live, e_new, e)
        live = live & (np.abs(e_new - eccentricity_lanes * np.sin(e_new) - mean_lanes) > 1e-12)
        rounds += 1

    # reverse
    # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
    e_bar = np.full(mean.shape[0], 1.0)
    mean_bar = np.zeros_like(e)
    for i in range(rounds - 1, -1, -1):
        live = live_saved[i]
        e_bar_new = np.where(live, e_bar, 0.0)
        e_bar = np.where(live, 0.0, e_bar)
        # e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
        rows = np.where(live, np.arange(mean.shape[0]), argmax_live_saved[i])
        e = e_saved[i]
        e_lanes = e[rows]
        eccentricity_lanes = eccentricity[rows]
        eccentricity_lanes_shifted = 1.0 - eccentricity_lanes * np.cos(e_lanes)
        mean_lanes = mean[rows]
        e_lanes_minus_mean_lanes = e_lanes - eccentricity_lanes * np.sin(e_lanes) - mean_lanes
        e_lanes_term = e_lanes_minus_mean_lanes / eccentricity_lanes_shifted
        live_chosen = np.where(live, -e_bar_new / eccentricity_lanes_shifted, 0.0)
        e_bar_new_times_e_lanes = e_bar_new * (e_lanes_term / eccentricity_lanes_shifted)
        live_term = np.where(live, e_bar_new_times_e_lanes, 0.0) * eccentricity_lanes
        mean_lanes_bar = -live_chosen
        e_lanes_bar = e_bar_new + live_term * np.sin(e_lanes) + live_chosen
        live_times_e_lanes = -live_chosen * eccentricity_lanes * np.cos(e_lanes)
        e_lanes_bar = e_lanes_bar + live_times_e_lanes
        # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
        np.add.at(e_bar, rows, e_lanes_bar)
        np.add.at(mean_bar, rows, mean_lanes_bar)
    # while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
    mean_bar += e_bar
    return mean_bar
