"""Random numbers in CUDA C kernels: the number of a key at one position of an array.

The bits are those of ``calque.random``: Threefry-2x32 of the position (Salmon and others, 2011).
A function whose name ends in f returns a number of half as many bits.
"""

from __future__ import annotations

_DRAWN = """\
__device__ __forceinline__ {T} {name}(unsigned int one, unsigned int two, long long place)
{{
    {lines}
}}"""

RANDOM = {
    "random_bits": """\
__device__ __forceinline__ unsigned long long random_bits(
    unsigned int one, unsigned int two, long long place)  // Threefry-2x32 of the place
{
    const unsigned int keys[3] = {one, two, one ^ two ^ 0x1BD11BDA};
    const int turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    unsigned int x = (unsigned int)(place >> 32) + one;
    unsigned int y = (unsigned int)place + two;
#pragma unroll
    for (int k = 0; k < 20; k++) {
        x += y;
        y = (y << turns[k % 8] | y >> (32 - turns[k % 8])) ^ x;
        if (k % 4 == 3) {
            x += keys[(k / 4 + 1) % 3];
            y += keys[(k / 4 + 2) % 3] + k / 4 + 1;
        }
    }
    return (unsigned long long)x << 32 | y;
}""",
    "random_bitsf": _DRAWN.format(
        T="unsigned int",
        name="random_bitsf",
        lines="unsigned long long bits = random_bits(one, two, place);\n"
        "    return (unsigned int)(bits >> 32) ^ (unsigned int)bits;",
    ),
    "random_word": """\
__device__ __forceinline__ unsigned int random_word(
    unsigned int one, unsigned int two, long long place, int half)  // of a key
{
    unsigned long long bits = random_bits(one, two, place);
    return (unsigned int)(half ? bits : bits >> 32);
}""",
    "random_uniform": _DRAWN.format(
        T="double",
        name="random_uniform",
        lines="return (random_bits(one, two, place) >> 12) * 0x1p-52;",
    ),
    "random_uniformf": _DRAWN.format(
        T="float",
        name="random_uniformf",
        lines="return (random_bitsf(one, two, place) >> 9) * 0x1p-23f;",
    ),
    "random_normal": _DRAWN.format(
        T="double",
        name="random_normal",
        lines="double x = random_uniform(one, two, place) * 2.0 - 0.9999999999999999;\n"
        "    return 1.4142135623730951 * erfinv(x);",
    ),
    "random_normalf": _DRAWN.format(
        T="float",
        name="random_normalf",
        lines="float x = random_uniformf(one, two, place) * 2.0f - 0.99999994f;\n"
        "    return 1.4142135f * erfinvf(x);",
    ),
    "random_exponential": _DRAWN.format(
        T="double",
        name="random_exponential",
        lines="return -log1p(-random_uniform(one, two, place));",
    ),
    "random_exponentialf": _DRAWN.format(
        T="float",
        name="random_exponentialf",
        lines="return -log1pf(-random_uniformf(one, two, place));",
    ),
}
