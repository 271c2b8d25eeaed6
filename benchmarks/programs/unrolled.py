"""Programs whose loops are unrolled: over lists of tuples, texts, arrays and objects.

Each function makes one for a number of iterations. All take one vector of four numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

X = np.array([0.7, 1.1, 0.9, 1.3])


def agenda(days: int) -> Callable[[Any], Any]:
    """A plan of events, sorted, and popped off a list day by day."""
    kinds = ("order", "spoil", "sell")
    plan = [(d + 0.25 * (d % 3), kinds[d % 3], 0.1 * d) for d in range(days)]
    calendar = list(range(days))

    def profit(x):
        total, stock = 0.0, x[0]
        events = sorted(plan, key=lambda event: -event[0])
        for day in calendar:
            while events and events[-1][0] <= day:
                _, kind, amount = events.pop()
                if kind == "order":
                    stock = stock + x[1] * amount
                elif kind == "spoil":
                    stock = stock * (1.0 - 0.01 * x[2])
                else:
                    total = total + stock * x[3]
            if stock > 2.0:
                stock = stock - 0.5
                total = total + 0.5
        return total + stock

    return profit


def shop(days: int) -> Callable[[Any], Any]:
    """Each day has a list of events, which is popped; what they do depends on the stock."""
    calendar = list(range(days))

    def cost(x):
        cost, stock, price = 0.0, x[0], x[1]
        events = [[("order", 0.1 * day), ("sell", 0.2)] for day in calendar]
        for day in calendar:
            today = events[day]
            while today:
                kind, amount = today.pop(0)
                if kind == "sell":
                    if stock > amount:
                        stock -= amount
                        cost -= amount * price
                    else:
                        cost += 0.1 * (amount - stock)
                elif kind == "order":
                    if stock < x[2]:
                        stock += amount
                        cost += amount * x[3]
            cost += 0.01 * max(stock, 0.0)
        return cost

    return cost


class Store:
    """The state that a simulation changes, with a log."""

    def __init__(self, level):
        self.level, self.sold, self.log = level, 0.0, []

    def sell(self, amount):
        """Sell as much as there is."""
        if self.level > amount:
            self.level = self.level - amount
            self.sold = self.sold + amount
        else:
            self.sold = self.sold + self.level
            self.level = 0.0
        self.log.append(self.sold)


def queue(events: int) -> Callable[[Any], Any]:
    """Events in a deque, an object that they change, and its log."""
    plan = [(k, "sell" if k % 2 else "fill") for k in range(events)]

    def sold(x):
        coming = deque(plan)
        store = Store(x[0])
        while coming:
            k, kind = coming.popleft()
            if kind == "sell":
                store.sell(x[1] + 0.01 * k)
            else:
                store.level = store.level + x[2]
        return sum(store.log) + store.level * x[3]

    return sold


def _images(count: int) -> list[tuple[float, float, float, int]]:
    """The first images of a source in a room, with how often each was reflected."""
    side = 0
    while (2 * side + 1) ** 3 < count:
        side += 1
    steps = range(-side, side + 1)
    every = [
        (2.0 * i, 3.0 * j, 4.0 * k, abs(i) + abs(j) + abs(k))
        for i in steps
        for j in steps
        for k in steps
    ]
    return every[:count]  # fmt: skip


def image_sources(count: int) -> Callable[[Any], Any]:
    """The pressure of a room's image sources."""
    images = _images(count)

    def pressure(x):
        p = 0.0
        for a, b, c, order in images:
            dx = x[0] + a - 1.0
            dy = x[1] + b - 1.5
            dz = x[2] + c - 0.7
            r = np.sqrt(dx * dx + dy * dy + dz * dz)
            p = p + x[3] ** order * np.cos(2.0 * r) / (r + 0.1)
        return p

    return pressure


def impulse_response(count: int) -> Callable[[Any], Any]:
    """A room's impulse response: each image source adds a pulse to an array."""
    images = _images(count)
    t = np.linspace(0.0, 1.0, 50)

    def energy(x):
        h = np.zeros(50)
        for a, b, c, order in images:
            p = np.array([x[0] + a, x[1] + b, x[2] + c])
            d = np.sqrt(np.sum((p - 1.2) ** 2)) + 0.01
            h = h + x[3] ** order / d * np.exp(-(((t - d / 343.0) / 0.05) ** 2))
        return np.sum(h * h)

    return energy


def _surfaces(count: int) -> list[tuple[float, float | None, str]]:
    radius = [20.0 + k if k % 3 else None for k in range(count)]
    return [(0.1 * k, radius[k], ("air", "glass")[k % 2]) for k in range(count)]


INDICES = {"air": 1.0, "glass": 1.5}


def lens(count: int) -> Callable[[Any], Any]:
    """A ray through a lens: Newton's method at each surface, which the ray may miss."""
    surfaces = _surfaces(count)

    def path(x):
        y, u, z, index, total = 0.1 * x[0], 0.01 * x[1], -1.0, 1.0, 0.0
        for at, radius, medium in surfaces:
            bend = 0.0 if radius is None else 1.0 / (radius * x[2])
            t = at - z
            for _ in range(5):
                height = y + t * u
                error = z + t - at - 0.5 * bend * height * height
                if abs(error) < 1e-12:
                    break
                t = t - error / (1.0 - bend * height * u)
            y, z, total = y + t * u, z + t, total + index * t
            if abs(y) > 10.0:
                return total + 100.0
            after = INDICES[medium]
            sine = index / after * (u + bend * y)
            if sine > 1.0:
                return total + 200.0
            u, index = sine - bend * y, after
        return total + x[3] * y * y

    return path


def lens_in_space(count: int) -> Callable[[Any], Any]:
    """A ray in space, as vectors, through planes and spheres that it may miss."""
    surfaces = _surfaces(count)

    def spot(x):
        p = np.array([0.1 * x[0], 0.1 * x[1], -1.0])
        d = np.array([0.0, 0.01 * x[2], 1.0])
        d = d / np.sqrt(d @ d)
        index = 1.0
        for at, radius, medium in surfaces:
            if radius is None:
                t = (at - p[2]) / d[2]
                normal = np.array([0.0, 0.0, -1.0])
            else:
                center = np.array([0.0, 0.0, at + radius * x[3]])
                b = (p - center) @ d
                root = b * b - ((p - center) @ (p - center) - (radius * x[3]) ** 2)
                if root < 0.0:
                    return np.nan
                t = -b - np.sqrt(root)
                normal = (p + t * d - center) / (radius * x[3])
            p = p + t * d
            cosine = -(normal @ d)
            eta = index / INDICES[medium]
            k = 1.0 - eta**2 * (1.0 - cosine**2)
            if k < 0.0:
                return np.nan
            d = eta * d + (eta * cosine - np.sqrt(k)) * normal
            index = INDICES[medium]
        return p[0] ** 2 + p[1] ** 2

    return spot


def filter_bank(count: int) -> Callable[[Any], Any]:
    """Recursive filters of one signal, each with a compression of its own."""
    kinds = ("log", "none", "log")
    bank = [(0.9 / (k + 1), np.cos(0.1 * k), kinds[k % 3]) for k in range(count)]

    def loudness(x):
        total = 0.0
        for a, c, kind in bank:
            y, energy = 0.0, 0.0
            for t in range(x.size):
                y = a * y + c * x[t]
                energy = energy + y * y
            if kind == "log":
                energy = np.log(1.0 + energy)
            if energy > 1.0:
                energy = np.sqrt(energy)
            total = total + energy
        return total

    return loudness


def tree(nodes: int) -> Callable[[Any], Any]:
    """Recursion over a tree of parameters, with a test at each node."""

    def grown(count):
        if count == 0:
            return {"leaf": 0.5}
        left = (count - 1) // 2
        return {"l": grown(left), "r": grown(count - 1 - left), "w": 0.1 * count}

    root = grown(nodes // 2)

    def score(x):
        def value(node, v):
            if "leaf" in node:
                return np.tanh(x[0] * node["leaf"] * v + x[1])
            a, b = value(node["l"], v), value(node["r"], 0.5 * v)
            if a > b:
                return a * node["w"] * x[2] - b
            return b - a

        return value(root, x[3])

    return score


def layers(count: int) -> Callable[[Any], Any]:
    """A network whose layers are matrices in a list."""
    weights = [0.2 * np.eye(4) + 0.01 * (k % 7) for k in range(count)]

    def norm(x):
        h = x
        for w in weights:
            h = np.tanh(w @ h + 0.1)
            if np.sum(h) > 3.0:
                h = 0.5 * h
        return np.sum(h * h)

    return norm


def kalman(count: int) -> Callable[[Any], Any]:
    """A Kalman filter over measurements of which some are missing."""
    measurements = [0.1 * k if k % 4 else None for k in range(count)]

    def likelihood(x):
        m, p, found = x[0], x[1], 0.0
        for z in measurements:
            p = p + x[2] ** 2
            if z is None:
                continue
            s = p + x[3] ** 2
            gain, error = p / s, z - m
            if abs(error) > 3.0:
                gain = 0.5 * gain
            m = m + gain * error
            p = (1.0 - gain) * p
            found = found - 0.5 * (np.log(s) + error * error / s)
        return found

    return likelihood


def kalman_of_two(count: int) -> Callable[[Any], Any]:
    """The same with two states, in matrices."""
    measurements = [np.array([0.1 * k, 1.0]) if k % 4 else None for k in range(count)]

    def likelihood(x):
        m, p = np.array([x[0], x[1]]), np.eye(2) * x[2] ** 2
        step, found = np.array([[1.0, 0.1], [0.0, 1.0]]), 0.0
        for z in measurements:
            m = step @ m
            p = step @ p @ step.T + 0.01 * np.eye(2)
            if z is None:
                continue
            s = p + x[3] ** 2 * np.eye(2)
            gain, error = p @ np.linalg.inv(s), z - m
            m = m + gain @ error
            p = p - gain @ p
            found = found - 0.5 * (np.log(np.linalg.det(s)) + error @ np.linalg.solve(s, error))
        return found

    return likelihood


def rows(count: int) -> Callable[[Any], Any]:
    """Comprehensions within a comprehension, and a test in the innermost."""
    names = [f"row {k}" for k in range(count)]

    def total(x):
        table = {name: [x[k % 4] * (1.0 + j) for j in range(4)] for k, name in enumerate(names)}
        sums = [sum(v if v > 1.0 else -v for v in row) for row in table.values()]
        return sum(s * s for s in sums)

    return total


def search(count: int) -> Callable[[Any], Any]:
    """A loop that is left where a sum has grown large enough."""
    weights = [(1.0 + k, "abc"[k % 3]) for k in range(count)]

    def found(x):
        s = x[0]
        for w, kind in weights:
            s = s + x[1] / w if kind == "a" else s * 1.01
            if s > 3.0:
                break
        return s * s

    return found


def cutoff(count: int) -> Callable[[Any], Any]:
    """A potential of fixed points with a cutoff: those far away are skipped."""
    points = [(np.array([0.3 * k, 0.1 * k, 1.0]), "AB"[k % 2]) for k in range(count)]

    def energy(x):
        p, e = x[:3], 0.0
        for q, kind in points:
            d = p - q
            r2 = d @ d
            if r2 > 9.0:
                continue
            r = np.sqrt(r2)
            e = e + (1.0 / r if kind == "A" else x[3] * np.exp(-r))
        return e

    return energy


def choices(count: int) -> Callable[[Any], Any]:
    """Arms of which some leave the iteration, with more tests behind them."""
    table = [(0.3 * (k + 1), k % 4, "ab"[k % 2]) for k in range(count)]

    def total(x):
        s = 0.0
        for w, k, kind in table:
            v = x[k] * w
            if v > 1.0:
                if s > 4.0:
                    continue
                s = s + np.sin(v)
            else:
                s = s - 0.1 * v
            if kind == "b":
                if s > 2.0:
                    s = 0.5 * s
                elif s < -1.0:
                    continue
            if s > 3.0:
                return s * x[3]
            s = s * 1.1
        return s

    return total


PROGRAMS = {
    f.__name__: f
    for f in (
        *(agenda, shop, queue, image_sources, impulse_response, lens, lens_in_space, filter_bank),
        *(tree, layers, kalman, kalman_of_two, rows, search, cutoff, choices),
    )
}
