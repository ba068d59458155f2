"""What the machine offers, and how work is spread over it."""

import os
from collections.abc import Iterator

import pytest

from multifold.machine import ahead, cores


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


def test_threads_stay_at_most_so_far_ahead() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    for place, number in enumerate(ahead(lambda one: one, numbers(), threads=2, most=8)):
        assert number == place
        assert len(taken) <= place + 8
    assert len(taken) == 100
