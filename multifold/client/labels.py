"""What is asked about labels: rerankings, classifications, and tags."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from multifold.client.calls import Call, CollectionAddress, ask
from multifold.client.request_models import RERANK_FIELDS, Filter, QueryInput, Search, given, vocabulary
from multifold.client.transport import ServiceMethod
from multifold.wire import labels as label_wire


class LabelMethods(CollectionAddress):
    """What is asked about candidates, labels and tags."""

    @ServiceMethod
    def rerank(
        self, query: Search, candidates: Sequence[QueryInput], limit: int | None = None
    ) -> Call[label_wire.RerankAnswer]:
        """Put texts, pictures, meshes and items in the order of their evidence; options of a search but
        `lexical` count for nothing.
        """
        asked = {name: value for name, value in query.json().items() if name in RERANK_FIELDS}
        body = asked | given(candidates=[one.query() for one in candidates], limit=limit)
        return ask(label_wire.RerankAnswer, "POST", f"{self._at}/rerank", json=body)

    @ServiceMethod
    def classify(
        self,
        subject: QueryInput,
        labels: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        *,
        key: str | None = None,
        templates: Sequence[str] | None = None,
    ) -> Call[label_wire.ClassifyAnswer]:
        """Which label a text, a picture, a mesh or an item is; a mapping gives each label its prompts."""
        body = subject.query() | vocabulary(labels, key, templates)
        return ask(label_wire.ClassifyAnswer, "POST", f"{self._at}/classify", json=body)

    @ServiceMethod
    def propose_tags(
        self,
        labels: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        *,
        key: str | None = None,
        words: int | None = None,
        templates: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        filter: Filter | None = None,
        several: bool | None = None,
        min_confidence: float = 0.5,
        best: int = 5,
        limit: int = 100,
        after: str | None = None,
    ) -> Call[label_wire.TagProposalAnswer]:
        """Tags that items may have: labels, values of a key, or the commonest words. Nothing is written."""
        chosen = given(ids=None if ids is None else list(ids), filter=filter, words=words, several=several)
        page = given(min_confidence=min_confidence, best=best, limit=limit, after=after)
        body = vocabulary(labels, key, templates) | chosen | page
        return ask(label_wire.TagProposalAnswer, "POST", f"{self._at}/items/tags:propose", json=body)

    @ServiceMethod
    def accept_tags(
        self,
        tags: Mapping[str, Sequence[str]] | label_wire.TagProposalAnswer,
        *,
        key: str | None = None,
        min_confidence: float = 0.0,
    ) -> Call[label_wire.TagChangeAnswer]:
        """Write tags into items as machine-made: those of each id, or those that were proposed."""
        if isinstance(tags, label_wire.TagProposalAnswer):
            key = tags.key if key is None else key
            items = [{"id": one.id, "tags": [asdict(tag) for tag in one.tags]} for one in tags.items]
        else:
            items = [{"id": name, "tags": list(some)} for name, some in tags.items()]
        body = given(items=items, key=key, min_confidence=min_confidence)
        return ask(label_wire.TagChangeAnswer, "POST", f"{self._at}/items/tags:accept", json=body)

    @ServiceMethod
    def remove_tags(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Filter | None = None,
        key: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Call[label_wire.TagChangeAnswer]:
        """Remove machine-made tags: all, or those of some items, of a key, or some tags."""
        every = None if ids is None else list(ids), None if tags is None else list(tags)
        body = given(ids=every[0], filter=filter, key=key, tags=every[1])
        return ask(label_wire.TagChangeAnswer, "POST", f"{self._at}/items/tags:remove", json=body)
