"""Powers from sums and products."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from renderers.raster.light import SMALLEST_BASE, power

SINGLES = st.floats(0, 1, width=32)


@example(0.0, 0.125)
@given(SINGLES, st.floats(0, 400, width=32))
def test_powers_are_right(base: float, exponent: float) -> None:
    found = power(np.array([base], np.float32), np.array([exponent], np.float32))
    assert found[0] == pytest.approx(max(base, float(SMALLEST_BASE)) ** exponent, rel=4e-6, abs=1e-7)


def test_nothing_to_the_power_of_nothing_is_one() -> None:
    assert power(np.zeros(1, np.float32), np.zeros(1, np.float32))[0] == 1
