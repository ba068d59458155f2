"""The thread that follows: it steps when it is woken, goes on after failures, and knows how far it is."""

import threading
from contextlib import closing

from index.cluster.follower import Follower
from multifold.errors import MultifoldError
from tests.waiting import PATIENCE, until

NEVER_AGAIN = 1000 * PATIENCE  # seconds between two steps that nobody asked for


def test_it_steps_at_once_when_it_is_woken_and_by_itself() -> None:
    steps = list[int]()

    def step() -> bool:
        steps.append(1)
        return True

    with closing(Follower(step, NEVER_AGAIN)) as follower:
        until(lambda: len(steps) == 1)
        follower.wake()
        until(lambda: len(steps) == 2)
        assert follower.behind() == 0
    with closing(Follower(step, 0.01)):
        until(lambda: len(steps) > 5)


def test_failures_of_all_kinds_are_tried_again() -> None:
    outcomes: list[Exception | bool] = [MultifoldError("away"), ValueError("broken"), False, True]

    def step() -> bool:
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    with closing(Follower(step, 0.1)) as follower:
        until(lambda: len(outcomes) == 1 and follower.behind() == 0)


def test_it_tells_for_how_long_something_has_been_behind() -> None:
    with closing(Follower(lambda: False, 0.1)) as follower:
        until(lambda: follower.behind() > 0.3)


def test_the_step_under_way_is_waited_for_and_what_came_meanwhile_is_done() -> None:
    entered, ended = threading.Event(), list[bool]()

    def step() -> bool:
        entered.set()
        threading.Event().wait(0.1)
        ended.append(True)
        return True

    follower = Follower(step, NEVER_AGAIN)
    assert entered.wait(PATIENCE)
    follower.close()
    assert len(ended) == 2
    follower.close()
