"""Programs of devices, in words that calque and JAX share: `device_reference.py` runs them in JAX."""

import numpy as np

from calque import (
    P,
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    grad,
    jvp,
    make_mesh,
    pmap,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
    shard_map,
)

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
UP = [(0, 1), (1, 2), (2, 3)]


def sums(x):
    return x * psum(x, "i")


def means(x):
    return x * pmean(np.sin(x), "i")


def greatest(x):
    return x - pmax(x, "i")


def least(x):
    return x - pmin(x, "i")


def gathers(x):
    return np.sum(all_gather(x, "i") * x, axis=0)


def gathers_tiled(x):
    return all_gather(x, "i", tiled=True) * 2.0


def exchanges(x):
    return all_to_all(np.sin(x).reshape(4, -1), "i", 0, 0).reshape(-1) * x


def rings(x):
    return x * ppermute(np.cos(x), "i", RING)


def shifts(x):
    return x * ppermute(x * x, "i", UP)


def scatters(x):
    return psum_scatter(x * x, "i", tiled=True)


def counts(x):
    return x * axis_index("i") + psum(x, "i") / axis_size("i")


def sums_of_constants(x):
    return x * psum(2.0, "i")


def sums_in_a_loop(x):
    y = x
    for k in range(3):
        y = np.sin(y) + 0.1 * psum(y, "i")
    return y


def normalizes(x):
    centred = x - pmean(x, "i")
    return centred / np.sqrt(pmean(centred * centred, "i") + 0.1)


LINE = (sums, means, gathers, gathers_tiled, exchanges, rings, shifts, scatters, counts, sums_of_constants, sums_in_a_loop, normalizes)
VALUES = (greatest, least)


def grid_sums(x):
    return x * psum(x, "rows") + psum(np.sin(x), "columns")


def grid_both(x):
    return x * psum(x * x, ("rows", "columns"))


def grid_gathers(x):
    return all_gather(x * x, "columns", axis=1, tiled=True) * psum(np.sum(x), "rows")


def grid_scatters(x):
    return psum_scatter(x * x, "rows", scatter_dimension=1, tiled=True)


def grid_exchanges(x):
    return all_to_all(np.sin(x), "columns", 0, 1, tiled=True)


def grid_rings(x):
    return x * ppermute(x, "rows", [(0, 1), (1, 0)]) + axis_index("columns")


GRID = (grid_sums, grid_both, grid_gathers, grid_scatters, grid_exchanges, grid_rings)


def value(f):
    return f


def tangent(f):
    def pushed(x):
        return jvp(f, (x,), (np.cos(x),))[1]

    return pushed


def inside(f):
    def loss(x):
        return np.sum(np.sin(f(x)))

    return grad(loss)


ASKED = {"value": value, "jvp": tangent, "grad inside": inside}
LENGTHS = {"gathers_tiled": 4, "scatters": 0.25}  # of the result, in that of the argument


def line_mesh():
    return make_mesh((4,), ("i",))


def grid_mesh():
    return make_mesh((2, 2), ("rows", "columns"))


def mapped(f, how):
    """The function over four devices."""
    match how:
        case "pmap":
            return pmap(f, axis_name="i")
        case ("line", check):
            return shard_map(f, mesh=line_mesh(), in_specs=P("i"), out_specs=P("i"), check_vma=check)
        case ("grid", check):
            return shard_map(f, mesh=grid_mesh(), in_specs=P("rows", "columns"), out_specs=P("rows", "columns"), check_vma=check)


def outside(f, how):
    """The gradient of a function that calls the function over four devices."""
    def loss(x):
        return np.sum(np.sin(mapped(f, how)(x)))

    return grad(loss)


# a parameter that all devices share


def shared_loss(w, x):
    return psum(np.sum(np.tanh(x * w)), "i")


def own_loss(w, x):
    return np.sum(np.tanh(x * w))


def step(w, x):
    for k in range(3):
        w = w - 0.1 * grad(own_loss)(w, x)
    return w


def parameter(f, check):
    """f(w, x), with w the same on all devices."""
    return shard_map(f, mesh=line_mesh(), in_specs=(P(), P("i")), out_specs=P(), check_vma=check)


def parameter_outside(check):
    def loss(w, x):
        return np.sin(parameter(shared_loss, check)(w, x))

    return grad(loss, argnums=(0, 1))


def cases():
    """Every program by name, with its arguments; what JAX has no rule for is left out."""
    line = np.linspace(-1.0, 1.5, 16).reshape(4, 4)
    grid = np.linspace(-1.0, 1.0, 32).reshape(4, 8)
    found = {}
    hows = [("pmap", line, LINE, VALUES)]
    hows += [(("line", c), line.reshape(-1), LINE, VALUES) for c in (True, False)]
    hows += [(("grid", c), grid, GRID, ()) for c in (True, False)]
    for how, x, programs, values in hows:
        for f in (*programs, *values):
            found[f"{how} {f.__name__} value"] = (mapped(f, how), (x,))
        for f in programs:
            found[f"{how} {f.__name__} jvp"] = (mapped(tangent(f), how), (x,))
            found[f"{how} {f.__name__} grad inside"] = (mapped(inside(f), how), (x,))
            found[f"{how} {f.__name__} grad outside"] = (outside(f, how), (x,))
    for check in (True, False):
        w, x = 0.7, np.linspace(-1.0, 1.5, 8)
        found[f"parameter {check} value"] = (parameter(shared_loss, check), (w, x))
        found[f"parameter {check} grad of own"] = (parameter(grad(own_loss), check), (w, x))
        found[f"parameter {check} grad of shared"] = (parameter(grad(shared_loss), check), (w, x))
        found[f"parameter {check} steps"] = (parameter(step, check), (w, x))
        found[f"parameter {check} grad outside"] = (parameter_outside(check), (w, x))
    return found
