"""Powers from sums and products alone: the same bits on every processor, by every engine on the CPU.

Libraries round a power in their own ways, and each processor may take another one. The logarithm is that of
the area tangent's series, the way back is that of the exponential; both are right to 1e-6.
"""

import math

import numpy as np
from jaxtyping import Float32

F = np.float32
SMALLEST = F(1e-37)  # stands in for 0, whose logarithm is none; it shows under exponents below a fifth
ROOT_BITS = np.int32(0x3F3504F3)  # of the root of a half: mantissas lie between it and the root of two
MANTISSA_BITS, BIAS = np.int32(23), np.int32(127)
LEAST = F(-126)  # log2 of the least result
UP = F(127.5)  # rounds, as whole numbers are cut off
LOG = tuple(F(2 / math.log(2) / odd) for odd in (1, 3, 5, 7, 9))
EXP = tuple(F(math.log(2) ** order / math.factorial(order)) for order in range(7))
ONE = F(1)


def power(base: Float32[np.ndarray, " k"], exponent: Float32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
    """`base ** exponent` for bases from 0 to 1 and exponents from 0 up."""
    return _two_to(np.maximum(exponent * _log2(np.maximum(base, SMALLEST)), LEAST))


def _log2(base: Float32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
    bits = base.view(np.int32)
    whole = (bits - ROOT_BITS) >> MANTISSA_BITS
    mantissa = (bits - (whole << MANTISSA_BITS)).view(np.float32)
    ratio = (mantissa - ONE) / (mantissa + ONE)
    logarithm: Float32[np.ndarray, " k"] = whole.astype(np.float32) + ratio * _series(LOG, ratio * ratio)
    return logarithm


def _two_to(exponent: Float32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
    biased = (exponent + UP).astype(np.int32)
    rest = exponent - (biased - BIAS).astype(np.float32)
    raised: Float32[np.ndarray, " k"] = _series(EXP, rest) * (biased << MANTISSA_BITS).view(np.float32)
    return raised


def _series(factors: tuple[np.float32, ...], of: Float32[np.ndarray, " k"]) -> Float32[np.ndarray, " k"]:
    """The sum of the factors with rising powers."""
    sum_ = of * factors[-1]
    for factor in factors[-2:0:-1]:
        sum_ += factor
        sum_ *= of
    sum_ += factors[0]
    return sum_
