"""Powers from sums and products alone: the twin of `renderers.power`, in a form that compilers vectorise."""

import numpy as np

from renderers.kernels.compiling import Single, bits_of, inlined, single_of
from renderers.power import BIAS, EXP, LEAST, LOG, MANTISSA_BITS, ONE, ROOT_BITS, SMALLEST, UP

_LOG0, _LOG1, _LOG2, _LOG3, _LOG4 = LOG
_EXP0, _EXP1, _EXP2, _EXP3, _EXP4, _EXP5, _EXP6 = EXP
Bits = np.int32


@inlined
def power(base: Single, exponent: Single) -> Single:
    """`base ** exponent` for bases from 0 to 1 and exponents from 0 up."""
    return _two_to(max(exponent * _log2(max(base, SMALLEST)), LEAST))


@inlined
def _log2(base: Single) -> Single:
    bits = bits_of(base)
    whole = Bits(Bits(bits - ROOT_BITS) >> MANTISSA_BITS)
    mantissa = single_of(Bits(bits - Bits(whole << MANTISSA_BITS)))
    ratio = (mantissa - ONE) / (mantissa + ONE)
    squared = ratio * ratio
    series = (((squared * _LOG4 + _LOG3) * squared + _LOG2) * squared + _LOG1) * squared + _LOG0
    return np.float32(whole) + ratio * series


@inlined
def _two_to(exponent: Single) -> Single:
    biased = Bits(exponent + UP)
    rest = exponent - np.float32(Bits(biased - BIAS))
    series = ((rest * _EXP6 + _EXP5) * rest + _EXP4) * rest + _EXP3
    series = ((series * rest + _EXP2) * rest + _EXP1) * rest + _EXP0
    return series * single_of(Bits(biased << MANTISSA_BITS))
