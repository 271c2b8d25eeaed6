"""`device_programs.py` in JAX on four forced host devices; writes the numbers of each as an .npz."""

import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy

jax.config.update("jax_enable_x64", True)

HEADER = """
import jax, jax.numpy as np, numpy
from jax import grad, jvp, pmap, shard_map
from jax.lax import all_gather, all_to_all, axis_index, axis_size, pmax, pmean, pmin, ppermute, psum, psum_scatter
from jax.sharding import Mesh, PartitionSpec as P

def make_mesh(shape, names):
    return Mesh(numpy.array(jax.devices()).reshape(shape), names)
"""


def main() -> None:
    text = Path(__file__).with_name("device_programs.py").read_text()
    text = text[text.index("RING = ") :]  # without its imports
    names: dict = {}
    exec(compile(HEADER + text, "device_programs in JAX", "exec"), names)
    cases = names["cases"]()
    run = jax.jit(lambda given: {name: cases[name][0](*args) for name, args in given.items()})
    results = run({name: args for name, (_, args) in cases.items()})  # one compilation for all
    found = {
        f"{name}/{k}": numpy.asarray(leaf)
        for name, result in results.items()
        for k, leaf in enumerate(jax.tree_util.tree_leaves(result))
    }
    numpy.savez(sys.argv[1], **found)


if __name__ == "__main__":
    main()
