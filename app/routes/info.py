"""GET /v1/info: what runs here, and what it takes."""

from importlib.metadata import version
from typing import Annotated

from app.offload import Desk, desk
from app.schemas.facets import MAX_BEST
from app.schemas.info import BundleInfo, CollectionInfo, Info, LimitsInfo
from app.schemas.items import MAX_PAGE
from app.schemas.search import MAX_LIMIT, MAX_OFFSET, MAX_PARTS
from app.service import Service
from multifold.errors import needs_extra
from renderers.limits import DEFAULT_LIMITS

with needs_extra("serve"):
    from fastapi import APIRouter, Depends

router = APIRouter(prefix="/v1", tags=["info"])


@router.get("/info")
async def info(at: Annotated[Desk, Depends(desk)]) -> Info:
    """Versions, the encoder, the collection and the limits."""
    return await at.run(lambda: describe(at.service))


def describe(service: Service) -> Info:
    """What a service says of itself."""
    return Info(
        version=version("multifold"),
        bundle=_bundle(service),
        collection=_collection(service),
        limits=_limits(service),
        feedback=service.settings.feedback != "off",
        fetches=bool(service.settings.fetch),
        in_place=bool(service.settings.spared),
    )


def _bundle(service: Service) -> BundleInfo:
    sureness = service.sure.now()
    bundle, geometry = service.encoder.bundle, service.encoder.bundle.geometry
    return BundleInfo(
        name=bundle.name,
        about=bundle.about,
        bundle_id=bundle.bundle_id,
        vector_id=bundle.vector_id,
        geometry=geometry.name,
        dim=geometry.dim,
        metric=geometry.metric,
        rig=bundle.views.rig,
        views=bundle.views.views,
        provider=service.encoder.provider,
        calibrated=sorted(sureness.curves),
        calibrated_by=sureness.by,
        calibrated_on=sureness.items,
    )


def _collection(service: Service) -> CollectionInfo:
    collection = service.collection
    return CollectionInfo(
        items=collection.count(), observations=collection.observations(), version=collection.version
    )


def _limits(service: Service) -> LimitsInfo:
    settings = service.settings
    return LimitsInfo(
        body_bytes=settings.max_body,
        text_characters=settings.max_text,
        text_tokens=service.encoder.bundle.text.context,
        files=settings.max_files,
        pixels=settings.max_pixels,
        faces=DEFAULT_LIMITS.faces,
        page=MAX_PAGE,
        hits=MAX_LIMIT,
        offset=MAX_OFFSET,
        facet_hits=MAX_BEST,
        mix=MAX_PARTS,
        batch=settings.max_batch,
        waiting=settings.queue,
        seconds=settings.patience,
        render_seconds=settings.render_seconds,
    )
