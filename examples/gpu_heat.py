"""A stencil over time on the GPU, its value and its gradient: NumPy's slices become kernels."""

import numpy as np

import calque


def heat(u, kappa, steps):
    for _ in range(steps):
        inner = u[1:-1, 1:-1]
        change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
        u[1:-1, 1:-1] = inner + kappa[1:-1, 1:-1] * change
    return np.sum(u * u)


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
    args = rng.standard_normal((40, 50)), 0.2 * rng.random((40, 50))
    given = args if device is None else calque.device_put(args, device)
    both = calque.jit(calque.value_and_grad(heat, argnums=(0, 1)))
    value, (u_bar, kappa_bar) = calque.device_get(both(*given, 20))

    u, kappa = args
    expected = heat(u.copy(), kappa, 20)
    print(f"value    {float(value):.12f}\nexpected {expected:.12f}")
    assert np.isclose(float(value), expected, rtol=1e-12)

    direction = rng.standard_normal((2, 40, 50))
    step = 1e-6
    ends = [heat(u + s * direction[0], kappa + s * direction[1], 20) for s in (step, -step)]
    expected = (ends[0] - ends[1]) / (2.0 * step)
    slope = np.sum(u_bar * direction[0]) + np.sum(kappa_bar * direction[1])
    print(f"slope along a direction {slope:.6f}\nexpected, by differences {expected:.6f}")
    assert np.isclose(slope, expected, rtol=1e-6)

    print()
    types = "f8[n,m]", "f8[n,m]", "int"
    print(calque.source(calque.jit(heat), *map(calque.spec, types), stage="cuda"))


if __name__ == "__main__":
    main()
