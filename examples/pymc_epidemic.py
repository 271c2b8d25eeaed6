"""An epidemic in a PyMC model: a NumPy likelihood with a loop, and NUTS with calque's derivatives.

The likelihood steps a compartment model (susceptible, infected, recovered) from day to day, with a
contact rate for each fortnight. PyMC cannot differentiate such a loop. Its guide for "black box"
likelihoods writes an Op whose gradient is by finite differences; ``calque.bridges.pytensor.wrap``
writes one whose gradient is generated code. Both sample the same model here.

Run it with more draws for steadier numbers: ``python pymc_epidemic.py --draws 1000``.
"""

import argparse
import importlib.util
import logging
import time
import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph import Apply, Op
from scipy.optimize import approx_fprime

import calque

DAYS, PEOPLE = 42, 2_000.0
TRUE = np.array([0.5, 0.3, 0.15, 0.2, 5.0])  # contacts, recovery, infected at the start


def new_cases(theta, days):
    """Expected new cases of each day; ``theta`` has three contact rates, and two numbers more."""
    contacts, recovery, infected = theta[:3], theta[3], theta[4]
    susceptible, new = PEOPLE - infected, np.zeros(days)
    for day in range(days):
        new[day] = susceptible * (1.0 - np.exp(-contacts[day // 14] * infected / PEOPLE))
        susceptible -= new[day]
        infected = np.exp(-recovery) * infected + new[day]
    return new


def log_likelihood(theta, seen):
    """Poisson counts around the expected ones."""
    expected = new_cases(theta, seen.size) + 1e-3
    return np.sum(seen * np.log(expected) - expected)


class BlackBox(Op):
    """The recipe of PyMC's guide: values by NumPy, the gradient by finite differences."""

    def make_node(self, theta, seen):
        return Apply(self, [pt.as_tensor(theta), pt.as_tensor(seen)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(log_likelihood(*inputs))

    def pullback(self, inputs, outputs, cotangents):
        slope = BlackBoxSlope()(*inputs)
        return [cotangents[0] * slope, pytensor.gradient.disconnected_type()]

    def connection_pattern(self, node):
        return [[True], [False]]

    L_op = pullback  # its name in PyTensor 2


class BlackBoxSlope(Op):
    """The gradient of the log-likelihood by finite differences."""

    def make_node(self, theta, seen):
        return Apply(self, [pt.as_tensor(theta), pt.as_tensor(seen)], [pt.dvector()])

    def perform(self, node, inputs, outputs):
        theta, seen = inputs
        step = np.sqrt(np.finfo(float).eps)
        outputs[0][0] = approx_fprime(theta, log_likelihood, step, seen)


def model(op, seen):
    with pm.Model() as made:
        contacts = pm.LogNormal("contacts", np.log(0.3), 0.5, shape=3)
        recovery = pm.LogNormal("recovery", np.log(0.2), 0.1)
        first = pm.LogNormal("first", np.log(5.0), 0.5)
        theta = pt.concatenate([contacts, pt.stack([recovery, first])])
        pm.Potential("likelihood", op(theta, seen))
    return made


def sampled(op, seen, draws):
    """The posterior, and the seconds of processor time of sampling it, by PyMC's own sampler."""
    with model(op, seen), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numba will use object mode")  # to run BlackBox
        step = pm.NUTS()  # compiles
        quiet = {"progressbar": False, "compute_convergence_checks": False}
        start = time.process_time()
        found = pm.sample(draws, tune=draws, chains=2, cores=1, step=step, random_seed=1, **quiet)
    return found, time.process_time() - start


def sampled_by_nutpie(op, seen, draws):
    """The same by nutpie, a sampler outside of Python: it calls machine code alone."""
    import nutpie

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numba will use object mode")
        compiled = nutpie.compile_pymc_model(model(op, seen))
        options = {"chains": 2, "cores": 1, "seed": 1, "progress_bar": False}
        start = time.process_time()
        found = nutpie.sample(compiled, draws=draws, tune=draws, **options)
    return found, time.process_time() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    logging.getLogger("pymc").setLevel(logging.ERROR)
    seen = np.random.default_rng(0).poisson(new_cases(TRUE, DAYS)).astype(float)
    ours = calque.bridges.pytensor.wrap(log_likelihood)
    runs = {"finite differences": (BlackBox(), sampled), "calque": (ours, sampled)}
    if importlib.util.find_spec("nutpie"):
        runs["differences, nutpie"] = (BlackBox(), sampled_by_nutpie)
        runs["calque, nutpie"] = (ours, sampled_by_nutpie)

    print(calque.source(calque.grad(log_likelihood), TRUE, seen))
    print(f"{'gradient by':20}{'seconds':>8}{'ess':>6}{'ess/s':>8}")
    rate, mean = {}, {}
    for name, (op, sample) in runs.items():
        found, seconds = sample(op, seen, draws)
        posterior = az.extract(found)
        mean[name] = np.append(posterior["contacts"].mean("sample"), posterior["recovery"].mean())
        names = ("contacts", "recovery", "first")
        ess = min(float(az.ess(found, var_names=v)[v].min()) for v in names)
        rate[name] = ess / seconds
        print(f"{name:20}{seconds:8.1f}{ess:6.0f}{rate[name]:8.1f}")
    print(f"{rate['calque'] / rate['finite differences']:.0f} times the effective draws a second")
    apart = np.max(np.abs(mean["calque"] / mean["finite differences"] - 1.0))
    print(f"posterior means differ by {apart:.1%} (expected: a few percent, as draws do)")
    assert apart < 0.2
    assert np.max(np.abs(mean["calque"] / TRUE[:-1] - 1.0)) < 0.35


if __name__ == "__main__":
    main()
