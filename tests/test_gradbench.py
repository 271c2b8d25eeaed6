"""calque as a tool of GradBench: all evals by the protocol, against answers found in other ways."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradbench_peers
import numpy as np
import pytest
from scipy import special, stats
from scipy.spatial.transform import Rotation

import calque

TOOL = Path(calque.__file__).resolve().parent / "benchmarks" / "gradbench" / "tool"
RNG = np.random.default_rng(38)


class Tool:
    """A running tool: messages go to it as lines of JSON."""

    def __init__(self) -> None:
        command = [sys.executable, str(TOOL / "run.py")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.sent = 0

    def response(self, **message: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"id": self.sent, **message}) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        assert found.pop("id") == self.sent
        self.sent += 1
        return found

    def output(self, module: str, function: str, given: Any) -> Any:
        found = self.response(kind="evaluate", module=module, function=function, input=given)
        assert found["success"], found["error"]
        assert [t["name"] for t in found["timings"]][:2] == ["prepare", "evaluate"]
        return found["output"]


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    running = Tool()
    yield running
    with running.process as process:
        process.stdin.close()
    assert process.returncode == 0


def differences(f: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """The Jacobian of f by central differences, an axis for the numbers of x at the end."""
    columns = []
    for k in range(x.size):
        step = np.zeros(x.size)
        step[k] = 1e-5
        step = step.reshape(x.shape)
        columns.append((np.asarray(f(x + step)) - np.asarray(f(x - step))) / 2e-5)
    return np.stack(columns, axis=-1)


def near(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_the_protocol(tool: Tool) -> None:
    assert tool.response(kind="start", eval="llsq") == {"tool": "calque"}
    assert tool.response(kind="define", module="no such eval")["success"] is False
    assert tool.response(kind="define", module="llsq")["success"] is True
    given = {"x": [1.0, 2.0], "n": 3, "min_runs": 4, "min_seconds": 0.001}
    found = tool.response(kind="evaluate", module="llsq", function="primal", input=given)
    runs = [t["nanoseconds"] for t in found["timings"] if t["name"] == "evaluate"]
    assert len(runs) >= 4 and sum(runs) >= 1e6
    wrong = tool.response(kind="evaluate", module="llsq", function="primal", input={})
    assert wrong["success"] is False and "KeyError" in wrong["error"]
    assert tool.response(kind="analysis", of=3, valid=True) == {}


def test_all_evals_are_listed() -> None:
    names = (TOOL / "evals.txt").read_text(encoding="utf-8").split()
    tested = [name.removeprefix("test_") for name in globals() if name.startswith("test_")]
    assert len(names) == 12 and set(names) <= set(tested)


def test_hello(tool: Tool) -> None:
    assert tool.output("hello", "square", 3.0) == 9.0
    assert tool.output("hello", "double", 3) == 6.0


def test_llsq(tool: Tool) -> None:
    x, t = RNG.random(6), np.linspace(-1.0, 1.0, 9)
    powers = np.vander(t, x.size, increasing=True)
    residuals = np.sign(t) - powers @ x
    given = {"x": x.tolist(), "n": t.size}
    near(tool.output("llsq", "primal", given), 0.5 * residuals @ residuals)
    near(tool.output("llsq", "gradient", given), -powers.T @ residuals)


def test_lse(tool: Tool) -> None:
    x = RNG.uniform(-100.0, 100.0, 20)
    near(tool.output("lse", "primal", {"x": x.tolist()}), special.logsumexp(x))
    near(tool.output("lse", "gradient", {"x": x.tolist()}), special.softmax(x))


@pytest.mark.parametrize("n", [1, 2, 4, 6])
def test_det(tool: Tool, n: int) -> None:
    a = RNG.random((n, n))
    given = {"A": a.ravel().tolist(), "ell": n}
    near(tool.output("det", "primal", given), np.linalg.det(a))
    cofactors = np.linalg.det(a) * np.linalg.inv(a).T
    near(tool.output("det", "gradient", given), cofactors.ravel())


def test_kmeans(tool: Tool) -> None:
    points = RNG.random((40, 3))
    centroids = points[-4:]
    squares = np.sum((points[:, None] - centroids) ** 2, axis=2)
    nearest = np.argmin(squares, axis=1)
    means = np.array([points[nearest == k].mean(axis=0) for k in range(4)])
    given = {"points": points.tolist(), "centroids": centroids.tolist()}
    near(tool.output("kmeans", "cost", given), squares.min(axis=1).sum())
    near(tool.output("kmeans", "dir", given), centroids - means)


@pytest.mark.parametrize("steps", [1, 5])
def test_ode(tool: Tool, steps: int) -> None:
    x = RNG.random(4)  # a polynomial of degree 4: the method makes no error
    exact = np.cumprod(x) * 2.0 ** np.arange(1, 5) / special.factorial(np.arange(1, 5))
    given = {"x": x.tolist(), "s": steps}
    near(tool.output("ode", "primal", given), exact)
    near(tool.output("ode", "gradient", given), exact[-1] / x)


def mixture(alpha, mu, q, l, x, gamma, m):
    """The log posterior by SciPy's densities, of the precision matrices themselves."""
    d = q.shape[1]
    total = np.zeros(len(x))
    prior = 0.0
    for weight, mean, diagonal, triangle in zip(special.softmax(alpha), mu, q, l, strict=True):
        factor = np.zeros((d, d))
        factor[np.triu_indices(d, 1)[::-1]] = triangle  # column by column
        factor += np.diag(np.exp(diagonal))
        precision = factor.T @ factor
        total += weight * stats.multivariate_normal(mean, np.linalg.inv(precision)).pdf(x)
        prior += stats.wishart(d + m + 1, np.eye(d) / gamma**2).logpdf(precision)
    return np.sum(np.log(total)) + prior


@pytest.mark.parametrize("m", [0, 2])
def test_gmm(tool: Tool, m: int) -> None:
    n, k, d, gamma = 6, 2, 3, 1.3
    x = RNG.normal(size=(n, d))
    arrays = {
        "alpha": RNG.normal(size=k),
        "mu": RNG.random((k, d)),
        "q": 0.3 * RNG.normal(size=(k, d)),
        "l": RNG.normal(size=(k, d * (d - 1) // 2)),
    }
    given: dict[str, Any] = {"d": d, "k": k, "n": n, "x": x.tolist(), "m": m, "gamma": gamma}
    given |= {name: array.tolist() for name, array in arrays.items()}
    found = tool.output("gmm", "objective", given)
    near(found, mixture(**arrays, x=x, gamma=gamma, m=m), 1e-10)
    gradients = tool.output("gmm", "jacobian", given)
    for name, array in arrays.items():
        expected = differences(
            lambda a: mixture(**{**arrays, name: a}, x=x, gamma=gamma, m=m), array
        )
        near(np.ravel(gradients[name]), expected, 1e-6)


def seen(camera, point):
    """The place in a picture at which a camera sees a point."""
    flat = Rotation.from_rotvec(camera[:3]).apply(point - camera[3:6])
    u = flat[:2] / flat[2]
    return camera[6] * u * (1.0 + camera[9] * (u @ u) + camera[10] * (u @ u) ** 2) + camera[7:9]


@pytest.mark.parametrize("turn", [0.4, 0.0])
def test_ba(tool: Tool, turn: float) -> None:
    n, m, p, w, feature = 2, 3, 16, 0.7, np.array([0.2, -0.1])
    camera = np.array([turn, -turn, 0.5 * turn, 0.1, 0.2, -3.0, 1.5, 0.3, 0.1, 0.05, 0.01])
    point = np.array([0.3, -0.4, 0.5])
    given = {"n": n, "m": m, "p": p, "w": w, "feat": feature.tolist()}
    given |= {"cam": camera.tolist(), "x": point.tolist()}
    errors = tool.output("ba", "objective", given)
    near(errors["reproj_error"]["elements"], w * (seen(camera, point) - feature))
    near(errors["w_err"]["element"], 1.0 - w * w)
    assert errors["reproj_error"]["repeated"] == errors["w_err"]["repeated"] == p
    matrix = tool.output("ba", "jacobian", given)
    both = np.concatenate([camera, point, [w]])
    expected = differences(lambda v: v[14] * (seen(v[:11], v[11:14]) - feature), both)
    near(matrix["vals"], [*expected.ravel(), -2.0 * w], 1e-6)
    columns = [*range(11), *(11 * n + np.arange(3)), 11 * n + 3 * m]
    assert matrix["cols"] == [*columns, *columns, 11 * n + 3 * m + p - 1]
    assert matrix["rows"] == [*range(0, 450, 15), 31 * p]


def hand(faces: bool) -> dict[str, Any]:
    """A small hand in the form that the eval sends."""
    bones, vertices, count = 22, 9, 5
    frames = np.tile(np.eye(4), (2, bones, 1, 1))
    frames[:, :, :3, :3] = Rotation.random(2 * bones, rng=RNG).as_matrix().reshape(2, bones, 3, 3)
    frames[:, :, :3, 3] = RNG.normal(size=(2, bones, 3))
    positions = np.concatenate([RNG.normal(size=(vertices, 3)), np.ones((vertices, 1))], axis=1)
    triangles = [RNG.permutation(vertices)[:3].tolist() for _ in range(7)]
    model = {
        "bone_count": bones,
        "bone_names": [f"bone {k}" for k in range(bones)],
        "parents": [-1, *(0 if k % 4 == 1 else k - 1 for k in range(1, bones))],
        "base_relatives": frames[0].tolist(),
        "inverse_base_absolutes": frames[1].tolist(),
        "base_positions": positions.tolist(),
        "weights": RNG.random((vertices, bones)).tolist(),
        "triangles": triangles,
        "is_mirrored": False,
    }
    correspondences = RNG.integers(0, 7, count).tolist()
    points = RNG.normal(size=(count, 3)).tolist()
    data = {"model": model, "correspondences": correspondences, "points": points}
    us = RNG.random((count, 2)).tolist() if faces else []
    return {"theta": RNG.normal(size=26).tolist(), "us": us, "data": data}


def skin_errors(theta, us, data):
    """The errors of a hand's points, by SciPy's rotations and products of whole matrices."""
    model = data["model"]
    angles = np.zeros((22, 3))
    for finger in range(5):
        a, b, c, d = theta[6 + 4 * finger : 10 + 4 * finger]
        angles[2 + 4 * finger : 5 + 4 * finger] = [[a, 0.0, b], [c, 0.0, 0.0], [d, 0.0, 0.0]]
    absolutes: list[np.ndarray] = []
    total = np.zeros((len(model["base_positions"]), 4))
    for k, parent in enumerate(model["parents"]):
        local = np.eye(4)
        local[:3, :3] = Rotation.from_euler("xyz", angles[k]).as_matrix()
        above = absolutes[parent] if parent >= 0 else np.eye(4)
        absolutes.append(above @ model["base_relatives"][k] @ local)
        moved = np.array(model["base_positions"]) @ (absolutes[k] @ model["inverse_base_absolutes"][k]).T
        total += np.array(model["weights"])[:, [k]] * moved
    vertices = Rotation.from_rotvec(theta[:3]).apply(total[:, :3]) + theta[3:6]
    chosen = np.array(data["correspondences"])
    if not len(us):
        return (np.array(data["points"]) - vertices[chosen]).ravel()
    corners = vertices[np.array(model["triangles"])[chosen]]
    shares = np.stack([us[:, 0], us[:, 1], 1.0 - us[:, 0] - us[:, 1]], axis=1)
    return (np.array(data["points"]) - np.einsum("pc,pcx->px", shares, corners)).ravel()


@pytest.mark.parametrize("faces", [True, False])
def test_ht(tool: Tool, faces: bool) -> None:
    given = hand(faces)
    theta, us, data = np.array(given["theta"]), np.array(given["us"]), given["data"]
    near(tool.output("ht", "objective", given), skin_errors(theta, us, data), 1e-11)
    expected = differences(lambda v: skin_errors(v, us, data), theta)
    if faces:
        moved = differences(lambda v: skin_errors(theta, us + v, data), np.zeros(2))
        expected = np.concatenate([moved, expected], axis=1)
    near(tool.output("ht", "jacobian", given), expected, 1e-6)


def network_loss(main, extra, state, sequence):
    """The loss of the network, a number at a time."""
    bits, total = len(sequence[0]), 0.0
    state = [row.copy() for row in state]
    for now, after in zip(sequence, sequence[1:], strict=False):
        outputs = []
        for b in range(bits):
            signal = now[b] * extra[0][b]
            for k in range(0, len(main), 2):
                (wf, wi, wo, wc), (bf, bi, bo, bc) = main[k][b::bits], main[k + 1][b::bits]
                old = state[k][b]
                kept = state[k + 1][b] * special.expit(signal * wf + bf)
                state[k + 1][b] = kept + special.expit(old * wi + bi) * np.tanh(old * wc + bc)
                state[k][b] = special.expit(signal * wo + bo) * np.tanh(state[k + 1][b])
                signal = state[k][b]
            outputs.append(signal * extra[1][b] + extra[2][b])
        total += after @ (np.array(outputs) - np.log(2.0 + np.sum(np.exp(outputs))))
    return -total / (bits * (len(sequence) - 1))


def test_lstm(tool: Tool) -> None:
    bits, layers = 3, 2
    shapes = ((2 * layers, 4 * bits), (3, bits), (2 * layers, bits))
    main, extra, state = (RNG.normal(size=shape) for shape in shapes)
    sequence = RNG.integers(0, 2, (6, bits)).astype(float)
    given = {"main_params": main, "extra_params": extra, "state": state, "sequence": sequence}
    given = {name: array.tolist() for name, array in given.items()}
    found = tool.output("lstm", "objective", given)
    near(found, network_loss(main, extra, state, sequence))
    of_main = differences(lambda a: network_loss(a, extra, state, sequence), main)
    of_extra = differences(lambda a: network_loss(main, a, state, sequence), extra)
    near(tool.output("lstm", "jacobian", given), [*of_main, *of_extra], 1e-8)


MODES = pytest.mark.parametrize("modes", ["ff", "fr", "rf", "rr"])


@MODES
def test_saddle(tool: Tool, modes: str) -> None:
    found = tool.output("saddle", modes, {"start": [1.0, 1.0]})
    near(found, [8.246324826140356e-06] * 4, 1e-15)  # the answer that the eval expects


@MODES
def test_particle(tool: Tool, modes: str) -> None:
    found = tool.output("particle", modes, {"w": 0.0})
    near(found, 0.2071918746486116, 1e-12)  # the answer that the eval expects


def test_outputs_of_tools_are_compared_number_by_number() -> None:
    mine = {"a": [1.0, 2.0], "b": 1000.0}
    assert gradbench_peers.same(mine, {"a": [1.0, 2.00001], "b": 1000.01})
    assert not gradbench_peers.same(mine, {"a": [1.0, 2.001], "b": 1000.0})
    assert not gradbench_peers.same(mine, {"a": [1.0, 2.0, 3.0], "b": 1000.0})
    assert not gradbench_peers.same(mine, {"a": [1.0, float("nan")], "b": 1000.0})


def test_rows_of_results_stay_where_an_eval_is_not_run_again() -> None:
    rows = gradbench_peers.kept("det")
    assert rows and all(row[0].startswith("det, ") for row in rows)
    assert {len(row) for row in rows} == {len(gradbench_peers.PEERS) + 4}
    assert len({row[0] for name in gradbench_peers.SIZES for row in gradbench_peers.kept(name)}) > 40
