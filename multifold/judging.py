"""What the typed client says of hits, and what others said of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from multifold.asking import Search
from multifold.types import Kind
from multifold.wire import Wire, segment

Verdict: TypeAlias = Literal["good", "bad"]


@dataclass(frozen=True)
class Judged:
    """A verdict on an item for a query; `query` has its parts, as far as the service keeps them."""

    id: str
    item: str
    verdict: Verdict
    by: str | None
    given: str
    query: tuple[Mapping[str, Any], ...]


class Judging(Wire):
    """Says whether hits are what was meant."""

    def judge(
        self,
        query: Search,
        item: str,
        verdict: Verdict,
        *,
        kind: Kind | None = None,
        index: int = 0,
        by: str | None = None,
    ) -> Judged:
        """Say that an item is good or bad for a query; `kind` and `index` name the observation shown."""
        shown = None if kind is None else {"kind": kind, "index": index}
        body = {"query": query.json(), "item": item, "observation": shown, "verdict": verdict, "by": by}
        return self._ask(_judged, "POST", f"{self._at}/feedback", json=body)

    def judgements(
        self, *, item: str | None = None, verdict: Verdict | None = None, page: int = 100
    ) -> Iterator[Judged]:
        """All verdicts, or those on an item or of one kind; read page by page."""
        chosen: dict[str, Any] = {"item": item, "verdict": verdict, "limit": page, "after": None}
        while True:
            params = {name: value for name, value in chosen.items() if value is not None}
            found, after = self._ask(_page, "GET", f"{self._at}/feedback", params=params)
            yield from found
            if after is None:
                return
            chosen["after"] = after

    def withdraw(self, id: str) -> int:  # noqa: A002 (the service's word)
        """Have a verdict forgotten; gives how many there were, 0 or 1."""
        return self._ask(lambda raw: int(raw["removed"]), "DELETE", f"{self._at}/feedback/{segment(id)}")


def _judged(raw: Mapping[str, Any]) -> Judged:
    return Judged(raw["id"], raw["item"], raw["verdict"], raw["by"], raw["given"], tuple(raw["query"]))


def _page(raw: Mapping[str, Any]) -> tuple[list[Judged], str | None]:
    return [_judged(one) for one in raw["feedback"]], raw["next"]
