"""Collections to ask, and what asks: some captions or pictures of each item are stored, others ask for it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benches.index.translations import translate
from index.search.evidence_questions import common_words, cut_words, fold_caption, readable_name
from index.texts.text_indexes import item_texts
from multifold.types import SIDE_OF, Feature, Features, Item, Observation, Side, pool_mean

HUNDRED = 100  # captions of an item that has far too many
TextsEncoder = Callable[[Sequence[str]], Features]


@dataclass(frozen=True, eq=False)
class AskingPart:
    """A text or a picture that asks for an item, and all that it may find."""

    right: frozenset[str]
    text: str | None = None
    side: Side = "text"
    feature: Feature | None = None  # of a picture


@dataclass(frozen=True, eq=False)
class EvidenceWorld:
    """The items that are stored, and what asks for them, by kind."""

    items: Sequence[Item]
    asking: dict[str, list[AskingPart]] = field(default_factory=dict)


@dataclass(frozen=True)
class WorldOptions:
    """How the stored items differ from those that were given."""

    known: int | None = None  # captions stored; None: all
    pictures: bool = False  # pictures ask, and those that do are not stored
    wrong: float = 0.0  # the share of items with the captions of another one
    plain_names: bool = False
    language: str | None = None  # of the stored captions
    stuffed: int = 0  # items with a hundred captions of others
    seed: int = 0


def make_world(items: Sequence[Item], options: WorldOptions, encode: TextsEncoder) -> EvidenceWorld:
    """What is stored of items that differ so, and what asks."""
    random = np.random.default_rng(options.seed)
    if options.plain_names:
        items = [replace(item, id=f"final_v{place}", payload={}) for place, item in enumerate(items)]
    if options.pictures:
        return _picture_world(items, options, random)
    captions = [[one for one in item.observations if one.kind == "caption"] for item in items]
    hidden, stored = list[list[Observation]](), list[list[Observation]]()
    for of_item in captions:
        order = random.permutation(len(of_item)).tolist()
        count = len(of_item) if options.known is None else options.known
        hidden.append([of_item[place] for place in order[count : count + 1]])
        stored.append([of_item[place] for place in sorted(order[:count])])
    asking = _asking_texts(items, captions, hidden, stored, random)
    for place in np.flatnonzero(random.random(len(items)) < options.wrong).tolist():
        stored[place] = stored[(place + 1) % len(items)]
    every = [one for some in stored for one in some]
    for place in random.permutation(len(items))[: options.stuffed].tolist():
        others = random.permutation(len(every))[:HUNDRED].tolist()
        stored[place] = [*stored[place], *(every[other] for other in others)][:HUNDRED]
    if options.language is not None:
        stored = _translated(stored, options.language, encode)
        translations = [
            replace(one, text=translate(one.text or "", options.language))
            for one in asking["another caption"]
        ]
        asking = {"another caption": asking["another caption"], "the same, translated": translations}
    written = (_with_captions(item, some) for item, some in zip(items, stored, strict=True))
    return EvidenceWorld([item for item in written if item.observations], asking)


def _asking_texts(
    items: Sequence[Item],
    captions: Sequence[Sequence[Observation]],
    hidden: Sequence[Sequence[Observation]],
    stored: Sequence[Sequence[Observation]],
    random: np.random.Generator,
) -> dict[str, list[AskingPart]]:
    """One more caption, words of it, words of a stored one, and the names."""
    common = common_words(one.text or "" for of_item in captions for one in of_item)
    owners: dict[str, set[str]] = {}
    for item, of_item in zip(items, captions, strict=True):
        for one in of_item:
            owners.setdefault(fold_caption(one.text or ""), set()).add(item.id)
    kinds: dict[str, list[AskingPart]] = {
        name: [] for name in ("another caption", "words of it", "words of a stored one")
    }
    for unseen, seen in zip(hidden, stored, strict=True):
        for one in unseen:
            text = one.text or ""
            right = frozenset(owners[fold_caption(text)])
            kinds["another caption"].append(AskingPart(right, text))
            kinds["words of it"].append(AskingPart(right, cut_words(text, common, random)))
        if seen:
            text = seen[int(random.integers(len(seen)))].text or ""
            right = frozenset(owners[fold_caption(text)])
            kinds["words of a stored one"].append(AskingPart(right, cut_words(text, common, random)))
    kinds["name"] = _names(items)
    return {name: asks for name, asks in kinds.items() if asks}


def _names(items: Sequence[Item]) -> list[AskingPart]:
    """The readable names, each with all items of that name; none if nearly all are alike."""
    names = [fold_caption(readable_name(item_texts(0, item.id, (), item.payload))) for item in items]
    owners: dict[str, set[str]] = {}
    for name, item in zip(names, items, strict=True):
        owners.setdefault(name, set()).add(item.id)
    telling = (name for name in names if name and len(owners[name]) * 10 < len(items))
    return [AskingPart(frozenset(owners[name]), name) for name in telling]


def _translated(
    stored: Sequence[Sequence[Observation]], language: str, encode: TextsEncoder
) -> list[list[Observation]]:
    texts = [translate(one.text or "", language) for some in stored for one in some]
    pairs = iter(zip(texts, encode(texts), strict=True)) if texts else iter(())
    return [
        [replace(one, text=text, feature=feature) for one in some for text, feature in [next(pairs)]]
        for some in stored
    ]


def _picture_world(
    items: Sequence[Item], options: WorldOptions, random: np.random.Generator
) -> EvidenceWorld:
    """One photo, one view, and half of the views, as a mesh has them, ask; none of these is stored."""
    asking: dict[str, list[AskingPart]] = {"a photo": [], "a view": [], "half of the views": []}
    written = []
    for item in items:
        owner, known = frozenset([item.id]), list(item.observations)
        for kind in ("photo", "view"):
            some = [one for one in item.observations if one.kind == kind]
            order = random.permutation(len(some)).tolist()
            asks = [some[place] for place in order[: 1 if kind == "photo" else max(1, len(some) // 2)]]
            if not asks or len(known) == len(asks):
                continue
            known = [one for one in known if one not in asks]
            asking[f"a {kind}"].append(AskingPart(owner, None, "image", asks[0].feature))
            if kind == "view":
                mean = pool_mean(np.stack([one.feature for one in asks]))
                asking["half of the views"].append(AskingPart(owner, None, SIDE_OF[kind], mean))
        told = [one for one in known if one.kind == "caption"][: options.known]
        seen = tuple(one for one in known if one.kind != "caption")
        written.append(_with_captions(replace(item, observations=seen), told))
    return EvidenceWorld(written, {name: asks for name, asks in asking.items() if asks})


def _with_captions(item: Item, captions: Sequence[Observation]) -> Item:
    others = tuple(_numbered([one for one in item.observations if one.kind != "caption"]))
    return replace(item, observations=(*_numbered(captions), *others))


def _numbered(some: Sequence[Observation]) -> Iterator[Observation]:
    """Observations whose numbers have no gaps."""
    counts: dict[str, int] = {}
    for one in some:
        yield replace(one, index=counts.setdefault(one.kind, 0))
        counts[one.kind] += 1
