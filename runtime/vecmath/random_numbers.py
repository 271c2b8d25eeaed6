"""Random numbers, drawn where a kernel uses them: what a key gives at one place of an array.

Method: Threefry-2x32 of the place (Salmon and others, 2011), a uniform number from its first bits,
a normal one by the inverse of the error function (Giles, 2012), as in JAX.
"""

from __future__ import annotations

import numpy as np

from calque.runtime.vecmath.arithmetic import fma, fmaf, rarely, split_normal, vector
from calque.runtime.vecmath.exponentials import LN2_HIGH, LN2_LOW
from calque.runtime.vecmath.logarithms import log1p, log_near
from calque.runtime.vecmath.single import log1pf, logf


@vector
def threefry_rounds(x, y, a, b, c, d):
    x = np.uint32(x + y)
    y = np.uint32(np.uint32(y << a) | np.uint32(y >> (32 - a))) ^ x
    x = np.uint32(x + y)
    y = np.uint32(np.uint32(y << b) | np.uint32(y >> (32 - b))) ^ x
    x = np.uint32(x + y)
    y = np.uint32(np.uint32(y << c) | np.uint32(y >> (32 - c))) ^ x
    x = np.uint32(x + y)
    y = np.uint32(np.uint32(y << d) | np.uint32(y >> (32 - d))) ^ x
    return x, np.uint32(y)


@vector
def random_words(one, two, place):
    """Threefry-2x32 of a counter (Salmon and others, 2011)."""
    three = np.uint32(one ^ two ^ np.uint32(0x1BD11BDA))
    x = np.uint32(np.uint32(place >> 32) + one)
    y = np.uint32(np.uint32(place) + two)
    x, y = threefry_rounds(x, y, 13, 15, 26, 6)
    x, y = threefry_rounds(np.uint32(x + two), np.uint32(y + three + 1), 17, 29, 16, 24)
    x, y = threefry_rounds(np.uint32(x + three), np.uint32(y + one + 2), 13, 15, 26, 6)
    x, y = threefry_rounds(np.uint32(x + one), np.uint32(y + two + 3), 17, 29, 16, 24)
    x, y = threefry_rounds(np.uint32(x + two), np.uint32(y + three + 4), 13, 15, 26, 6)
    return np.uint32(x + three), np.uint32(y + one + 5)


@vector
def random_bits(one, two, place):
    """64 bits."""
    x, y = random_words(one, two, place)
    return np.uint64(x) << np.uint64(32) | np.uint64(y)


@vector
def random_bitsf(one, two, place):
    """32 bits."""
    x, y = random_words(one, two, place)
    return np.uint32(x ^ y)


@vector
def random_uniform(one, two, place):
    """A float64 from 0 to 1: the first bits are its mantissa."""
    bits = random_bits(one, two, place) >> np.uint64(12)
    return np.uint64(bits | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.0


@vector
def random_uniformf(one, two, place):
    """A float32 from 0 to 1."""
    bits = np.uint32(random_bitsf(one, two, place) >> np.uint32(9))
    return np.uint32(bits | np.uint32(0x3F800000)).view(np.float32) - np.float32(1.0)


@vector
def log1p_of_jax(x):
    """As JAX's compiler writes it: Cephes's rational function, also a little beyond its range."""
    square = x * x
    above = 4.52700008624452e-05
    above = fma(above, x, 0.49854102823193375)
    above = fma(above, x, 6.578732594206104)
    above = fma(above, x, 29.911919328553072)
    above = fma(above, x, 60.94966798098779)
    above = fma(above, x, 57.11296359058554)
    above = fma(above, x, 20.039553499201283)
    below = 1.0
    below = fma(below, x, 15.062909083469192)
    below = fma(below, x, 83.04756596796722)
    below = fma(below, x, 221.76239823732857)
    below = fma(below, x, 309.09872225312057)
    below = fma(below, x, 216.42788614495947)
    below = fma(below, x, 60.11866049760384)
    near = x + fma(-0.5, square, x * square * (above / below))
    k, m = split_normal(1.0 + x)
    f, less = log_near(m)
    far = fma(k, LN2_HIGH, f - (less - k * LN2_LOW))
    return near if abs(x) < 0.41421356237309515 else far


@vector
def tail_of_normal(w):
    """The polynomials of the rare numbers far from zero."""
    root = np.sqrt(w)
    t = root - 3.25
    far = 2.2137376921775787e-09
    far = fma(far, t, 9.075656193888539e-08)
    far = fma(far, t, -2.7517406297064545e-07)
    far = fma(far, t, 1.8239629214389228e-08)
    far = fma(far, t, 1.5027403968909828e-06)
    far = fma(far, t, -4.013867526981546e-06)
    far = fma(far, t, 2.9234449089955446e-06)
    far = fma(far, t, 1.2475304481671779e-05)
    far = fma(far, t, -4.7318229009055734e-05)
    far = fma(far, t, 6.828485145957318e-05)
    far = fma(far, t, 2.4031110387097894e-05)
    far = fma(far, t, -0.0003550375203628475)
    far = fma(far, t, 0.0009532893797373805)
    far = fma(far, t, -0.0016882755560235047)
    far = fma(far, t, 0.002491442096107851)
    far = fma(far, t, -0.003751208507569241)
    far = fma(far, t, 0.005370914553590064)
    far = fma(far, t, 1.0052589676941592)
    far = fma(far, t, 3.0838856104922208)
    t = root - 5.0
    end = -2.7109920616438573e-11
    end = fma(end, t, -2.555641816996525e-10)
    end = fma(end, t, 1.5076572693500548e-09)
    end = fma(end, t, -3.789465440126737e-09)
    end = fma(end, t, 7.61570120807834e-09)
    end = fma(end, t, -1.496002662714924e-08)
    end = fma(end, t, 2.914795345090108e-08)
    end = fma(end, t, -6.771199775845234e-08)
    end = fma(end, t, 2.2900482228026655e-07)
    end = fma(end, t, -9.9298272942317e-07)
    end = fma(end, t, 4.526062597223154e-06)
    end = fma(end, t, -1.968177810553167e-05)
    end = fma(end, t, 7.599527703001776e-05)
    end = fma(end, t, -0.00021503011930044477)
    end = fma(end, t, -0.00013871931833623122)
    end = fma(end, t, 1.0103004648645344)
    end = fma(end, t, 4.849906401408584)
    return far if w < 16.0 else end


normal_tail = rarely(tail_of_normal)


@vector
def random_normal(one, two, place):
    """A standard normal float64: Giles, "Approximating the erfinv function" (2012)."""
    x = random_uniform(one, two, place) * 2.0 - 0.9999999999999999
    w = -log1p_of_jax(x * -x)
    t = w - 3.125
    p = -3.64441206401782e-21
    p = fma(p, t, -1.6850591381820166e-19)
    p = fma(p, t, 1.28584807152564e-18)
    p = fma(p, t, 1.1157877678025181e-17)
    p = fma(p, t, -1.333171662854621e-16)
    p = fma(p, t, 2.0972767875968562e-17)
    p = fma(p, t, 6.637638134358324e-15)
    p = fma(p, t, -4.054566272975207e-14)
    p = fma(p, t, -8.151934197605472e-14)
    p = fma(p, t, 2.6335093153082323e-12)
    p = fma(p, t, -1.2975133253453532e-11)
    p = fma(p, t, -5.415412054294628e-11)
    p = fma(p, t, 1.0512122733215323e-09)
    p = fma(p, t, -4.112633980346984e-09)
    p = fma(p, t, -2.9070369957882005e-08)
    p = fma(p, t, 4.2347877827932404e-07)
    p = fma(p, t, -1.3654692000834679e-06)
    p = fma(p, t, -1.3882523362786469e-05)
    p = fma(p, t, 0.00018673420803405714)
    p = fma(p, t, -0.000740702534166267)
    p = fma(p, t, -0.006033670871430149)
    p = fma(p, t, 0.24015818242558962)
    p = fma(p, t, 1.6536545626831027)
    if w >= 6.25:
        p = normal_tail(w)
    return 1.4142135623730951 * (p * x)


@vector
def log1p_of_jaxf(x):
    """The same in float32."""
    square = x * x
    above = np.float32(4.52700008624452e-05)
    above = fmaf(above, x, np.float32(0.49854102823193375))
    above = fmaf(above, x, np.float32(6.578732594206104))
    above = fmaf(above, x, np.float32(29.911919328553072))
    above = fmaf(above, x, np.float32(60.94966798098779))
    above = fmaf(above, x, np.float32(57.11296359058554))
    above = fmaf(above, x, np.float32(20.039553499201283))
    below = np.float32(1.0)
    below = fmaf(below, x, np.float32(15.062909083469192))
    below = fmaf(below, x, np.float32(83.04756596796722))
    below = fmaf(below, x, np.float32(221.76239823732857))
    below = fmaf(below, x, np.float32(309.09872225312057))
    below = fmaf(below, x, np.float32(216.42788614495947))
    below = fmaf(below, x, np.float32(60.11866049760384))
    near = x + fmaf(np.float32(-0.5), square, x * square * (above / below))
    far = logf(np.float32(1.0) + x)
    return near if abs(x) < np.float32(0.41421356237309515) else far


@vector
def random_normalf(one, two, place):
    """A standard normal float32."""
    x = random_uniformf(one, two, place) * np.float32(2.0) - np.float32(0.99999994)
    w = -log1p_of_jaxf(x * -x)
    t = w - np.float32(2.5)
    p = np.float32(2.81022636e-08)
    p = fmaf(p, t, np.float32(3.43273939e-07))
    p = fmaf(p, t, np.float32(-3.5233877e-06))
    p = fmaf(p, t, np.float32(-4.39150654e-06))
    p = fmaf(p, t, np.float32(0.00021858087))
    p = fmaf(p, t, np.float32(-0.00125372503))
    p = fmaf(p, t, np.float32(-0.00417768164))
    p = fmaf(p, t, np.float32(0.246640727))
    p = fmaf(p, t, np.float32(1.50140941))
    t = np.sqrt(w) - np.float32(3.0)
    far = np.float32(-0.000200214257)
    far = fmaf(far, t, np.float32(0.000100950558))
    far = fmaf(far, t, np.float32(0.00134934322))
    far = fmaf(far, t, np.float32(-0.00367342844))
    far = fmaf(far, t, np.float32(0.00573950773))
    far = fmaf(far, t, np.float32(-0.0076224613))
    far = fmaf(far, t, np.float32(0.00943887047))
    far = fmaf(far, t, np.float32(1.00167406))
    far = fmaf(far, t, np.float32(2.83297682))
    p = p if w < np.float32(5.0) else far
    return np.float32(1.4142135623730951) * (p * x)


@vector
def random_exponential(one, two, place):
    """A float64 of the exponential distribution."""
    return -log1p(-random_uniform(one, two, place))


@vector
def random_exponentialf(one, two, place):
    """A float32 of the exponential distribution."""
    return -log1pf(-random_uniformf(one, two, place))
