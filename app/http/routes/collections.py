"""/v1/collections and /v1/aliases: several collections in one service.

What /v1/search, /v1/items and their like do for the default collection, /v1/collections/NAME/search and so
on do for the one of that name or alias (see naming.py).
"""

from dataclasses import asdict
from typing import Annotated

from app.collections.collections import Collections
from app.collections.service import CollectionService
from app.errors import ApiError
from app.http.openapi import error_responses
from app.http.routes.jobs import serialize_job as shown_job
from app.http.schemas.collections import (
    AliasAnswer,
    AliasBody,
    AliasesAnswer,
    BundleReload,
    BundleReloadAnswer,
    BundleResource,
    BundlesAnswer,
    CollectionBody,
    CollectionRemoval,
    CollectionResource,
    CollectionsAnswer,
    IndexBody,
    RebuildBody,
)
from app.http.schemas.jobs import JobAnswer
from app.runtime.rebuild import REBUILD_JOB, REINDEX_JOB
from app.runtime.runtime import Runtime, service_runtime
from app.search import insight
from index.contracts import IndexPlan
from index.engine_factory import check_plan
from index.registry import DEFAULT, MAIN, CollectionEntry, CollectionListing
from multifold.bundle.bundle import Bundle, BundleError
from multifold.errors import MultifoldError, needs_extra

with needs_extra("serve"):
    from fastapi import APIRouter, Depends

router = APIRouter(prefix="/v1", tags=["collections"])
Here = Annotated[Runtime, Depends(service_runtime)]


@router.post("/collections", status_code=201, responses=error_responses(404, 409, 413, 422, 429, 503))
async def create(here: Here, body: CollectionBody) -> CollectionResource:
    """Make an empty collection."""
    plan = None if body.index is None else IndexPlan(**body.index.model_dump())
    made = await here.quick.run(lambda: here.shelf.create(body.name, body.bundle, plan))
    here.audit.tell("create collection", made.name, [], 1, made.collection.version)
    return await here.quick.run(lambda: _shown(made, here.shelf.listing()))


@router.get("/collections", responses=error_responses(429))
async def collections(here: Here) -> CollectionsAnswer:
    """All collections."""
    return CollectionsAnswer(collections=await here.quick.run(lambda: _all(here.shelf)))


@router.get("/collections/{name}", responses=error_responses(404, 422, 429))
async def collection(here: Here, name: str) -> CollectionResource:
    """One collection, by its name or an alias."""
    return await here.quick.run(lambda: _one(here.shelf, name))


@router.delete("/collections/{name}", responses=error_responses(404, 409, 422, 429))
async def drop(here: Here, name: str) -> CollectionRemoval:
    """Remove a collection with all that it holds. What it is also called must be moved or removed first."""
    await here.drop(name)
    here.audit.tell("drop collection", name, [], 1, 0)
    return CollectionRemoval(removed=name)


@router.post(
    "/collections/{name}/rebuild", status_code=202, responses=error_responses(404, 409, 413, 422, 429, 503)
)
async def rebuild(here: Here, name: str, body: RebuildBody) -> JobAnswer:
    """Make a collection anew in another, from originals and with another bundle, and move an alias there.

    The job that does it follows what is written meanwhile, and verifies before it moves anything.
    """
    source = (await here.desk(name)).service
    if body.since is not None:
        await here.desk(body.to)  # it must be there, with what was not written since
    plan = None if body.index is None else IndexPlan(**body.index.model_dump())
    target = await here.quick.run(lambda: here.shelf.ensure(body.to, body.bundle, plan))
    if target.home == source.home:
        raise ApiError(409, "taken", f"{body.to!r} is the collection itself; choose another name")
    if body.alias is not None:
        here.shelf.check_alias(body.alias)
    spec = {"to": target.name, "alias": body.alias, "partial": body.partial, "since": body.since}
    here.audit.tell(f"rebuild as {target.name}", source.name, [], 1, source.collection.version)
    return JobAnswer(job=shown_job(await here.jobs.add(REBUILD_JOB, source.name, spec)))


@router.post(
    "/collections/{name}/reindex", status_code=202, responses=error_responses(404, 413, 422, 429, 503)
)
async def reindex(here: Here, name: str, body: IndexBody) -> JobAnswer:
    """Build another index of what is stored, without encoding anything again; a job does it.

    The present index is searched until the new one finds what is asked of it.
    """
    source, plan = (await here.desk(name)).service, IndexPlan(**body.model_dump())
    check_plan(plan, source.encoder.dim)
    here.audit.tell("reindex", source.name, [], 1, source.collection.version)
    return JobAnswer(job=shown_job(await here.jobs.add(REINDEX_JOB, source.name, asdict(plan))))


@router.get("/bundles", responses=error_responses(429))
async def bundles(here: Here) -> BundlesAnswer:
    """The bundles at hand: the service's own, and those of its folder of bundles."""
    return BundlesAnswer(bundles=await here.quick.run(lambda: _bundles(here.shelf)))


@router.post("/bundles/reload", responses=error_responses(409, 413, 422, 429))
async def reload(here: Here) -> BundleReloadAnswer:
    """Read the bundles at work anew: calibration, explanations and words of the same vectors.

    They are verified first; requests that are under way end as they began. All are replaced, or none.
    """
    pairs = await here.quick.run(here.shelf.encoders.reload)
    insight.clear_caches()
    here.audit.tell("reload bundles", "", [now.name for _, now in pairs], len(pairs), 0)
    return BundleReloadAnswer(
        bundles=[
            BundleReload(
                name=now.name, vector_id=now.vector_id, bundle_id=now.bundle_id, former=before.bundle_id
            )
            for before, now in pairs
        ]
    )


@router.get("/aliases", responses=error_responses(429))
async def aliases(here: Here) -> AliasesAnswer:
    """The collection of each alias; `default` is the one where none is named."""
    listing = await here.quick.run(here.shelf.listing)
    return AliasesAnswer(aliases={DEFAULT: MAIN, **listing.aliases})


@router.put("/aliases/{alias}", responses=error_responses(404, 409, 413, 422, 429))
async def set_alias(here: Here, alias: str, body: AliasBody) -> AliasAnswer:
    """Call a collection so from now on, in one step."""
    former = await here.quick.run(lambda: here.shelf.set_alias(alias, body.collection))
    here.audit.tell(f"set alias {alias}", body.collection, [], 1, 0)
    return AliasAnswer(alias=alias, collection=body.collection, former=former)


@router.delete("/aliases/{alias}", responses=error_responses(404, 422, 429))
async def drop_alias(here: Here, alias: str) -> CollectionRemoval:
    """Call no collection so any more; `default` goes back to the main one."""
    await here.quick.run(lambda: here.shelf.drop_alias(alias))
    here.audit.tell(f"drop alias {alias}", "", [], 1, 0)
    return CollectionRemoval(removed=alias)


def _bundles(shelf: Collections) -> list[BundleResource]:
    return [_bundle(folder.name, found, shelf) for folder, found in shelf.encoders.at_hand()]


def _bundle(folder: str, found: Bundle | BundleError, shelf: Collections) -> BundleResource:
    if isinstance(found, BundleError):
        return BundleResource(
            folder=folder,
            name=None,
            about=None,
            vector_id=None,
            bundle_id=None,
            collections=[],
            trouble=str(found),
        )
    return BundleResource(
        folder=folder,
        name=found.name,
        about=found.about,
        vector_id=found.vector_id,
        bundle_id=found.bundle_id,
        collections=[one.name for one in shelf.services() if one.encoder.bundle.folder == found.folder],
        trouble=None,
    )


def _all(shelf: Collections) -> list[CollectionResource]:
    return [_one(shelf, name) for name in (MAIN, *shelf.listing().entries)]


def _one(shelf: Collections, name: str) -> CollectionResource:
    listing = shelf.listing()
    real = listing.resolve(name)
    try:
        return _shown(shelf.service(real), listing)
    except MultifoldError as error:
        if real == MAIN:
            raise
        return _troubled(listing.entries[real], listing, str(error))


def _shown(service: CollectionService, listing: CollectionListing) -> CollectionResource:
    collection, bundle, plan = service.collection, service.encoder.bundle, service.collection.plan
    return CollectionResource(
        name=service.name,
        aliases=listing.aliases_of(service.name),
        vector_id=bundle.vector_id,
        bundle=bundle.name,
        items=collection.count(),
        observations=collection.observations(),
        version=collection.version,
        index=IndexBody(type=plan.type, device=plan.device, recall=plan.recall),
        trouble=None,
    )


def _troubled(entry: CollectionEntry, listing: CollectionListing, trouble: str) -> CollectionResource:
    return CollectionResource(
        name=entry.name,
        aliases=listing.aliases_of(entry.name),
        vector_id=entry.vector_id,
        bundle=None,
        items=None,
        observations=None,
        version=None,
        index=None,
        trouble=trouble,
    )
