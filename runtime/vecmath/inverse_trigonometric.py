"""Arc sine, arc cosine and arc tangent in float64.

Method: arc tangents are brought to |t| <= tan(pi / 8) by one division, arc sines to |x| <= 1/2 by
asin(x) = pi / 2 - 2 * asin(sqrt((1 - x) / 2)); then odd polynomials (minimax,
benchmarks/minimax.py: "atan", "asin").
"""

from __future__ import annotations

import numpy as np

from calque.runtime.vecmath.arithmetic import INF, fma, vector, with_sign

PI_HIGH = 3.141592653589793
PI_LOW = 1.2246467991473532e-16
HALF_PI_HIGH = 1.5707963267948966
HALF_PI_LOW = 6.123233995736766e-17
QUARTER_PI_HIGH = 0.7853981633974483
QUARTER_PI_LOW = 3.061616997868383e-17
TAN_PI_8 = 0.41421356237309503
TAN_3PI_8 = 2.414213562373095


@vector
def atan_of_quotient(y, x):
    """atan(y / x) for y, x >= 0, not both 0."""
    steep = y > TAN_3PI_8 * x
    middle = y > TAN_PI_8 * x
    t = (-x if steep else (y - x if middle else y)) / (y if steep else (y + x if middle else x))
    high = HALF_PI_HIGH if steep else (QUARTER_PI_HIGH if middle else 0.0)
    low = HALF_PI_LOW if steep else (QUARTER_PI_LOW if middle else 0.0)
    z = t * t
    p = -0.01791127405565813
    p = fma(p, z, 0.038068475842041383)
    p = fma(p, z, -0.05039466537679074)
    p = fma(p, z, 0.058479268208935167)
    p = fma(p, z, -0.066631093966224408)
    p = fma(p, z, 0.076920606984249432)
    p = fma(p, z, -0.090908977853721042)
    p = fma(p, z, 0.11111110784425748)
    p = fma(p, z, -0.1428571428021568)
    p = fma(p, z, 0.19999999999953772)
    p = fma(p, z, -0.33333333333333198)
    return high + (t + fma(t * z, p, low))


@vector
def atan(x):
    """The arc tangent."""
    return with_sign(atan_of_quotient(abs(x), 1.0), x)


@vector
def atan2(y, x):
    """The angle of the point (x, y), as C and NumPy define it at zeros and infinities."""
    b, a = abs(y), abs(x)
    both = (b == INF) & (a == INF)
    b, a = (1.0 if both else b), (1.0 if both else a)
    huge = (a > 1e300) | (b > 1e300)
    b, a = (b * 2.0**-60 if huge else b), (a * 2.0**-60 if huge else a)
    a = 1.0 if (a == 0.0) & (b == 0.0) else a
    angle = atan_of_quotient(b, a)
    left = np.float64(x).view(np.int64) < 0
    angle = PI_HIGH - (angle - PI_LOW) if left else angle
    return with_sign(angle, y)


@vector
def asin_near(a):
    """The test a > 1/2, with asin(a), or asin(sqrt((1 - a) / 2)) where it is true, for a >= 0."""
    far = a > 0.5
    z = 0.5 * (1.0 - a) if far else a * a
    t = np.sqrt(z) if far else a
    p = 0.031981446593483365
    p = fma(p, z, -0.016326298876403351)
    p = fma(p, z, 0.019594062965008723)
    p = fma(p, z, 0.0065036325813469363)
    p = fma(p, z, 0.0121749137451849)
    p = fma(p, z, 0.013884355197513581)
    p = fma(p, z, 0.017359795124156128)
    p = fma(p, z, 0.022371751974694808)
    p = fma(p, z, 0.030381959393811126)
    p = fma(p, z, 0.044642856822020372)
    p = fma(p, z, 0.075000000003447424)
    p = fma(p, z, 0.16666666666665376)
    return far, fma(t * z, p, t)


@vector
def asin(x):
    """The arc sine."""
    far, y = asin_near(abs(x))
    return with_sign(HALF_PI_HIGH - (2.0 * y - HALF_PI_LOW) if far else y, x)


@vector
def acos(x):
    """The arc cosine."""
    far, y = asin_near(abs(x))
    near = HALF_PI_HIGH - (with_sign(y, x) - HALF_PI_LOW)
    left = PI_HIGH - (2.0 * y - PI_LOW)
    return (left if x < 0.0 else 2.0 * y) if far else near
