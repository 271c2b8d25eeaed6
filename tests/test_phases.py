"""Batched programs and kernels are labelled with phases, and with the user's statements."""

from __future__ import annotations

import re

import numpy as np

import calque


def root(a, x):
    while np.abs(x * x - a) > 1e-10:
        x = 0.5 * (x + a / x)
    return x


def arms(x: float, y: float):
    if x > 0.5:
        return np.log(x) * y
    return x * x * y


def smoothed(u: "f8[n]"):
    for i in range(1, u.shape[0] - 1):
        u[i] = 0.5 * u[i] * u[i + 1] + u[i - 1]
    return np.sum(u * u)


def text_of(fn, *args) -> str:
    source = calque.source(fn, *args)
    return source[source.index("def "):]


def assert_phased(text: str, *quoted: str) -> None:
    forward, reverse = text.split("# reverse")
    assert "# forward" in forward and "_bar" not in forward.split("):", 1)[1]
    for statement in quoted:
        assert f"# {statement}\n" in reverse


def test_a_batch_that_goes_its_own_number_of_iterations() -> None:
    a, x = np.array([2.0, 9.0]), np.array([1.0, 5.0])
    text = text_of(calque.vmap(calque.grad(root)), a, x)
    assert_phased(text, "while np.abs(x * x - a) > 1e-10:", "x = 0.5 * (x + a / x)")
    np.testing.assert_allclose(calque.vmap(calque.grad(root))(a, x), 0.5 / np.sqrt(a))


def test_a_batch_with_a_branch_also_in_chunks() -> None:
    x, y = np.array([0.2, 0.9, 0.7]), np.array([1.0, 2.0, 3.0])
    want = np.where(x > 0.5, y / x, 2 * x * y)
    for batched in (calque.vmap(calque.grad(arms)), calque.vmap(calque.grad(arms), chunk_size=2)):
        text = text_of(batched, x, y)
        assert "# return np.log(x) * y\n" in text and "# return x * x * y\n" in text
        assert "# else: (x <= 0.5)\n" in text
        np.testing.assert_allclose(batched(x, y), want)


def test_a_kernel_of_both_phases_says_which_loops_are_of_which() -> None:
    u = np.linspace(0.1, 1.0, 7)
    source = calque.source(calque.jit(calque.grad(smoothed)), u)
    kernel, launcher = source[source.index("@kernel"):].split("\n\n\n")
    assert kernel.index("# forward\n") < kernel.index("for i") < kernel.index("# reverse\n")
    assert "# u[i] = 0.5 * u[i] * u[i + 1] + u[i - 1]\n" in kernel.split("# reverse\n")[1]
    assert re.findall("# (.*)", launcher)[0] == "forward and reverse", launcher
    assert "# forward\n" not in launcher and "# reverse\n" not in launcher


def test_a_long_statement_is_quoted_whole() -> None:
    def sums(first_coordinate: float, second_coordinate: float):
        return np.sin(first_coordinate) * np.cos(second_coordinate) + first_coordinate * second_coordinate * 2.0

    text = text_of(calque.grad(sums), 0.3, 0.4)
    comment = "".join(line.strip()[1:].strip() + " " for line in text.splitlines() if line.strip().startswith("#"))
    assert "return np.sin(first_coordinate) * np.cos(second_coordinate) + first_coordinate * second_coordinate * 2.0" in comment
    assert all(len(line) <= 88 for line in text.splitlines() if "#" in line)


def test_a_hessian_has_the_phases_of_its_gradient() -> None:
    u = np.linspace(0.1, 1.0, 5)
    text = text_of(calque.hessian(smoothed), u)
    forward, reverse = text.split("# reverse")
    assert "# forward" in forward and "u_bar" not in forward
    assert "# u[i] = 0.5 * u[i] * u[i + 1] + u[i - 1]\n" in reverse


def quotient(x: float):
    y = np.exp(x)
    return y / (1.0 + x)


def test_a_gradient_of_a_gradient_tells_its_sweeps_apart() -> None:
    text = text_of(calque.grad(calque.grad(quotient)), 0.3)
    forward, first, reverse = re.split("# first derivative|# reverse", text)
    assert "# forward" in forward and "_bar" not in forward
    assert "# return y / (1.0 + x)\n" in first
    assert "# derivative of: return y / (1.0 + x)\n" in reverse and "# return y / (1.0 + x)\n" in reverse
    slope = (calque.grad(quotient)(0.3 + 1e-6) - calque.grad(quotient)(0.3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(calque.grad(calque.grad(quotient))(0.3), slope, rtol=1e-6)


def test_a_kernel_of_lanes_has_phases_within_a_lane() -> None:
    a, x = np.array([2.0, 9.0]), np.array([1.0, 5.0])
    source = calque.source(calque.jit(calque.vmap(calque.grad(root))), a, x)
    lane = source[source.index("for lane"):].partition("\n\n\n")[0]
    assert lane.index("# forward") < lane.index("while ") < lane.index("# reverse")
    assert "# while np.abs(x * x - a) > 1e-10:\n" in lane.split("# reverse")[1]


def fitted(a, b, x, rows):
    y = np.linalg.solve(a, b + x)
    y[0] = y[0] * y[1]
    return np.sum(y[rows] ** 2)


def test_what_is_not_plain_calculus_is_said() -> None:
    a, b, x = np.eye(3) + 0.1, np.arange(3.0), np.ones(3)
    text = text_of(calque.grad(fitted, argnums=(0, 1)), a, b, x, np.array([0, 2, 2]))
    assert text.count("# solve(A, b): b_bar = solve(A.T, x_bar), A_bar = -outer(b_bar, x)\n") == 1
    assert re.search(r"np.add.at\(.*\)  # places may repeat\n", text)


def powers(u):
    for i in range(1, u.shape[0]):
        u[i] = u[i] * u[i] * u[i - 1]
    return np.sum(u * u)


def test_a_restored_element_says_so() -> None:
    text = text_of(calque.grad(powers), np.ones(4))
    assert re.search(r"    u\[i\] = u_saved\[.*\]  # as it was before this statement\n", text)


def test_the_tangent_of_a_square_is_twice_a_product() -> None:
    assert "2.0 * x_dot * x\n" in text_of(calque.jvp(lambda x: x * x), 2.0, 1.0)


def logistic(z: float, y: float):
    p = 1.0 / (1.0 + np.exp(-z))
    return p * p * y + (1.0 - y) * p


def test_a_divisor_of_several_operations_is_called_so() -> None:
    """``z_shifted`` is what 1.0 + z may be called, not 1.0 + exp(-z); ``y_shifted`` is 1.0 - y."""
    text = text_of(calque.grad(logistic, argnums=(0, 1)), 0.3, 0.7)
    assert "p_denominator = 1.0 + exp_minus_z\n" in text and "z_shifted" not in text
