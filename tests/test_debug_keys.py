"""``debug_keys``: a key that is used twice is an error with both lines."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import calque
from calque import random
from calque.transpiler.errors import KeyReuseError


def twice(key, x):
    first = random.normal(key, (3,))
    return np.sum(x * first * random.uniform(key, (3,)))


def split_and_used(key, x):
    key_a, key_b = random.split(key)
    return x * random.normal(key_a) + random.normal(key)


def once(key, x):
    for _ in range(3):
        key, subkey = random.split(key)
        x = x + random.gamma(subkey, 2.0) * random.poisson(random.fold_in(key, 101), 30.0)
    return x * random.normal(random.fold_in(key, 102)) + random.binomial(key, 20, 0.4)


WAYS = {
    "plainly": lambda f: f,
    "gradient": lambda f: calque.value_and_grad(f, argnums=1),
    "compiled": calque.jit,
    "batched": lambda f: lambda key, x: calque.vmap(f, (0, None))(random.split(key, 2), x),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_key_used_twice(way):
    for function in (twice, split_and_used):
        with calque.debug_keys(), pytest.raises(KeyReuseError, match="has used already"):
            way(function)(random.key(0), 2.0)
        way(function)(random.key(0), 2.0)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_keys_used_once(way):
    with calque.debug_keys():
        found = way(once)(random.key(0), 2.0)
    np.testing.assert_array_equal(found, way(once)(random.key(0), 2.0))


def test_both_lines_are_shown():
    with calque.debug_keys(), pytest.raises(KeyReuseError) as found:
        twice(random.key(0), 2.0)
    text = str(found.value)
    assert "test_debug_keys.py, line 17, in twice" in text
    assert "random.uniform takes a key that random.normal has used already, in line 16 of" in text
    assert "`first = random.normal(key, (3,))`" in text and "Instead: split the key" in text
    assert str(pickle.loads(pickle.dumps(found.value))) == text


def test_a_key_that_was_made_in_two_ways():
    key = random.key(5)
    _, second = random.split(key)
    with calque.debug_keys(), pytest.raises(KeyReuseError):
        random.normal(second)
        random.normal(random.fold_in(key, 1))


def test_one_key_among_others():
    keys = random.split(random.key(0), 3)
    with calque.debug_keys(), pytest.raises(KeyReuseError):
        random.normal(keys[1])
        random.bits(keys)


def test_what_makes_a_key_fresh():
    with calque.debug_keys():
        for _ in range(2):
            random.normal(random.key(0))
        key = random.key(1)
        random.normal(key)
        random.normal(random.clone(key))
        with calque.debug_keys(False):
            random.normal(key)
        with pytest.raises(KeyReuseError):
            random.normal(key)


def test_outside_nothing_is_watched():
    key = random.key(0)
    random.normal(key)
    with calque.debug_keys():
        random.normal(key)
    random.normal(key)


DRAWS = {
    "gumbel": lambda k: random.gumbel(k, (2,), mode="high"),
    "maxwell": lambda k: random.maxwell(k, (2,)),
    "complex": lambda k: random.normal(k, (2,), complex),
    "integers": lambda k: random.randint(k, (2,), 0, 9),
    "order": lambda k: random.permutation(k, 4000),
    "beta": lambda k: random.beta(k, 0.3, 0.4, (9,)),
    "t": lambda k: random.t(k, 3.0, (2,)),
    "ball": lambda k: random.ball(k, 2),
    "poisson": lambda k: random.poisson(k, np.array([3.0, 30.0])),
    "binomial": lambda k: random.binomial(k, np.array([3, 300]), 0.4),
    "multinomial": lambda k: random.multinomial(k, 30, np.array([0.2, 0.8])),
    "choice": lambda k: random.choice(k, 9, (2,), replace=False),
    "orthogonal": lambda k: random.orthogonal(k, 3),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_draw_uses_its_key_once(draw):
    key = random.key(3)
    with calque.debug_keys():
        draw(key)
        with pytest.raises(KeyReuseError):
            draw(key)
