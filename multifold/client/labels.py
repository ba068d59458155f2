"""What is asked about labels: rerankings, classifications, and tags."""

from collections.abc import Mapping, Sequence
from typing import Any

from multifold.client.calls import Call, ask
from multifold.client.methods import service_method, takes_fields
from multifold.client.transport import ServiceAddress
from multifold.wire import labels as label_wire
from multifold.wire.search import QueryInput, Search


class LabelMethods(ServiceAddress):
    """What is asked about candidates, labels and tags."""

    @service_method
    def rerank(
        self, query: Search, candidates: Sequence[QueryInput], limit: int | None = None
    ) -> Call[label_wire.RerankAnswer]:
        """Put texts, pictures, meshes and items in the order of their evidence; options of a search but
        `lexical` count for nothing.
        """
        body = label_wire.RerankBody.of(query, candidates=candidates, limit=limit)
        return ask(label_wire.RerankAnswer, "POST", f"{self._at}/rerank", body)

    @service_method
    @takes_fields(label_wire.VocabularyBody)
    def classify(
        self, subject: QueryInput, labels: label_wire.VocabularyBody
    ) -> Call[label_wire.ClassifyAnswer]:
        """Which label a text, a picture, a mesh or an item is; a mapping gives each label its prompts."""
        body = label_wire.ClassifyBody.of(subject, **vars(labels))
        return ask(label_wire.ClassifyAnswer, "POST", f"{self._at}/classify", body)

    @service_method
    @takes_fields(label_wire.TagProposalBody)
    def propose_tags(self, body: label_wire.TagProposalBody) -> Call[label_wire.TagProposalAnswer]:
        """Tags that items may have: labels, values of a key, or the commonest words. Nothing is written."""
        return ask(label_wire.TagProposalAnswer, "POST", f"{self._at}/items/tags:propose", body)

    @service_method
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
            items = [
                label_wire.TaggedItemBody(
                    one.id, [label_wire.AcceptedTagBody(tag.tag, tag.confidence) for tag in one.tags]
                )
                for one in tags.items
            ]
        else:
            items = [label_wire.TaggedItemBody(name, list(some)) for name, some in tags.items()]
        body = label_wire.TagAcceptBody(items, key, min_confidence)
        return ask(label_wire.TagChangeAnswer, "POST", f"{self._at}/items/tags:accept", body)

    @service_method
    def remove_tags(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        key: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Call[label_wire.TagChangeAnswer]:
        """Remove machine-made tags: all, or those of some items, of a key, or some tags."""
        body = label_wire.TagRemoveBody(filter, ids, key, tags)
        return ask(label_wire.TagChangeAnswer, "POST", f"{self._at}/items/tags:remove", body)
