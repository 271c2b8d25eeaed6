"""Functions of every form: lambdas, closures, methods, partials, decorators, arguments, recursion."""

from __future__ import annotations

import functools
import math

import numpy as np

from battery.registry import matrix, program, vector

SCALE = 1.5
OFFSETS = vector(3, 7)


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def softplus(z, beta=1.0, *, shift=0.0):
    return np.log1p(np.exp(beta * z)) / beta + shift


@program(0.7)
def scalar_polynomial(x):
    return x**3 + 2.0 * x**2 - 3.0 * x + 1.0


@program(matrix(4, 3), vector(3), 0.2, diff=(1, 2))
def helper_call(x, w, b):
    return np.sum(sigmoid(x @ w + b))


@program(vector(4))
def helper_of_helper(x):
    def twice(z):
        return sigmoid(sigmoid(z))

    return np.sum(twice(x) * twice(-x))


@program(vector(3))
def captured_global_array(x):
    return np.sum((x - OFFSETS) ** 2) * SCALE


square, cube = (lambda t: t * t), (lambda t: t * t * t)
ladder = [lambda t: np.sin(t), lambda t: np.cos(2.0 * t), lambda t: t * np.exp(t)]

program(vector(3), name="lambda_module_level")(lambda x: np.sum(np.tanh(x) * x))
program(1.3, name="first_of_two_lambdas")(square)
program(1.3, name="second_of_two_lambdas")(cube)


@program(vector(4))
def lambdas_on_one_line(x):
    f, g = (lambda t: t * t), (lambda t: np.sin(t))
    return np.sum(f(x) + g(f(x)))


@program(vector(3))
def list_of_lambdas(x):
    total = 0.0
    for step in ladder:
        total = total + np.sum(step(x))
    return total


@program(vector(3))
def lambda_with_default(x):
    powers = [lambda t, k=k: t**k for k in range(1, 4)]
    return sum(np.sum(power(x)) for power in powers)


@program(0.4)
def lambda_late_binding(x):
    powers = [lambda t: t**k for k in range(1, 4)]
    return powers[0](x) + powers[2](x)


@program(0.8)
def lambda_called_in_place(x):
    return (lambda a, b: a * np.exp(b))(x, -x)


@program(vector(3), 0.5, diff=(0, 1))
def closure_over_argument(x, rate):
    def damp(z):
        return z * np.exp(-rate * z)

    return np.sum(damp(x)) + damp(rate)


@program(vector(3))
def closure_sees_later_value(x):
    scale = 1.0

    def scaled(z):
        return scale * z

    first = np.sum(scaled(x))
    scale = np.sum(x * x)
    return first + np.sum(scaled(x))


def make_power(exponent):
    def power(x):
        return x**exponent

    return power


@program(vector(3, low=0.5, high=2.0))
def closure_factory(x):
    return np.sum(make_power(3)(x) - make_power(0.5)(x))


@program(0.6)
def nested_three_deep(x):
    def outer(a):
        def middle(b):
            def inner(c):
                return np.sin(a) * np.cos(b) * c

            return inner(b + a)

        return middle(a * x)

    return outer(x)


class Layer:
    """An affine layer: a method, a property, a static method, a class method, and a call."""

    slope = 0.3

    def __init__(self, weight, bias):
        self.weight = weight
        self.bias = bias

    def __call__(self, x):
        return self.activation(self.affine(x))

    def affine(self, x):
        return self.weight @ x + self.bias

    @staticmethod
    def activation(z):
        return np.where(z > 0.0, z, Layer.slope * z)

    @classmethod
    def doubled(cls, weight, bias):
        return cls(2.0 * weight, 2.0 * bias)

    @property
    def size(self):
        return self.weight.shape[0]


class DeepLayer(Layer):
    """A subclass that calls its parent."""

    def affine(self, x):
        return np.tanh(super().affine(x)) + x


layer = Layer(matrix(3, 3, 5), vector(3, 6))
deep_layer = DeepLayer(matrix(3, 3, 5), vector(3, 6))

program(vector(3), name="callable_object")(layer)
program(vector(3), name="bound_method")(layer.affine)
program(vector(3), name="callable_object_of_subclass")(deep_layer)


@program(vector(3))
def method_call_on_captured_object(x):
    return np.sum(layer.affine(x) ** 2) / layer.size


@program(matrix(3, 3), vector(3), vector(3, 2), diff=(0, 1, 2))
def object_made_inside(weight, bias, x):
    local = Layer(weight, bias)
    return np.sum(local(x) * local.size)


@program(matrix(3, 3), vector(3), vector(3, 2), diff=(0, 1, 2))
def class_method_and_super(weight, bias, x):
    return np.sum(DeepLayer.doubled(weight, bias)(x))


class Affine2:
    """Operators of the user's own."""

    def __init__(self, a, b):
        self.a = a
        self.b = b

    def __add__(self, other):
        return Affine2(self.a + other.a, self.b + other.b)

    def __mul__(self, factor):
        return Affine2(self.a * factor, self.b * factor)

    def __getitem__(self, index):
        return self.a if index == 0 else self.b


@program(0.3, 1.2, diff=(0, 1))
def user_operators(x, y):
    total = Affine2(x, y) + Affine2(y * y, x * y) * 2.0
    return total[0] * np.sin(total[1])


class Accumulator:
    """An object whose attributes are written: allowed while it is local."""

    def __init__(self):
        self.total = 0.0
        self.count = 0

    def add(self, value):
        self.total += value
        self.count += 1


@program(vector(4))
def local_object_attributes(x):
    acc = Accumulator()
    for k in range(3):
        acc.add(np.sum(x**k) * k)
    return acc.total / acc.count


def weighted(power, x, scale):
    return scale * np.sum(x**power)


program(vector(3), 2.0, diff=(0, 1), name="partial_positional")(functools.partial(weighted, 3))
program(vector(3), name="partial_keyword")(functools.partial(softplus, beta=2.0, shift=0.1))


@program(vector(3))
def partial_inside(x):
    steep = functools.partial(softplus, beta=3.0)
    return np.sum(steep(x, shift=1.0) * steep(x))


def doubled_result(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return 2.0 * fn(*args, **kwargs)

    return wrapper


def scaled_result(factor):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return factor * fn(*args, **kwargs)

        return wrapper

    return decorate


@program(vector(3))
@doubled_result
def decorated(x):
    return np.sum(np.sin(x))


@program(vector(3))
@scaled_result(0.5)
@doubled_result
def decorated_twice(x):
    return np.sum(x**3)


@program(vector(3))
def decorated_inside(x):
    @scaled_result(3.0)
    def f(z):
        return z * z

    return np.sum(f(x))


@program(vector(3))
def default_arguments(x, power=2, scale=0.5):
    return scale * np.sum(x**power)


@program(vector(3))
def keyword_arguments(x):
    return np.sum(softplus(beta=2.0, z=x)) + np.sum(softplus(x, shift=np.sum(x)))


@program(0.3, 0.4, 0.5, diff=(0, 1, 2))
def star_arguments(*values):
    return sum(v * v * (k + 1) for k, v in enumerate(values))


@program(vector(3), diff=(0,))
def star_call(x):
    def combine(a, b, c=1.0, *rest, scale=1.0, **names):
        extra = sum(rest) + sum(names[key] for key in sorted(names))
        return scale * (a * b - c) + extra

    pair = (np.sum(x), x[0])
    options = {"scale": x[1], "z": x[2], "y": 2.0 * x[2]}
    return combine(*pair, x[2], x[0], x[1], **options) + combine(*pair)


@program(vector(3), 0.3, diff=(0, 1))
def positional_only(x, /, rate):
    def inner(a, /, b, *, c):
        return np.sum(a) * b * c

    return inner(x, rate, c=x[0])


@program({"value": 0.4, "children": [{"value": 1.1, "children": []}, {"value": -0.3, "children": [
    {"value": 0.9, "children": []}]}]})
def recursion_over_tree(node):
    def energy(part):
        return np.sin(part["value"]) + sum(
            part["value"] * energy(child) for child in part["children"]
        )

    return energy(node)


@program(0.9)
def recursion_on_known_integer(x):
    def chebyshev(n):
        if n == 0:
            return 1.0
        if n == 1:
            return x
        return 2.0 * x * chebyshev(n - 1) - chebyshev(n - 2)

    return chebyshev(5)


@program(vector(8))
def recursive_halving(x):
    def pairwise(z):
        if len(z) == 1:
            return z[0]
        middle = len(z) // 2
        return np.tanh(pairwise(z[:middle]) + pairwise(z[middle:]))

    return pairwise(x)


@program(0.9)
def mutual_recursion(x):
    def even(n, y):
        return y if n == 0 else odd(n - 1, np.sin(y))

    def odd(n, y):
        return y if n == 0 else even(n - 1, y * y)

    return even(5, x)


@program(0.9)
def function_as_argument(x):
    def apply(f, times, y):
        for _ in range(times):
            y = f(y)
        return y

    return apply(np.sin, 3, x) + apply(lambda z: z * z, 2, x) + apply(math.cos, 1, x)


@program(np.tanh, vector(3), diff=(1,))
def activation_by_argument(activation, x):
    return np.sum(activation(x) * x)


@program("cosine", vector(3), diff=(1,))
def function_by_name(kind, x):
    table = {"sine": np.sin, "cosine": np.cos}
    return np.sum(table[kind](x))


@program(0.8)
def math_functions(x):
    return (
        math.sin(x) * math.exp(-x)
        + math.sqrt(x)
        + math.log(x)
        + math.atan2(x, 2.0)
        + math.hypot(x, 1.0)
        + math.pow(x, 3.0)
        + math.pi * math.fabs(x)
    )


@program(0.8)
def composed(x):
    return functools.reduce(lambda value, f: f(value), [np.sin, np.exp, np.tanh], x)


@program(vector(3))
def early_constant_branch(x, verbose=False):
    if verbose:
        raise NotImplementedError("never reached")
    return np.sum(x * x)
