"""Searches, facets and embeddings, and verdicts on hits: what is asked, and what is answered."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from multifold.types import (
    LONGEST_AUTHOR,
    NO_EXAMPLES,
    ConfidenceBasis,
    Examples,
    Kind,
    Leg,
    Pooling,
    QueryMeans,
    Side,
    Target,
    Verdict,
)
from multifold.wire.files import File, Picture
from multifold.wire.items import ObservationInfo, Refusal
from multifold.wire.messages import Answer, Body, BodyError, DescribedAs, Number, described

LexicalMode: TypeAlias = Literal["auto", "off", "only"]
UnderstandMode: TypeAlias = Literal["auto", "off"]
DuplicateMode: TypeAlias = Literal["show", "fold"]
Consistency: TypeAlias = Literal["bounded", "session", "strong"]

MAX_LIMIT = 1_000
MAX_OFFSET = 10_000
MAX_CURSOR = 4_096
MAX_QUERY_PARTS = 32
MAX_WEIGHT = 1000
MAX_FACET_HITS = 2_000
MAX_HIT_FIELDS = 64
MAX_UNDERSTOOD = 32
MAX_COLLECTIONS = 32
ALWAYS_FIELDS = ("id", "score", "confidence", "modality", "matched")  # that each hit has
HIT_FIELDS = ("payload", "words", "looks_like", "evidence", "duplicates")  # that a hit may lack
ASKED_FIELDS = ("vectors",)  # that it has only where they are named
QUERY_FIELDS = ("text", "image", "mesh", "id", "vector")


class SubjectBody(Body, one_of=("text", "image", "mesh", "id"), example={"id": "chair-1"}):
    """An item, or what is none; exactly one of text, image, mesh and id."""

    none_code: ClassVar[str] = "no_query"
    several_code: ClassVar[str] = "several_queries"

    text: str | None = described("words", default=None)
    image: Picture | None = described("a picture as data URI: data:image/png;base64,…", default=None)
    mesh: File | None = described("a mesh as data URI: data:model/gltf-binary;base64,…", default=None)
    mesh_format: str | None = described(
        "format of the mesh, such as glb, if nothing else tells", default=None
    )
    id: str | None = described("an item of this collection, with all that is known of it", default=None)


class QueryInput(SubjectBody, one_of=QUERY_FIELDS, example={"text": "a red chair"}):
    """What can be asked with; exactly one of text, image, mesh, id and vector."""

    side: Side | None = described(
        "which side of that item; else the target's, if it has it. Of a vector: what it was made of, or text",
        default=None,
    )
    vector: Sequence[Number] | None = described(
        "an index vector, as /v1/embeddings gives it. It has no words, and no length of a text for weights",
        default=None,
    )


class MixPart(QueryInput, example={"text": "a red chair", "weight": -0.5}):
    """One part of a mixed query, with its weight."""

    weight: float = described("below 0: away from it", default=1.0, ge=-MAX_WEIGHT, le=MAX_WEIGHT)


class MixedQuery(QueryInput, one_of=(*QUERY_FIELDS, "mix"), example={"text": "a red chair"}):
    """What can be asked with: exactly one of text, image, mesh, id, vector and mix."""

    mix: Sequence[MixPart] | None = described(
        "several, each with a weight", default=None, min_length=1, max_length=MAX_QUERY_PARTS
    )


class SearchOptions(Body):
    """How to search, whatever is asked with."""

    target: Target = described(
        "'item': the evidence of all sides, words and a text reader added up; a side: that, and what words "
        "name; 'any': all sides and words",
        default="item",
    )
    limit: int = described("most items in the answer", default=10, ge=1, le=MAX_LIMIT)
    offset: int = described("items to skip", default=0, ge=0, le=MAX_OFFSET)
    after: str | None = described(
        "the `next` of the page before, instead of an offset", default=None, max_length=MAX_CURSOR
    )
    filter: Mapping[str, Any] | None = described('what the payload must be: {"colour": "red"}', default=None)
    pool: Pooling = described("an item is the mean of its observations, or its best one", default="mean")
    min_score: float | None = described("no items that score less", default=None, allow_inf_nan=False)
    min_confidence: float | None = described("no items that are less certain", default=None, ge=0, le=1)
    error: float | None = described(
        "the shortest answer that lacks what is meant so seldom, by how the collection's own questions went; "
        "with the target 'item'",
        default=None,
        ge=0.001,
        le=0.5,
        allow_inf_nan=False,
    )
    exact: bool = described("look at every row, however many there are", default=False)
    consistency: Consistency | None = described(
        "of services that share Milvus: 'bounded' (as services are set) sees what is indexed, all but what "
        "was written within the last second or so; 'session' what `seen` names too; 'strong' all that is "
        "stored. One that has its index to itself sees all, always",
        default=None,
    )
    seen: int | None = described(
        "with 'session': the `version` of the answer to a write, which this search has to see",
        default=None,
        ge=0,
    )
    lexical: LexicalMode | None = described(
        "whether words of the query are looked for in names, captions and payloads too: 'auto' "
        "(as services are set) lets them name an item that has all that tell, 'only' looks at nothing else",
        default=None,
    )
    understand: UnderstandMode | None = described(
        "'auto' (as services are set): words such as 'under 80 cm', 'animated' or 'by Kenney' are a filter, "
        "where the payloads have what they speak of",
        default=None,
    )
    as_text: Sequence[str] | None = described(
        "words that are no filter, as `understood` names them", default=None, max_length=MAX_UNDERSTOOD
    )
    explain: bool = described("give the index score of each side of a hit too", default=False)
    fields: Sequence[str] | None = described(
        "what hits carry beside id, score, confidence and match: 'payload', a key of it such as "
        "'payload.price', 'words', 'looks_like', 'evidence' and 'duplicates', else all of these; and "
        "'vectors', that of the match",
        default=None,
        max_length=MAX_HIT_FIELDS,
    )
    duplicates: DuplicateMode = described(
        "'fold': items that show the same are one hit, which names the others", default="show"
    )
    examples: Examples | None = described(
        "items that were judged good or bad: clues beside the query; with the target 'item'", default=None
    )
    diversity: float = described(
        "how far look-alikes of better hits give way among the best 100; with the target 'item'",
        default=0.0,
        ge=0,
        le=1,
        allow_inf_nan=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.fields or ():
            known = (*ALWAYS_FIELDS, *HIT_FIELDS, *ASKED_FIELDS)
            if name not in known and not name.startswith("payload."):
                sentence = (
                    f"a hit has no field {name[:40]!r}; there are "
                    f"{', '.join((*HIT_FIELDS, *ASKED_FIELDS))} and payload.KEY"
                )
                raise BodyError("bad_query", sentence)
        if self.after is not None and self.offset:
            raise BodyError("bad_cursor", "ask for a page by 'after' or by 'offset', one of both")
        if (self.examples or self.diversity) and (self.target != "item" or self.lexical == "only"):
            sentence = "'examples' and 'diversity' need the target 'item', and not 'lexical': 'only'"
            raise BodyError("needs_evidence", sentence)
        if self.error is not None:
            whole = self.target == "item" and self.lexical in (None, "auto") and self.pool == "mean"
            if not whole or self.examples or self.diversity:
                sentence = (
                    "'error' needs the target 'item', and neither 'examples' nor 'diversity' nor another "
                    "'lexical' or 'pool'"
                )
                raise BodyError("needs_evidence", sentence)
        examples = self.examples or NO_EXAMPLES
        for name in examples.good:
            if name in examples.bad:
                raise BodyError("bad_examples", f"{name!r} is both a good and a bad example")


class Search(
    SearchOptions,
    MixedQuery,
    example={"text": "a red chair", "filter": {"price": {"lt": 100}}, "limit": 5},
):
    """A search: exactly one of text, image, mesh, id, vector and mix, and how to search with it."""

    collections: Sequence[str] | None = described(
        "search these instead, and merge their hits: names, aliases, or names of collections elsewhere that "
        "the service knows; with the target 'item'",
        default=None,
        min_length=1,
        max_length=MAX_COLLECTIONS,
    )


class SimilarBody(SearchOptions, example={"target": "shape", "limit": 5}):
    """How to look for what is like an item."""

    side: Side | None = described(
        "which side of the item to go by; else the target's, if it has it", default=None
    )


class BatchSearchBody(Body, example={"searches": [{"text": "a red chair"}, {"text": "a lamp", "limit": 3}]}):
    """Several searches at once; each is one of /v1/search in JSON."""

    searches: Sequence[Annotated[Mapping[str, Any], DescribedAs(Search)]] = described(
        "each answered for itself", min_length=1
    )


class FacetsBody(Body, example={"keys": ["colour", "price"], "query": {"text": "a chair"}}):
    """Which values to count."""

    keys: Sequence[str] = described("keys of the payload; dots lead inwards", min_length=1, max_length=64)
    filter: Mapping[str, Any] | None = described("only items that it lets through", default=None)
    limit: int = described("most values of one key", default=20, ge=1, le=1000)
    query: Search | None = described(
        "only what this search finds; its own limit, offset and after are not looked at", default=None
    )
    best: int = described(
        "with a query: so many of its best hits count", default=1_000, ge=1, le=MAX_FACET_HITS
    )


class EmbeddingsBody(Body, example={"input": ["a red chair", "a lamp"]}, extra="ignore"):
    """What to embed, as OpenAI's API has it, and of which modality."""

    input: str | Sequence[str] = described("texts; or images or meshes as data URIs")
    model: str | None = described("the name of the bundle, or nothing", default=None)
    modality: Side = described("what the input is", default="text")
    encoding_format: Literal["float", "base64"] = described(
        "how numbers are written: as a list, or as base64 of little-endian float32", default="float"
    )
    dimensions: int | None = described(
        "the length of the vectors, or one of the `prefixes` of /v1/models", default=None
    )
    mesh_format: str | None = described("format of the meshes, if nothing else tells", default=None)
    user: str | None = described("passed over", default=None)


class ShownObservation(Body):
    """An observation of an item."""

    kind: Kind = described("what it is")
    index: int = described("its place", ge=0)


class FeedbackBody(Body, example={"query": {"text": "a red chair"}, "item": "chair-1", "verdict": "good"}):
    """A verdict on a hit: whether the item is what the query meant."""

    query: Search = described("what was searched, as /v1/search takes it")
    item: str = described("the item that is judged")
    verdict: Verdict = described("whether the item is what was meant")
    observation: ShownObservation | None = described("the observation that was shown", default=None)
    by: str | None = described(
        "who says so, in any name of your own", default=None, min_length=1, max_length=LONGEST_AUTHOR
    )


class DuplicateItem(Answer):
    """An item that shows the same as a hit."""

    id: str = described("its name")
    payload: dict[str, Any] = described("its own JSON object")


class EvidenceShare(Answer):
    """What one leg of a search says of a hit, and what of the item it was that matched."""

    leg: Leg = described("what spoke: a side of the item, its points, words, a text reader or examples")
    value: float = described("a log-likelihood ratio in nats: above 0 it speaks for the item")
    matched: ObservationInfo | None = described(
        "the observation that it rests on; null where that is none", default=None
    )
    text_field: str | None = described("where words matched: name, path or payload", default=None)


class SearchHit(Answer, kw_only=True):
    """An item found, and the observation of it that matched best."""

    id: str = described("the item")
    score: float = described("index score, or evidence: higher is closer; for one answer and side")
    confidence: float | None = described("the chance that this was meant; of one text or file", default=None)
    modality: Side = described("the side that is shown: that of `matched`")
    matched: ObservationInfo = described("the observation that matched best")
    payload: dict[str, Any] = described("your own JSON object, or the keys of it that `fields` names")
    sides: dict[Side, float] | None = described("with `explain`: the index score of each side", default=None)
    words: tuple[str, ...] = described("words of the query that name this item", default=())
    looks_like: tuple[str, ...] = described(
        "where a picture matched: what it looks like to the encoder, the likeliest first; names that a "
        "bundle brings, and only those that fit",
        default=(),
    )
    evidence: tuple[EvidenceShare, ...] = described("what each leg says", default=())
    duplicates: tuple[DuplicateItem, ...] = described("others that show the same, if folded", default=())
    collection: str | None = described("with `collections`: the one that has it", default=None)


class SearchTimings(Answer):
    """Milliseconds from the first to the last step, waiting included."""

    encode: float = described("from the query to its vectors")
    search: float = described("from vectors to hits")
    total: float = described("both, with what is before, between and after")


class UnderstoodCondition(Answer):
    """Words of a query that were read as a filter."""

    words: str = described("as they stand in the query")
    filter: dict[str, Any] = described("what the payload must be")


class Understood(Answer):
    """A query that was read as words and conditions."""

    text: str = described("what was searched for")
    conditions: tuple[UnderstoodCondition, ...] = described("all of which hold for each hit")


class SearchAnswer(Answer, kw_only=True):
    """Items, best first."""

    hits: tuple[SearchHit, ...] = described("the items, as many as `limit` allows")
    took_ms: SearchTimings = described("where the time went")
    version: int = described("sequence number of the collection that answered; of several, the largest")
    versions: dict[str, int] | None = described("with `collections`: of each that answered", default=None)
    everything: float | None = described(
        "nats that all items of the collection say together; a service that merges answers compares it",
        default=None,
    )
    chance: float | None = described("that one of the first 30 items is what is meant", default=None)
    items_with_texts: int | None = described("of the collection, where a text is asked", default=None)
    items_with_words: dict[str, int] | None = described("for each word of a text", default=None)
    bundle: str = described("name of the encoder")
    calibrated_by: ConfidenceBasis | None = described("what confidences were fitted on", default=None)
    matches_well: bool | None = described("false where nothing stands out", default=None)
    here: bool | None = described(
        "with `error`: false where the collection lacks what is meant, but for that error", default=None
    )
    error: float | None = described(
        "with `error`, on the first page: the share of answers like this one that lacks what is meant. It is "
        "more than was asked where the promise would take more than 20 hits",
        default=None,
    )
    understood: Understood | None = described(
        "which words of the query were a filter; null where none was", default=None
    )
    warnings: tuple[str, ...] = described(
        "what was not searched for, such as the end of a long text", default=()
    )
    next: str | None = described("the `after` of the following page; null after the last", default=None)


class BatchSearchOutcome(Answer):
    """The answer to one search, or why there is none."""

    answer: SearchAnswer | None = described("as of a search alone; null if it was refused", default=None)
    error: Refusal | None = described("why it was refused; null if it was answered", default=None)


class BatchSearchAnswer(Answer):
    """Answers in the order of the searches."""

    answers: tuple[BatchSearchOutcome, ...] = described("one for each search")


class FacetValueCount(Answer):
    """A value of the payload, and how many items have it."""

    value: str | float | bool = described("a text, a number, true or false")
    count: int = described("items that have it")


class NumberRange(Answer):
    """The least and the greatest number of a key, and how many items have one."""

    min: float = described("the least")
    max: float = described("the greatest")
    count: int = described("items that have a number")


class FacetsAnswer(Answer):
    """The commonest values of each key, most first, and the range of each key that has numbers."""

    facets: dict[str, tuple[FacetValueCount, ...]] = described("values by key")
    ranges: dict[str, NumberRange] = described("ranges by key")


class EmbeddingInfo(Answer, kw_only=True):
    """The index vector of one input."""

    object: Literal["embedding"] = described("always the same, as in OpenAI's API", default="embedding")
    index: int = described("place of its input, from 0")
    embedding: list[float] | str = described("numbers, or base64 of little-endian float32")


class TokenUsage(Answer):
    """Tokens that were read."""

    prompt_tokens: int = described("of all texts")
    total_tokens: int = described("the same: nothing is generated")


class EmbeddingsAnswer(Answer, kw_only=True):
    """Vectors in the order of the inputs."""

    object: Literal["list"] = described("always the same, as in OpenAI's API", default="list")
    data: tuple[EmbeddingInfo, ...] = described("one for each input")
    model: str = described("name of the bundle")
    usage: TokenUsage = described("what was read")


class ServedModel(Answer, kw_only=True):
    """A bundle, as OpenAI's API shows models."""

    id: str = described("name of the bundle")
    object: Literal["model"] = described("always the same, as in OpenAI's API", default="model")
    created: int = described("always 0: a bundle has no date", default=0)
    owned_by: Literal["multifold"] = described("always the same", default="multifold")
    modalities: tuple[Side, ...] = described("what it can embed")
    dimensions: int = described("numbers of a vector")
    prefixes: tuple[int, ...] = described("shorter lengths that embeddings may have", default=())


class ModelsAnswer(Answer, kw_only=True):
    """The bundle that is loaded."""

    object: Literal["list"] = described("always the same, as in OpenAI's API", default="list")
    data: tuple[ServedModel, ...] = described("one model")


class FeedbackPart(Answer):
    """One part of a query; without content where that is not kept."""

    means: QueryMeans = described("what it was asked with")
    weight: float = described("1 for a query of one part")
    text: str | None = described("its words, if it was a text", default=None)
    id: str | None = described("the item, if it was one", default=None)
    side: Side | None = described("which side of the item or vector was meant", default=None)
    url: str | None = described("of its picture or mesh", default=None)


class ObservationReference(Answer):
    """An observation of an item."""

    kind: Kind = described("what it is")
    index: int = described("its place among those of its kind, from 0")


class FeedbackEntry(Answer, kw_only=True):
    """A verdict on an item for a query, as it is kept."""

    id: str = described("of the verdict")
    item: str = described("that was judged")
    observation: ObservationReference | None = described("that was shown; null where none was named")
    verdict: Verdict = described("whether the item is what was meant")
    by: str | None = described("who said so, as far as that was told")
    given: str = described("when, in UTC")
    target: Target = described("of the search")
    query: tuple[FeedbackPart, ...] = described("its parts; one, unless it was a mix")


class FeedbackPage(Answer):
    """Verdicts, and where the next page begins; null after the last."""

    feedback: tuple[FeedbackEntry, ...] = described("in the order of their ids")
    next: str | None = described("the `after` of the following page; null after the last")
