"""Which stores a test of the index runs on: all of them by the fixture `database`, or one."""

import pytest

# For what takes its time and reads the same from every store, such as a fit.
one_store = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
