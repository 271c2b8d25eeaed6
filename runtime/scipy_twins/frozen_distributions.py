"""Distributions of ``scipy.stats`` that hold parameters which only the run knows."""

from __future__ import annotations

from typing import Any

from calque.transpiler.frontend.library.scipy_twins import twin, twin_of_instances
from calque.transpiler.primitives.scipy_stats import parameters


def no_rule(method: str) -> NotImplementedError:
    """The error of a method of SciPy's that is not here."""
    return NotImplementedError(f"{method} has no rule: call mean, var or std, or use NumPy.")


class FrozenDistribution:
    """A distribution with its parameters; its methods are those of the distribution."""

    def __init__(self, dist: Any, args: Any, kwds: Any):
        self.dist, self.args, self.kwds = dist, args, kwds

    def cdf(self, x: Any) -> Any:
        """The probability of what is less than or equal to x."""
        return self.dist.cdf(x, *self.args, **self.kwds)

    def logcdf(self, x: Any) -> Any:
        """The logarithm of ``cdf``."""
        return self.dist.logcdf(x, *self.args, **self.kwds)

    def sf(self, x: Any) -> Any:
        """The probability of what is greater than x."""
        return self.dist.sf(x, *self.args, **self.kwds)

    def logsf(self, x: Any) -> Any:
        """The logarithm of ``sf``."""
        return self.dist.logsf(x, *self.args, **self.kwds)

    def ppf(self, q: Any) -> Any:
        """The number of which ``cdf`` is q."""
        return self.dist.ppf(q, *self.args, **self.kwds)

    def isf(self, q: Any) -> Any:
        """The number of which ``sf`` is q."""
        return self.dist.isf(q, *self.args, **self.kwds)

    def mean(self) -> Any:
        """The mean."""
        return self.dist.mean(*self.args, **self.kwds)

    def var(self) -> Any:
        """The variance."""
        return self.dist.var(*self.args, **self.kwds)

    def std(self) -> Any:
        """The standard deviation."""
        return self.dist.std(*self.args, **self.kwds)

    def median(self) -> Any:
        """The median."""
        return self.dist.median(*self.args, **self.kwds)

    def entropy(self) -> Any:
        """The entropy."""
        return self.dist.entropy(*self.args, **self.kwds)

    def support(self) -> Any:
        """The ends of the support."""
        return self.dist.support(*self.args, **self.kwds)

    def interval(self, confidence: Any) -> Any:
        """The ends of the interval around the median that has a probability."""
        return self.dist.interval(confidence, *self.args, **self.kwds)

    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        """Random numbers, which the distribution refuses."""
        return self.dist.rvs(*self.args, **self.kwds)

    def stats(self, moments: str = "mv") -> Any:
        """Several moments: refused, as the next two."""
        raise no_rule("stats")

    def moment(self, order: Any) -> Any:
        """A moment of an order."""
        raise no_rule("moment")

    def expect(self, *given: Any, **options: Any) -> Any:
        """The expectation of a function."""
        raise no_rule("expect")


class FrozenContinuous(FrozenDistribution):
    """A distribution of numbers, with a density."""

    def pdf(self, x: Any) -> Any:
        """The density."""
        return self.dist.pdf(x, *self.args, **self.kwds)

    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density."""
        return self.dist.logpdf(x, *self.args, **self.kwds)


class FrozenDiscrete(FrozenDistribution):
    """A distribution of counts, each with a probability."""

    def pmf(self, k: Any) -> Any:
        """The probability of k."""
        return self.dist.pmf(k, *self.args, **self.kwds)

    def logpmf(self, k: Any) -> Any:
        """The logarithm of the probability of k."""
        return self.dist.logpmf(k, *self.args, **self.kwds)


# errors call them by SciPy's names
FrozenContinuous.__name__, FrozenDiscrete.__name__ = "rv_continuous_frozen", "rv_discrete_frozen"


@twin("scipy.stats._distn_infrastructure", "rv_generic.freeze")
@twin_of_instances("scipy.stats", "rv_continuous", "rv_discrete")
def freeze(dist: Any, *args: Any, **kwds: Any) -> FrozenDistribution:
    """The distribution with these parameters."""
    parameters(dist, args, kwds)  # SciPy's error for wrong ones
    kind = FrozenContinuous if hasattr(dist, "pdf") else FrozenDiscrete
    return kind(dist, args, kwds)
