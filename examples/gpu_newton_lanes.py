"""Newton's method for many equations on the GPU: a thread for each, which ends at its own step."""

import numpy as np

import calque


def kepler(mean, eccentricity):
    e = mean
    while np.abs(e - eccentricity * np.sin(e) - mean) > 1e-12:
        e -= (e - eccentricity * np.sin(e) - mean) / (1.0 - eccentricity * np.cos(e))
    return e


def gpu():
    """The first GPU; None, with a word, where there is none."""
    try:
        return calque.devices("gpu")[0]
    except ValueError as error:
        print(f"On the CPU: {str(error).partition('.')[0]}.")
        return None


def main():
    device = gpu()
    rng = np.random.default_rng(0)
    args = rng.uniform(0.1, 3.0, 5000), rng.uniform(0.1, 0.95, 5000)
    given = args if device is None else calque.device_put(args, device)

    many = calque.jit(calque.vmap(kepler))
    found = calque.device_get(many(*given))
    mean, eccentricity = args
    residual = np.abs(found - eccentricity * np.sin(found) - mean).max()
    print(f"largest residual {residual:.1e}, expected below 1e-11")
    assert residual < 1e-11

    # from e - k sin e = mean: de/dmean = 1 / (1 - k cos e), by the implicit function theorem
    slopes = calque.device_get(calque.jit(calque.vmap(calque.grad(kepler)))(*given))
    expected = 1.0 / (1.0 - eccentricity * np.cos(found))
    print(f"slopes   {slopes[:4]}\nexpected {expected[:4]}")
    assert np.allclose(slopes, expected, rtol=1e-8)

    print()
    print(calque.source(many, calque.spec("f8[n]"), calque.spec("f8[n]"), stage="cuda"))


if __name__ == "__main__":
    main()
