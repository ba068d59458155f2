"""What exports of the tests have in common."""

from collections.abc import Iterator
from functools import cache

import pytest
from torch.onnx._internal.exporter._registration import ONNXRegistry


@pytest.fixture(scope="session", autouse=True)
def one_registry() -> Iterator[None]:
    """The exporter reads its operators once, not for every graph, which takes a third of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        yield
