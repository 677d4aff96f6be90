"""Box-Muller transform in blocks of 16, eight radii and then eight angles, as in torch's normal distribution.

The float32 form matches torch's vector code bit for bit: Cephes' logf, sinf and cosf with FMA.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from torchnp.kernels.numerics.fma import fma_into, horner


def libm(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """Apply a function of Python's math module to a float64 array; NumPy's vector code may differ in the last bit."""
    return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def box_muller64(u: np.ndarray) -> np.ndarray:
    """Convert blocks of 16 uniforms to blocks of 16 normals, in float64."""
    pairs = u.reshape(-1, 2, 8)
    radius = np.sqrt(-2.0 * libm(math.log, 1.0 - pairs[:, 0]))
    theta = 2.0 * math.pi * pairs[:, 1]
    return np.stack([radius * np.cos(theta), radius * np.sin(theta)], 1).reshape(-1)


PAIRS = 1 << 15  # few enough to stay in cache


# Cephes' single precision logf, sinf and cosf, which torch's vector code evaluates.
_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_LN2_LOW, _LN2_HIGH = np.float32(-2.12194440e-4), np.float32(0.693359375)
_PI4_1, _PI4_2 = np.float32(-0.78515625), np.float32(-2.4187564849853515625e-4)
_PI4_3 = np.float64(np.float32(-3.77489497744594108e-8))
_SQRT_HALF = np.int32(0x3F3504F3)  # the bits of sqrt(1/2)
_HALF, _ONE, _MINUS_TWO = np.float32(0.5), np.float32(1), np.float32(-2)


def box_muller32(u: np.ndarray, out: np.ndarray) -> None:
    """Convert blocks of 16 uniforms to blocks of 16 normals in float32, bit for bit like torch's vector code."""
    pairs = u.reshape(-1, 2, 8)
    radius = _radius(pairs[:, 0])
    sin, cos = _sine_and_cosine(np.multiply(pairs[:, 1], np.float32(2 * math.pi)).reshape(-1))
    target = out.reshape(-1, 2, 8)
    np.multiply(radius.reshape(-1, 8), cos.reshape(-1, 8), target[:, 0])
    np.multiply(radius.reshape(-1, 8), sin.reshape(-1, 8), target[:, 1])


def _radius(u1: np.ndarray) -> np.ndarray:
    """Return sqrt(-2 log(1 - u1)), where log(1 - u1) = log(m) + e log(2) with m in [sqrt(1/2), sqrt(2))."""
    m = np.subtract(_ONE, u1).reshape(-1)
    wide, x64, y = np.empty(m.size), np.empty(m.size), np.empty(m.size, np.float32)
    bits = m.view(np.int32)
    bits -= _SQRT_HALF
    e = (bits >> np.int32(23)).astype(np.float32)
    bits &= np.int32(0x7FFFFF)
    bits += _SQRT_HALF
    m -= _ONE
    z = m * m
    np.copyto(x64, m)
    horner(x64, _LOG, y, wide)
    y *= m
    np.copyto(x64, y)
    fma_into(x64, z.astype(np.float64), e * _LN2_LOW, wide, y)
    z *= _HALF
    y -= z
    m += y
    e *= _LN2_HIGH
    m += e
    m *= _MINUS_TWO
    return np.sqrt(m, m)


def _sine_and_cosine(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sine and cosine of angles in [0, 2 pi); overwrite ``theta``."""
    wide, x64 = np.empty(theta.size), np.empty(theta.size)
    # reduce the angle by a multiple of pi/4, and find the octant
    octant = (theta * np.float32(1.27323954473516)).astype(np.int32)
    octant += np.int32(1)
    octant &= np.int32(-2)
    np.copyto(x64, octant)
    sin = octant.astype(np.float32)
    theta += sin * _PI4_1
    theta += sin * _PI4_2
    fma_into(x64, _PI4_3, theta, wide, theta)
    z = theta * theta
    z64 = z.astype(np.float64)

    cos = np.empty_like(theta)
    horner(z64, _COS, cos, wide)
    cos *= z
    np.copyto(x64, cos)
    fma_into(x64, z64, z * np.float32(-0.5), wide, cos)
    cos += _ONE
    horner(z64, _SIN, sin, wide)
    sin *= z
    np.copyto(x64, sin)
    np.copyto(z64, theta)
    fma_into(x64, z64, z64, wide, sin)
    _turn(sin.view(np.int32), cos.view(np.int32), octant)
    return sin, cos


def _turn(s: np.ndarray, c: np.ndarray, octant: np.ndarray) -> None:
    """Swap sine and cosine where the multiple of pi/2 nearest to the angle is odd, and set their signs, bitwise."""
    swap = octant << np.int32(30)
    swap >>= np.int32(31)
    difference = s ^ c
    difference &= swap
    s ^= difference
    c ^= difference
    s ^= (octant & np.int32(4)) << np.int32(29)
    octant += np.int32(2)
    c ^= (octant & np.int32(4)) << np.int32(29)
