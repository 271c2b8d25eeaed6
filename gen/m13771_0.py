
import numpy as np


def l4(x):
    for i in range(3):
        if x[i % x.shape[0], 0] > 1: return x+1
    return np.zeros_like(x)
