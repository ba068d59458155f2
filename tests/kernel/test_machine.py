"""What the machine offers."""

import os

import pytest

from multifold.machine import cores


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert cores() == 3


@pytest.mark.parametrize(("counted", "expected"), [(7, 7), (None, 1)])
def test_systems_without_affinity_count_all_processors(
    monkeypatch: pytest.MonkeyPatch, counted: int | None, expected: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: counted)
    assert cores() == expected
