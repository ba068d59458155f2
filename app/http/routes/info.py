"""GET /v1/info: version, bundle, collection and limits. GET /v1/folder: the folder that is followed."""

from dataclasses import asdict
from importlib.metadata import version

from app.collections.service import CollectionService
from app.http.dependencies import CollectionDep, CollectionsDep
from app.http.routers import collection_router
from index.contracts import AUTO
from index.legs.table import COLUMNS
from index.search.model import SideModel, Weights
from index.store import browse
from multifold.types import SIDES
from multifold.wire.administration import FolderAnswer, FolderStatus
from multifold.wire.items import MAX_PAGE
from multifold.wire.search import MAX_FACET_HITS, MAX_LIMIT, MAX_OFFSET, MAX_QUERY_PARTS
from multifold.wire.service import (
    BundleSummary,
    CollectionSummary,
    EvidenceSummary,
    InfoAnswer,
    LegSummary,
    LimitsSummary,
    MemorySummary,
)
from renderers.contracts import DEFAULT_LIMITS

router = collection_router(tags=["info"])


@router.get("/info")
async def get_info(collections: CollectionsDep, service: CollectionDep) -> InfoAnswer:
    """Versions, the encoder, the collection and the limits."""
    follower = collections.follower_into(service)
    return await service.run(lambda: describe(service, None if follower is None else follower.status))


@router.get("/folder")
async def get_folder(collections: CollectionsDep, service: CollectionDep) -> FolderAnswer:
    """The folder that the service follows into this collection: how far it is, and what was left out."""
    follower = collections.follower_into(service)
    return FolderAnswer(folder=None, refused=(), notes=()) if follower is None else follower.report()


def describe(service: CollectionService, folder: FolderStatus | None = None) -> InfoAnswer:
    """What a service says of itself."""
    return InfoAnswer(
        version=version("multifold"),
        bundle=_bundle(service),
        collection=_collection(service),
        limits=_limits(service),
        keys=bool(service.settings.keys.get_secret_value() or service.settings.keys_file),
        feedback=service.settings.feedback != "off",
        fetches=bool(service.settings.fetch_hosts),
        in_place=bool(service.settings.spared),
        folder=folder,
    )


def _collection(service: CollectionService) -> CollectionSummary:
    one = service.collection
    evidence = service.evidence_model()
    sealed, rows = one.engines.sealed_rows()
    return CollectionSummary(
        items=one.count(),
        observations=one.read(browse.count_observations),
        version=one.version,
        behind=one.behind(),
        rows=rows,
        sealed_rows=sealed,
        reading=one.texts.progress,
        photos_to_read=None if one.writing is None else one.writing.waiting,
        memory=_memory(service),
        evidence={side: _evidence(evidence.of(side)) for side in SIDES},
    )


def _memory(service: CollectionService) -> MemorySummary:
    one = service.collection
    parts = [part for _, some in one.engines.sealed().values() for part in some]
    counts = [count for count in one.engines.read_counts().values() if count.reads]
    held = sum(part.rows * part.bytes_per_row for part in parts)
    files = sum(part.rows * part.file_bytes_per_row for part in parts)
    reads = sum(count.reads for count in counts)
    return MemorySummary(
        wanted=service.settings.index_memory if one.plan.memory == AUTO else one.plan.memory,
        bytes_per_row=round(held / max(1, sum(part.rows for part in parts)), 1),
        bytes=round(held),
        file_bytes=round(files),
        rows_per_read=round(sum(count.rows for count in counts) / max(1, reads), 1),
        disk_bytes=sum(count.bytes for count in counts),
        waiting=round(max((count.waiting for count in counts), default=float(files > 0)), 3),
    )


def _evidence(model: SideModel) -> EvidenceSummary:
    return EvidenceSummary(
        weights=_by_name(model.weights),
        wordless_weights=_by_name(model.wordless),
        queries=model.queries,
        judgements=model.judgements,
        recall=dict(model.recall),
        legs={leg: LegSummary(**asdict(quality)) for leg, quality in model.legs.items()},
    )


def _by_name(weights: Weights) -> dict[str, float]:
    return {name: round(float(one), 4) for name, one in zip(COLUMNS, weights, strict=True) if one}


def _bundle(service: CollectionService) -> BundleSummary:
    evidence = service.evidence_model()
    bundle = service.encoder.bundle
    geometry = service.encoder.bundle.geometry
    return BundleSummary(
        name=bundle.name,
        about=bundle.about,
        bundle_id=bundle.bundle_id,
        vector_id=service.encoder.vector_id,
        geometry=geometry.name,
        feature_dim=geometry.feature_dim,
        dim=geometry.dim,
        metric=geometry.metric,
        rig=bundle.views.rig,
        views=bundle.views.views,
        provider=service.encoder.provider,
        calibrated=tuple(sorted(evidence.sides)),
        calibrated_by="collection" if evidence.sides else "prior",
        calibrated_on=evidence.items,
    )


def _limits(service: CollectionService) -> LimitsSummary:
    settings = service.settings
    return LimitsSummary(
        body_bytes=settings.max_body,
        text_characters=settings.max_text,
        text_tokens=service.encoder.bundle.text.context,
        files=settings.max_files,
        pixels=settings.max_pixels,
        faces=DEFAULT_LIMITS.faces,
        page=MAX_PAGE,
        hits=MAX_LIMIT,
        offset=MAX_OFFSET,
        facet_hits=MAX_FACET_HITS,
        mix=MAX_QUERY_PARTS,
        batch=settings.max_batch,
        batch_items=settings.max_items,
        batch_hits=settings.max_hits,
        waiting=settings.queue,
        seconds=settings.request_timeout,
        render_seconds=settings.render_seconds,
    )
