"""/v1/collections, /v1/aliases and /v1/bundles: several collections in one service."""

from dataclasses import asdict

from app.collections.service import CollectionService
from app.encoding.no_encoder import NoEncoderError
from app.errors import ApiError
from app.http.dependencies import CollectionsDep
from app.http.openapi import body_errors, error_responses
from app.http.routers import service_router
from app.http.routes.jobs import serialize_job
from app.runtime.collections import Collections
from app.runtime.rebuild import REBUILD_JOB, REINDEX_JOB
from app.search import insight
from index.contracts import IndexPlan
from index.engine_factory import check_plan
from index.names import DEFAULT, MAIN
from index.plain_space import PlainSpace
from index.registry import CollectionListing
from index.store import browse
from multifold.bundle.bundle import Bundle, BundleError
from multifold.errors import MultifoldError
from multifold.wire import administration as wire
from multifold.wire.administration import (
    AliasBody,
    CollectionBody,
    CollectionStatus,
    IndexBody,
    JobAnswer,
    NameRemoval,
    RebuildBody,
)

router = service_router(prefix="/v1", tags=["collections"])
CHANGE_ERRORS = body_errors(404, 409)


@router.post("/collections", status_code=201, responses=CHANGE_ERRORS)
async def create_collection(collections: CollectionsDep, body: CollectionBody) -> CollectionStatus:
    """Make an empty collection."""
    plan = _index_plan(body.index)
    space = None if body.vectors is None else PlainSpace(body.vectors.distance, body.vectors.dim)
    service = await collections.run(
        lambda: collections.create(body.name, body.bundle, plan, space), finishes=True
    )
    service.audit("create collection", [], 1)
    return await collections.run(lambda: _status(service, collections.listing()), admitted=True)


@router.get("/collections", responses=error_responses(429))
async def list_collections(collections: CollectionsDep) -> wire.CollectionsAnswer:
    """All collections."""

    def describe_all() -> tuple[CollectionStatus, ...]:
        names = (MAIN, *collections.listing().entries)
        return tuple(_one(collections, name) for name in names)

    return wire.CollectionsAnswer(await collections.run(describe_all))


@router.get("/collections/{name}", responses=error_responses(404, 422, 429))
async def get_collection(collections: CollectionsDep, name: str) -> CollectionStatus:
    """One collection, by its name or an alias."""
    return await collections.run(lambda: _one(collections, name))


@router.delete("/collections/{name}", responses=error_responses(404, 409, 422, 429))
async def drop_collection(collections: CollectionsDep, name: str) -> NameRemoval:
    """Remove a collection with all that it holds. What it is also called must be moved or removed first."""
    await collections.run(lambda: collections.drop(name), finishes=True)
    collections.workers.audit.record("drop collection", name, [], 1, 0)
    return NameRemoval(name)


@router.post("/collections/{name}/rebuild", status_code=202, responses=CHANGE_ERRORS)
async def rebuild_collection(collections: CollectionsDep, name: str, body: RebuildBody) -> JobAnswer:
    """Write a collection again into another, from originals and with another bundle, and move an alias there.

    The job that does it follows what is written meanwhile, and verifies before it moves anything.
    """
    source = await collections.find(name)
    if body.since is not None:
        await collections.find(body.to)  # it must be there, with what was not written since
    plan = _index_plan(body.index)
    target = await collections.run(lambda: collections.ensure(body.to, body.bundle, plan), finishes=True)
    if not target.encoder.encodes:
        raise NoEncoderError
    if target.home == source.home:
        raise ApiError(409, "taken", f"{body.to!r} is the collection itself; choose another name")
    if body.alias is not None:
        collections.listing().check_alias(body.alias)
    spec = {"to": target.name, "alias": body.alias, "partial": body.partial, "since": body.since}
    source.audit(f"rebuild as {target.name}", [], 1)
    return JobAnswer(serialize_job(await collections.job_runner.add(REBUILD_JOB, source.name, spec)))


@router.post("/collections/{name}/reindex", status_code=202, responses=body_errors(404))
async def reindex_collection(collections: CollectionsDep, name: str, body: IndexBody) -> JobAnswer:
    """Build another index of what is stored, without encoding anything again; a job does it.

    The present index is searched until the new one finds what is asked of it.
    """
    source = await collections.find(name)
    plan = IndexPlan(**asdict(body))
    check_plan(plan, source.encoder)
    source.audit("reindex", [], 1)
    return JobAnswer(serialize_job(await collections.job_runner.add(REINDEX_JOB, source.name, asdict(plan))))


@router.get("/bundles", responses=error_responses(429))
async def list_bundles(collections: CollectionsDep) -> wire.BundlesAnswer:
    """The bundles at hand: the service's own, and those of its folder of bundles."""
    pairs = await collections.run(lambda: list(collections.encoders.at_hand()))
    return wire.BundlesAnswer(tuple(_bundle(folder.name, bundle, collections) for folder, bundle in pairs))


@router.post("/bundles/reload", responses=error_responses(409, 413, 422, 429))
async def reload_bundles(collections: CollectionsDep) -> wire.BundleReloadAnswer:
    """Read the bundles in use again: reports, explanations and words of the same vectors.

    They are verified first; requests that are under way end as they began. All are replaced, or none.
    """
    pairs = await collections.run(collections.encoders.reload)
    insight.clear_caches()
    collections.workers.audit.record("reload bundles", "", [now.name for _, now in pairs], len(pairs), 0)
    bundles = (wire.BundleReload(now.name, now.vector_id, now.bundle_id, old.bundle_id) for old, now in pairs)
    return wire.BundleReloadAnswer(tuple(bundles))


@router.get("/aliases", responses=error_responses(429))
async def list_aliases(collections: CollectionsDep) -> wire.AliasesAnswer:
    """The collection of each alias, or several; `default` is the one where none is named."""
    listing = await collections.run(collections.listing)
    several = {alias: tuple(names) for alias, names in listing.groups.items()}
    return wire.AliasesAnswer({DEFAULT: MAIN, **listing.aliases}, several)


@router.put("/aliases/{alias}", responses=CHANGE_ERRORS)
async def set_alias(collections: CollectionsDep, alias: str, body: AliasBody) -> wire.AliasAnswer:
    """Call a collection so from now on, in one step; or several, which searches then ask together."""
    names = (
        (body.collection,) if body.collection is not None else tuple(dict.fromkeys(body.collections or ()))
    )
    former = await collections.run(lambda: collections.set_alias(alias, *names), finishes=True)
    collections.workers.audit.record(f"set alias {alias}", ", ".join(names), [], 1, 0)
    return wire.AliasAnswer(alias, names[0] if len(names) == 1 else None, former, names)


@router.delete("/aliases/{alias}", responses=error_responses(404, 422, 429))
async def drop_alias(collections: CollectionsDep, alias: str) -> NameRemoval:
    """Call no collection so any more; `default` goes back to the main one."""
    await collections.run(lambda: collections.drop_alias(alias), finishes=True)
    collections.workers.audit.record(f"drop alias {alias}", "", [], 1, 0)
    return NameRemoval(alias)


def _index_plan(body: IndexBody | None) -> IndexPlan | None:
    return None if body is None else IndexPlan(**asdict(body))


def _bundle(folder: str, bundle: Bundle | BundleError, collections: Collections) -> wire.BundleStatus:
    if isinstance(bundle, BundleError):
        unknown = dict.fromkeys(("name", "about", "vector_id", "bundle_id"))
        return wire.BundleStatus(folder=folder, **unknown, collections=(), trouble=str(bundle))
    users = [one.name for one in collections.services() if one.encoder.bundle.folder == bundle.folder]
    return wire.BundleStatus(
        folder=folder,
        name=bundle.name,
        about=bundle.about,
        vector_id=bundle.vector_id,
        bundle_id=bundle.bundle_id,
        collections=tuple(users),
        trouble=None,
    )


def _one(collections: Collections, name: str) -> CollectionStatus:
    listing = collections.listing()
    real = listing.resolve(name)
    try:
        return _status(collections.service(real), listing)
    except MultifoldError as error:
        if real == MAIN:
            raise
        unknown = dict.fromkeys(("bundle", "items", "observations", "version", "index"))
        return CollectionStatus(
            name=real,
            aliases=tuple(listing.aliases_of(real)),
            vector_id=listing.entries[real].vector_id,
            **unknown,
            trouble=str(error),
        )


def _status(service: CollectionService, listing: CollectionListing) -> CollectionStatus:
    collection = service.collection
    bundle = service.encoder.bundle
    plan = service.collection.plan
    return CollectionStatus(
        name=service.name,
        aliases=tuple(listing.aliases_of(service.name)),
        vector_id=service.encoder.vector_id,
        bundle=bundle.name if service.encoder.encodes else None,
        items=collection.count(),
        observations=dict(collection.read(browse.count_observations)),
        version=collection.version,
        index=wire.IndexSettings(plan.type, plan.device, plan.recall, plan.memory),
        trouble=None,
    )
