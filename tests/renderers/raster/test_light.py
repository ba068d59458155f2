"""Powers from sums and products."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from renderers.raster.light import SMALLEST_BASE, power


@example(0.0, 0.125)
@given(st.floats(0, 1, width=32), st.floats(0, 400, width=32))
def test_powers_are_right(base: float, exponent: float) -> None:
    expected = max(base, float(SMALLEST_BASE)) ** exponent
    assert power(np.float32(base), np.float32(exponent)) == pytest.approx(expected, rel=4e-6, abs=1e-7)


def test_nothing_to_the_power_of_nothing_is_one() -> None:
    assert power(np.float32(0), np.float32(0)) == 1
