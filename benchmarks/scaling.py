"""The bytes that each device sends in a step, read from the generated program without running it.

    python benchmarks/scaling.py            # prints the tables of docs/scaling.md

A collective counts as its usual algorithm: a sum over D devices as a ring (reduce and gather),
which sends 2 (D - 1) / D of the array in 2 (D - 1) messages; a gather as a ring; a ppermute as one
message.
"""

import itertools
import math
import os

os.environ["CALQUE_CPU_DEVICES"] = "1024"

import numpy as np

from calque import (
    P,
    axis_size,
    grad,
    make_mesh,
    pmap,
    pmean,
    ppermute,
    psum,
    shard_map,
    tree_map,
    value_and_grad,
)
from calque.runtime.devices.device_source import DeviceSource
from calque.runtime.spec import Spec
from calque.transpiler.ir.core import Apply, Block, For, Var, While, blocks_of
from calque.transpiler.primitives import axis_collectives as c

DEVICES = (1, 8, 64, 1024)
ROWS, COLUMNS, STEPS = 65_536, 1_024, 100  # of the plate


def network(params, x):
    for w, b in params[:-1]:
        x = np.maximum(x @ w + b, 0.0)
    w, b = params[-1]
    return x @ w + b


def loss(params, x, y):
    logits = network(params, x)
    top = np.max(logits, axis=-1, keepdims=True)
    log_norm = np.log(np.sum(np.exp(logits - top), axis=-1, keepdims=True))
    return -np.mean(np.sum(y * (logits - top - log_norm), axis=-1))


def mean_grad(params, x, y):
    return pmean(grad(loss)(params, x, y), "i")


def data_parallel(devices):
    """An MLP of 784-512-512-10 in float32, 128 examples on each device."""
    sizes = (784, 512, 512, 10)
    params = [
        (np.empty((a, b), np.float32), np.empty(b, np.float32))
        for a, b in itertools.pairwise(sizes)
    ]
    args = (params, np.empty((devices, 128, 784), "f4"), np.empty((devices, 128, 10), "f4"))
    return pmap(mean_grad, axis_name="i", in_axes=(None, 0, 0)), args


def layer_loss(W_0, W_1, x, y):
    error = psum(np.tanh(x @ W_0) @ W_1, "model") - y
    return pmean(np.mean(error * error), "data")


def tensor_parallel(devices):
    """A layer of 8,192 hidden units on a square mesh (or half of one), 4,096 examples, float32."""
    model = 2 ** (int(math.log2(devices)) // 2)
    mesh = make_mesh((devices // model, model), ("data", "model"))
    specs = (P(None, "model"), P("model", None))
    step = shard_map(
        value_and_grad(layer_loss, argnums=(0, 1)),
        mesh=mesh,
        in_specs=(*specs, P("data"), P("data")),
        out_specs=(P(), specs),
    )
    shapes = ((1024, 8192), (8192, 1024), (4096, 1024), (4096, 1024))
    return step, tuple(np.empty(s, np.float32) for s in shapes)


def heat_rows(u, kappa):
    down = [(k, k + 1) for k in range(axis_size("i") - 1)]
    up = [(k + 1, k) for k in range(axis_size("i") - 1)]
    for _ in range(STEPS):
        above = ppermute(u[-1], "i", down)
        below = ppermute(u[0], "i", up)
        padded = np.vstack((above, u, below))
        change = padded[:-2, 1:-1] + padded[2:, 1:-1] + u[:, :-2] + u[:, 2:] - 4.0 * u[:, 1:-1]
        u[:, 1:-1] += kappa * change
    return np.sum(u * u)


def halo_exchange(devices):
    """A plate of 65,536 x 1,024 in float64, rows dealt out, 100 steps, value and gradient."""
    args = (np.empty((devices, ROWS // devices, COLUMNS)), 0.1)
    return pmap(value_and_grad(heat_rows), axis_name="i", in_axes=(0, None)), args


def sent(primitive, count, size):
    """Bytes and messages of one device, of a collective over an array of ``count`` bytes."""
    if primitive in (c.psum, c.psum_invariant, c.pmean, c.pmax, c.pmin):
        return 2 * (size - 1) / size * count, 2 * (size - 1)
    if primitive is c.all_gather:
        return (size - 1) * count, size - 1
    if primitive is c.ppermute:
        return (count, 1) if size > 1 else (0, 0)
    return (size - 1) / size * count, size - 1


def traffic(found):
    """Bytes and messages of one device in one call, by the collectives of its program."""
    traced = found.program.traced
    resolve = traced.builder.dims.resolve

    def visit(block: Block, times: int):
        total = np.zeros(2)
        for s in block.statements:
            told = isinstance(s, Apply) and s.primitive.kind == "collective"
            if told and isinstance(s.args[0], Var):
                t = s.args[0].type
                count = t.dtype.itemsize * math.prod(int(resolve(d)) for d in t.dims)
                total += times * np.array(sent(s.primitive, count, s.params["axis"].size))
            iterations = times
            if isinstance(s, For):
                iterations = times * len(range(s.start, s.stop, s.step))
            assert not isinstance(s, While)
            for inner in blocks_of(s):
                total += visit(inner, iterations)
        return total

    return visit(traced.function.body, 1)


def main():
    print("Bytes that one device sends in a step, and messages.\n")
    for program in (data_parallel, tensor_parallel, halo_exchange):
        print(f"## {program.__name__.replace('_', ' ').capitalize()}\n\n{program.__doc__}\n")
        print("| devices | bytes | messages |\n| --- | --- | --- |")
        for devices in DEVICES:
            mapped, args = program(devices)
            types = tree_map(lambda x: Spec(x.dtype, x.shape) if hasattr(x, "shape") else x, args)
            count, messages = traffic(DeviceSource(mapped, types, "threads"))
            print(f"| {devices:,} | {count:,.0f} | {messages:,.0f} |")
        print()


if __name__ == "__main__":
    main()
