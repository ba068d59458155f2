"""How long one call takes when everything is warm."""

from collections.abc import Callable

import numpy as np

from benches.reporting import time_calls

WARM, FEWEST, MOST = 3, 3, 400  # calls
SECONDS = 2.0  # for all calls together, if they are not the fewest


def steady_seconds(call: Callable[[int], object]) -> float:
    """The median time of many calls, each told its number, after the first ones."""
    count = int(np.clip(SECONDS / min(time_calls(call, WARM)), FEWEST, MOST))
    return float(np.median(time_calls(call, count)))
