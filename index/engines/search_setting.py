"""How hard an index is searched: how far every query looks, and how ordinary and strange ones go on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class OrdinaryReach:
    """How a query goes on whose first look found near rows."""

    near: float  # the squared distance of the last row found, up to which that is so
    reach: float  # radii of a cell by which rows of other cells may lie towards the query


@dataclass(frozen=True)
class StrangeReach:
    """How the others go on, where they do it in another way."""

    reach: float  # radii, as above
    further: int = 1  # times as many candidates, for which their first cells are searched again


@dataclass(frozen=True)
class SearchSetting:
    """How hard to look for `limit` rows: the type's own effort, and candidates for exact rescoring."""

    limit: int
    effort: int
    candidates: int
    recall: float
    seconds: float  # CPU time of one query
    enough: int = 0  # good candidates to answer from; 0: as many as the limit
    ordinary: OrdinaryReach | None = None  # else no query looks into more cells than the first ones
    strange: StrangeReach | None = None  # else every query is an ordinary one
    far: float | None = None  # the distance of the last row, beyond which every row is scored
    visited: float = 0.0  # cells, on average
    hardest: str = ""  # the kind of probes that found least, whose recall this is

    @property
    def needed(self) -> int:
        """Good candidates that are enough to answer from."""
        return self.enough or min(self.limit, self.candidates)

    @property
    def longest_reach(self) -> float:
        """The reach of ordinary or strange queries that is longer."""
        return max((one.reach for one in (self.ordinary, self.strange) if one is not None), default=0.0)

    def within(self, share: float) -> "SearchSetting":
        """The setting when only this share of the rows counts: those that do are farther apart."""
        if share == 1:
            return self
        effort = int(np.ceil((2 - share) * self.effort / share))
        reach = int(1.2 * self.candidates / share) + 8
        enough = max(self.limit, self.candidates * 3 // 4)
        return replace(self, candidates=reach, effort=effort, enough=enough)

    def wider(self, times: int) -> "SearchSetting":
        """The same with a further reach, for as many good candidates."""
        reach, effort = self.candidates * times, self.effort * times
        return replace(self, candidates=reach, effort=effort, enough=self.needed)

    def scaled(self, limit: int) -> "SearchSetting":
        """The setting for another limit: the same up to its own, proportionally harder beyond."""
        if limit <= self.limit:
            return self
        times = limit / self.limit
        effort, candidates = int(np.ceil(self.effort * times)), int(np.ceil(self.candidates * times))
        return replace(self, limit=limit, effort=effort, candidates=candidates, seconds=self.seconds * times)


def settings_from_json(raw: Sequence[Mapping[str, Any]]) -> tuple[SearchSetting, ...]:
    """Settings as `asdict` gave them, without what only earlier versions knew."""
    return tuple(map(_setting_from_json, raw))


def _setting_from_json(raw: Mapping[str, Any]) -> SearchSetting:
    known = {field.name: raw[field.name] for field in fields(SearchSetting) if field.name in raw}
    ordinary, strange = known.pop("ordinary", None), known.pop("strange", None)
    if raw.get("reach") is not None:  # as versions without these two types wrote it
        ordinary = {"near": raw.get("near", 0.0), "reach": raw["reach"]}
        if raw.get("far_reach") is not None:
            strange = {"reach": raw["far_reach"], "further": raw.get("further", 1)}
    return SearchSetting(
        **known,
        ordinary=None if ordinary is None else OrdinaryReach(**ordinary),
        strange=None if strange is None else StrangeReach(**strange),
    )
