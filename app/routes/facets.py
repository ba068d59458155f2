"""POST /v1/facets: which values the payloads have, how often, and from where to where their numbers go."""

from typing import Annotated

from app.offload import Desk, desk
from app.parsing import where
from app.routes.refusals import refusals
from app.schemas.facets import FacetsAnswer, FacetsBody, FacetShown, RangeShown
from multifold.errors import needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends

router = APIRouter(prefix="/v1", tags=["facets"])


@router.post("/facets", responses=refusals(413, 422, 429, 503))
async def facets(at: Annotated[Desk, Depends(desk)], body: FacetsBody) -> FacetsAnswer:
    """Count the values of payload keys, of all items or of those that a filter lets through."""
    chosen, collection = where(body.filter), at.service.collection
    found, spans = await at.run(
        lambda: (collection.facets(body.keys, chosen, body.limit), collection.spans(body.keys, chosen))
    )
    shown = {
        key: [FacetShown(value=one.value, count=one.count) for one in values] for key, values in found.items()
    }
    ranges = {key: RangeShown(min=one.least, max=one.greatest, count=one.count) for key, one in spans.items()}
    return FacetsAnswer(facets=shown, ranges=ranges)
