"""Tuples, lists, dicts, namedtuples and dataclasses as arguments, results and locals."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from battery.registry import matrix, program, vector

Point = namedtuple("Point", ["x", "y"])


class Dense(NamedTuple):
    """Weights of one layer."""

    weight: Any
    bias: Any

    def apply(self, x):
        return np.tanh(self.weight @ x + self.bias)


@dataclass
class Spring:
    """A spring: stiffness and rest length."""

    stiffness: Any
    length: Any = 1.0

    def energy(self, x):
        return 0.5 * self.stiffness * np.sum((x - self.length) ** 2)


@dataclass(frozen=True)
class Body:
    """Position and velocity of a body; replaced, never changed."""

    position: Any
    velocity: Any
    tags: list = field(default_factory=list)


@program((0.3, 0.8))
def tuple_argument(pair):
    a, b = pair
    return a * np.exp(b)


@program([vector(2), vector(3), 0.5])
def list_argument(parts):
    return np.sum(parts[0] ** 2) * np.sum(np.sin(parts[1])) * parts[-1]


@program({"w": matrix(2, 3), "b": vector(2)}, vector(3))
def dict_argument(params, x):
    return np.sum(np.tanh(params["w"] @ x + params["b"]))


@program(Point(0.3, 0.8))
def namedtuple_argument(point):
    return point.x**2 * np.sin(point.y) + point[0]


@program([Dense(matrix(3, 2), vector(3)), Dense(matrix(2, 3, 4), vector(2, 5))], vector(2),
         diff=(0, 1))
def list_of_namedtuples(layers, x):
    for layer in layers:
        x = layer.apply(x)
    return np.sum(x)


@program(Spring(1.3, 0.4), vector(3), diff=(1,))
def dataclass_argument_passive(spring, x):
    return spring.energy(x)


@program({"a": (vector(2), [0.5, None]), "c": {"z": vector(2, 1), "y": 2.0}, "b": ()})
def nested_pytree(tree):
    first, (scale, nothing) = tree["a"]
    inner = tree["c"]
    assert nothing is None
    return np.sum(first * inner["z"]) * scale + inner["y"] ** 2 + len(tree["b"])


@program(vector(4))
def tuple_result(x):
    return x * x, np.sum(x), np.sin(x[1:])


@program(vector(4))
def dict_result(x):
    return {"square": x * x, "mean": np.mean(x), "nested": [x[0] * x[1], (np.cos(x),)]}


@program(vector(4))
def list_result(x):
    return [value * value for value in x]


@program(matrix(2, 3))
def array_result(x):
    return np.sin(x) * x


@program(vector(3))
def result_is_argument(x):
    return x


@program(vector(2))
def namedtuple_local(x):
    point = Point(x[0] * 2.0, y=x[1])
    moved = point._replace(x=point.x + point.y)
    return moved.x * moved.y + sum(point)


@program(vector(3))
def dataclass_local(x):
    spring = Spring(stiffness=x[0] * x[0])
    soft = replace(spring, length=x[1])
    return spring.energy(x) + soft.energy(x)


@program(vector(3))
def dataclass_attribute_store(x):
    spring = Spring(1.0, 0.0)
    spring.length = x[0]
    spring.stiffness += np.sum(x)
    return spring.energy(x)


@program(vector(2), vector(2, 1), diff=(0, 1))
def frozen_dataclass_in_loop(position, velocity):
    body = Body(position, velocity)
    for _ in range(4):
        force = -body.position / (1.0 + np.sum(body.position**2))
        body = replace(
            body, position=body.position + 0.1 * body.velocity, velocity=body.velocity + 0.1 * force
        )
    return np.sum(body.position**2) + np.sum(body.velocity)


@program(vector(4))
def list_stores(x):
    values = [0.0, 1.0, 2.0]
    values[1] = x[1]
    values[-1] += x[2] * x[0]
    values.append(x[3])
    values.insert(0, x[0])
    values.extend([x[1], 2.0 * x[2]])
    last = values.pop()
    values[1:3] = [x[2]]
    return sum(v * v * (k + 1) for k, v in enumerate(values)) + last


@program(vector(3))
def list_methods(x):
    items = [x[0], x[1]] + [x[2]] * 2
    items.reverse()
    tail = items.copy()
    tail.clear()
    first, *middle, last = items
    return first * last + sum(middle) + len(tail) + len(items)


@program(vector(3))
def dict_stores(x):
    table = {"a": x[0]}
    table["b"] = x[1]
    table["a"] *= x[2]
    table.update(c=x[2], a2=1.0)
    table.setdefault("d", x[0])
    extra = table.pop("a2")
    total = extra
    for key, value in table.items():
        total += value * len(key) + (2.0 if key == "c" else 0.5) * value**2
    return total + table.get("missing", 3.0) * x[0] + sum(table.values())


@program({"w1": vector(3), "w2": vector(3, 1)})
def dict_comprehension_update(params):
    step = {name: value - 0.1 * np.sin(value) for name, value in params.items()}
    merged = {**params, "w2": step["w1"], "new": step["w2"]}
    return np.sum(merged["w1"] * merged["w2"] * merged["new"])


@program(vector(3))
def merged_dicts(x):
    defaults = {"a": 1.0, "b": 2.0}
    chosen = defaults | {"b": x[0], "c": x[1] * x[2]}
    return chosen["a"] * chosen["b"] + chosen["c"]


@program([(0.3, vector(2)), (0.7, vector(2, 1)), (-0.2, vector(2, 2))])
def loop_over_container_of_pairs(pairs):
    total = 0.0
    for weight, values in pairs:
        total += weight * np.sum(values**2)
    return total


@program((vector(2), vector(3), vector(4)))
def containers_of_unequal_arrays(parts):
    total = 1.0
    for part in parts:
        total = total * np.sum(np.cos(part))
    return total


@program(vector(3))
def nested_lists_to_array(x):
    rotation = np.array([[np.cos(x[0]), -np.sin(x[0])], [np.sin(x[0]), np.cos(x[0])]])
    return np.sum(rotation @ np.array([x[1], x[2]]) * np.array([1.0, 2.0]))


@program(vector(3))
def array_of_mixed(x):
    table = np.array([x[0], 1.0, x[2] * x[1], 2])
    return np.sum(np.sin(table))


@program(vector(4))
def list_of_rows_stacked(x):
    rows = [x * k for k in range(1, 4)]
    grid = np.stack(rows)
    wide = np.concatenate([rows[0], rows[2][:2]])
    return np.sum(grid @ x) * np.sum(wide**2)


@program(vector(4))
def set_and_membership(x):
    chosen = {0, 2}
    total = 0.0
    for k in range(4):
        if k in chosen:
            total += x[k] ** 2
        elif k not in (1,):
            total -= x[k]
    return total


@program({"layers": [(matrix(3, 2), vector(3)), (matrix(1, 3, 4), vector(1, 5))], "scale": 0.7},
         matrix(4, 2, 9))
def mlp_on_pytree(params, inputs):
    hidden = inputs
    *hidden_layers, (last_weight, last_bias) = params["layers"]
    for weight, bias in hidden_layers:
        hidden = np.tanh(hidden @ weight.T + bias)
    return params["scale"] * np.mean((hidden @ last_weight.T + last_bias) ** 2)


@program(vector(2), None, diff=(0,))
def none_argument(x, mask=None):
    if mask is None:
        return np.sum(x * x)
    return np.sum(x * mask)


@program(vector(3))
def none_in_locals(x):
    previous = None
    total = 0.0
    for value in [x[0], x[1], x[2]]:
        if previous is not None:
            total += previous * value
        previous = value
    return total


@program(vector(6))
def loop_carries_tuple_and_list(x):
    state = (x[0], [x[1], 0.0])
    for k in range(x.shape[0]):
        a, (b, c) = state
        state = (np.sin(a + x[k]), [b * a, c + b])
    return state[0] + state[1][0] + state[1][1]


@program(vector(6))
def loop_carries_dict(x):
    state = {"mean": 0.0, "square": 0.0}
    for k in range(x.shape[0]):
        delta = x[k] - state["mean"]
        state["mean"] = state["mean"] + delta / (k + 1)
        state["square"] += delta * (x[k] - state["mean"])
    return state["square"] / x.shape[0] + state["mean"]


@program(vector(6))
def loop_carries_namedtuple(x):
    point = Point(0.1, 0.2)
    for value in x:
        point = Point(point.x + value * point.y, np.cos(point.y))
    return point.x * point.y
