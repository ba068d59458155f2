"""Many items at once: each is made on its own, then they are written together."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from app.drafting import parts_from_json
from app.ingest import Made
from app.offload import Desk
from app.service import Stored
from multifold.errors import MultifoldError

AT_ONCE = 4  # items of one request that are made side by side; others shall have their turn


async def write_many(at: Desk, raws: Sequence[Mapping[str, Any]]) -> list[Stored | MultifoldError]:
    """What became of each; one that is refused does not keep the others out."""
    turns = asyncio.Semaphore(AT_ONCE)
    made = await asyncio.gather(*(_made(at, raw, turns) for raw in raws))
    fit = [one for one in made if isinstance(one, Made)]
    stored = iter(await at.run(lambda: at.service.put(fit)) if fit else [])
    outcomes = [next(stored) if isinstance(one, Made) else one for one in made]
    written = [outcome.made.item.id for outcome in outcomes if isinstance(outcome, Stored)]
    if written:
        at.audit("put", written, len(written))
    return outcomes


async def _made(at: Desk, raw: Mapping[str, Any], turns: asyncio.Semaphore) -> Made | MultifoldError:
    settings = at.service.settings
    async with turns:
        try:
            parcel = at.office.fetcher.parcel()
            return await at.put(await parts_from_json(raw, parcel, settings))
        except MultifoldError as error:
            return error
