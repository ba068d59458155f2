"""What waits, by client: whoever has got least goes next."""

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Work = TypeVar("Work")


@dataclass(order=True)
class WaitingTurn(Generic[Work]):
    """Work of a client that waits; of two of a client that are due at once, the first goes first."""

    due: float
    number: int
    work: Work = field(compare=False)
    client: str = field(compare=False)
    cost: float = field(compare=False)


class TurnQueue(Generic[Work]):
    """A queue for each client, served in turns by what each has got.

    A client that comes, or comes back, begins where those are that wait: time away earns nothing.
    """

    def __init__(self) -> None:
        self._queues: dict[str, list[WaitingTurn[Work]]] = {}  # heaps; none is empty
        self._costs: defaultdict[str, float] = defaultdict(float)  # of what waits, by client
        self._got: dict[str, float] = {}
        self._level = 0.0  # what the client had got that was served last

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def length(self, client: str) -> int:
        return len(self._queues.get(client, ()))

    def total_length(self, most: int) -> int:
        """How many wait, of each client so many at most: beyond, what waits holds up that client alone."""
        return sum(min(most, len(queue)) for queue in self._queues.values())

    def cost_before(self, client: str) -> float:
        """The cost of what is served before something that this client adds now."""
        own = self._costs.get(client, 0.0)
        return own + sum(min(own, cost) for name, cost in self._costs.items() if name != client)

    def add(self, turn: WaitingTurn[Work]) -> None:
        client = turn.client
        if client not in self._queues:
            self._queues[client] = []
            self._got[client] = max(self._got.get(client, 0.0), self._level)
        heapq.heappush(self._queues[client], turn)
        self._costs[client] += turn.cost

    def remove(self, turn: WaitingTurn[Work]) -> bool:
        queue = self._queues.get(turn.client, [])
        if turn not in queue:
            return False
        queue.remove(turn)
        heapq.heapify(queue)
        self._note_removal(turn)
        return True

    def take(self, most: int, unit: float) -> list[WaitingTurn[Work]]:
        """What is done together next: not more than so many, nor, of several, what costs more than a unit.

        Who wants little is not kept by who wants much: once a client that is served has nothing left that
        waits, no other one is served a second time.
        """
        taken: list[WaitingTurn[Work]] = []
        cost = 0.0
        served: set[str] = set()
        while self._queues and len(taken) < most:
            client = min(self._queues, key=lambda name: (self._got[name], self._queues[name][0]))
            turn = self._queues[client][0]
            others_are_done = not (served - {client}) <= self._queues.keys()
            if taken and (cost + turn.cost > unit or (client in served and others_are_done)):
                break
            heapq.heappop(self._queues[client])
            self._level = self._got[client]
            self._got[client] += turn.cost
            self._note_removal(turn)
            taken.append(turn)
            cost += turn.cost
            served.add(client)
        return taken

    def _note_removal(self, turn: WaitingTurn[Work]) -> None:
        client = turn.client
        self._costs[client] -= turn.cost
        if not self._queues[client]:
            del self._queues[client], self._costs[client]
            ahead = {
                name: got for name, got in self._got.items() if got > self._level or name in self._queues
            }
            self._got = ahead
