"""What tests of rendering share: worker processes, which start slowly."""

from collections.abc import Iterator

import pytest

from renderers.sandbox import Sandbox
from tests.waiting import PATIENCE


@pytest.fixture(scope="session")
def workers() -> Iterator[Sandbox]:
    """Two workers; tests leave them as they are."""
    with Sandbox(2, seconds=PATIENCE) as sandbox:
        yield sandbox
