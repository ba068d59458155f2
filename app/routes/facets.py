"""POST /v1/facets: which values the payloads have, how often, and from where to where their numbers go."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from app.offload import Desk, desk
from app.parsing import question_of, where
from app.routes.refusals import refusals
from app.schemas.facets import FacetsAnswer, FacetsBody, FacetShown, RangeShown
from app.schemas.search import SearchBody
from index.check import check_facets
from index.truth.browse import Facet, Span
from index.truth.filters import And
from index.truth.tally import Tally
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends

router = APIRouter(prefix="/v1", tags=["facets"])


@router.post("/facets", responses=refusals(413, 422, 429, 503))
async def facets(at: Annotated[Desk, Depends(desk)], body: FacetsBody) -> FacetsAnswer:
    """Count values of payload keys: of all items, of those a filter lets through, or of a query's hits."""
    if body.query is not None:
        tally = Tally(await _payloads(at, body, body.query), body.keys)
        return _answer(tally.facets(body.limit), tally.spans())
    chosen, collection = where(body.filter), at.service.collection
    return _answer(
        *await at.run(
            lambda: (collection.facets(body.keys, chosen, body.limit), collection.spans(body.keys, chosen))
        )
    )


async def _payloads(at: Desk, body: FacetsBody, query: SearchBody) -> list[Mapping[str, Any]]:
    """What the best hits of a query carry, of those that both filters let through."""
    check_facets(body.keys, body.limit)
    question = question_of(query, at.service.settings.max_text)
    filters = tuple(one for one in (where(body.filter), question.options.where) if one is not None)
    options = replace(question.options, limit=body.best, offset=0, where=And(filters) if filters else None)
    answer = await at.ask(replace(question, options=options))
    return [hit.payload for hit in answer.hits]


def _answer(found: Mapping[str, Sequence[Facet]], spans: Mapping[str, Span]) -> FacetsAnswer:
    shown = {
        key: [FacetShown(value=one.value, count=one.count) for one in values] for key, values in found.items()
    }
    ranges = {key: RangeShown(min=one.least, max=one.greatest, count=one.count) for key, one in spans.items()}
    return FacetsAnswer(facets=shown, ranges=ranges)
