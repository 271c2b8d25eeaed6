"""Newton's method for many equations at once: each ends at its own step, and so does its slope."""

import numpy as np

import calque


def kepler(mean: float, eccentricity: float):
    e = mean
    while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
        e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
    return e


def total(mean: "f8[n]", eccentricity: "f8[n]"):
    return np.sum(calque.vmap(kepler)(mean, eccentricity))


def rounds(mean, eccentricity):
    """Return the number of steps that one equation takes."""
    e, count = mean, 0
    while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
        e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
        count += 1
    return count


def main():
    mean = np.array([0.0, 0.1, 1.0, 2.5, 3.0])
    eccentricity = np.array([0.5, 0.9, 0.3, 0.99, 0.0])
    many = calque.vmap(kepler)
    print(f"steps taken alone: {[rounds(*pair) for pair in zip(mean, eccentricity, strict=True)]}")
    found = many(mean, eccentricity)
    expected = np.array([kepler(*pair) for pair in zip(mean, eccentricity, strict=True)])
    print(f"anomalies {found}\nexpected  {expected}")
    assert np.array_equal(found, expected)

    # from e - k sin e = mean: de/dmean = 1 / (1 - k cos e), by the implicit function theorem;
    # an equation that is solved before the first step has the slope of what it begins with
    stepped = found != mean
    expected = np.where(stepped, 1.0 / (1.0 - eccentricity * np.cos(found)), 1.0)
    each = calque.vmap(calque.grad(kepler))
    print(f"slopes, one by one     {each(mean, eccentricity)}")
    print(f"slopes, of the sum     {calque.grad(total)(mean, eccentricity)}")
    print(f"slopes, expected       {expected}")
    assert np.allclose(each(mean, eccentricity), expected, rtol=1e-9)
    assert np.allclose(calque.grad(total)(mean, eccentricity), expected, rtol=1e-9)

    print()
    print(calque.source(many, mean, eccentricity))
    print(calque.source(each, mean, eccentricity))


if __name__ == "__main__":
    main()
