"""Clients are served in turns, by what each has got, and who wants little is not kept by who wants much."""

import itertools
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from app.concurrency.turns import TurnQueue, WaitingTurn

numbers = itertools.count()


def waiting(client: str, cost: float = 1.0, due: float = 0.0) -> WaitingTurn[str]:
    return WaitingTurn(due, next(numbers), f"{client}{cost:g}", client, cost)


def queue_of(*clients: str) -> TurnQueue[str]:
    queue: TurnQueue[str] = TurnQueue()
    for client in clients:
        queue.add(waiting(client))
    return queue


def taken(queue: TurnQueue[str], most: int = 100, unit: float = 100.0) -> str:
    """The clients of what is taken together."""
    return "".join(turn.client for turn in queue.take(most, unit))


def test_of_one_client_what_is_due_first_goes_first() -> None:
    queue: TurnQueue[str] = TurnQueue()
    for due in (3.0, 1.0, 2.0, 1.0):
        queue.add(waiting("a", due=due))
    turns = queue.take(9, 9)
    assert [turn.due for turn in turns] == [1.0, 1.0, 2.0, 3.0]
    assert turns[0].number < turns[1].number


def test_who_comes_later_goes_next() -> None:
    queue = queue_of(*"a" * 50)
    assert taken(queue, most=8) == "a" * 8
    queue.add(waiting("b"))
    assert taken(queue, most=1) == "b"


def test_who_has_no_more_does_not_wait_for_others_in_a_batch() -> None:
    assert taken(queue_of(*"aaaabbc")) == "abc"
    assert taken(queue_of(*"aaaabbbb")) == "abababa"
    assert taken(queue_of(*"abcdefgh")) == "abcdefgh"


def test_what_costs_more_than_a_unit_is_done_alone() -> None:
    queue: TurnQueue[str] = TurnQueue()
    for client, cost in (("a", 50.0), ("a", 3.0), ("a", 3.0), ("b", 1.0)):
        queue.add(waiting(client, cost))
    assert [turn.work for turn in queue.take(9, 4)] == ["a50"]
    assert [turn.work for turn in queue.take(9, 4)] == ["b1", "a3"]
    assert [turn.work for turn in queue.take(9, 4)] == ["a3"]


def test_time_away_earns_nothing_and_work_that_was_had_counts() -> None:
    queue = queue_of(*"a" * 40, "b")
    assert taken(queue, most=30) == "ab"
    for _ in range(20):
        queue.take(1, 1)
    for _ in range(3):
        queue.add(waiting("b"))
    assert "".join(taken(queue, most=1) for _ in range(6)) == "bababa"


def test_what_is_withdrawn_is_not_done() -> None:
    queue = queue_of("a")
    turn = waiting("b")
    queue.add(turn)
    assert queue.remove(turn)
    assert not queue.remove(turn)
    assert (len(queue), taken(queue), len(queue)) == (1, "a", 0)


def test_what_waits_for_a_client_is_what_it_has_and_as_much_of_each_other_one() -> None:
    queue = queue_of(*"aaaab")
    assert [queue.cost_before(client) for client in "abc"] == [5.0, 2.0, 0.0]
    assert [queue.length(client) for client in "abc"] == [4, 1, 0]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 20)), min_size=1, max_size=80))
def test_while_several_wait_none_gets_more_than_one_request_ahead(
    asked: list[tuple[str, int]],
) -> None:
    queue: TurnQueue[str] = TurnQueue()
    for client, cost in asked:
        queue.add(waiting(client, cost))
    left = defaultdict[str, int](int)
    for client, _ in asked:
        left[client] += 1
    got = defaultdict[str, float](float)
    while all(left[client] for client in {client for client, _ in asked}):
        (turn,) = queue.take(1, 1)
        got[turn.client] += turn.cost
        left[turn.client] -= 1
        assert max(got.values()) - min(got[client] for client in left) <= 20
