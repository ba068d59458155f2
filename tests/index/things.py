"""Small items to store, and the plain answer that a search has to give."""

from collections.abc import Iterable, Sequence

import numpy as np

from index.search.query import Query
from multifold.types import SIDE_OF, Feature, Hit, Item, Kind, Mix, Observation, Vector, pool_mean
from tests.index.spaces import FEATURE, Space

Answer = tuple[str, float, Kind, int]  # id, score, the kind and index of the observation that matched


def feature(*numbers: float) -> Feature:
    """A feature that begins with these numbers and goes on with zeros."""
    return np.array([*numbers, *[0.0] * (FEATURE - len(numbers))], np.float32)


def caption(index: int, seen: Feature, text: str = "a chair") -> Observation:
    return Observation("caption", index, seen, text=text)


def view(index: int, seen: Feature) -> Observation:
    return Observation("view", index, seen, blob=f"{index:064x}.png")


def thing(id: str, rng: np.random.Generator, views: int = 2, captions: int = 1) -> Item:  # noqa: A002
    """An item with random features."""
    seen = [view(i, rng.standard_normal(FEATURE).astype(np.float32)) for i in range(views)]
    said = [caption(i, rng.standard_normal(FEATURE).astype(np.float32), f"{id} {i}") for i in range(captions)]
    return Item(id, (*seen, *said), {"name": id})


def query(vector: Vector | Mix | Sequence[float], **changes: object) -> Query:
    asked = vector if isinstance(vector, Mix) else np.asarray(vector, np.float32)
    return Query(**{"vector": asked, "target": "shape", **changes})  # type: ignore[arg-type]


def brute(items: Iterable[Item], space: Space, query: Query) -> list[Answer]:
    """The answer by plain loops; items come in the order in which they were last written."""
    asked = query.vector.parts if isinstance(query.vector, Mix) else ((query.vector, 1.0),)
    answers = []
    for item in items:
        seen = [one for one in item.observations if SIDE_OF[one.kind] == query.target]
        if seen:
            features = np.stack([one.feature for one in seen])
            scores = [score(space, asked, vector) for vector in space.vectors(features)]
            best = scores.index(max(scores))
            mean = score(space, asked, space.vectors(pool_mean(features)[None])[0])
            answers.append(
                (item.id, mean if query.pool == "mean" else scores[best], seen[best].kind, seen[best].index)
            )
    return sorted(answers, key=lambda answer: -answer[1])[query.offset :][: query.limit]


def score(space: Space, asked: Sequence[tuple[Vector, float]], vector: Vector) -> float:
    signs = np.ones(space.dim) if space.query_signs is None else space.query_signs
    exact = 0.0
    for query, weight in asked:
        pairs = [(float(q * s), float(g)) for q, s, g in zip(query, signs, vector, strict=True)]
        own = sum(q * g for q, g in pairs) if space.metric == "ip" else -sum((q - g) ** 2 for q, g in pairs)
        exact += weight * own
    return float(np.float32(exact))


def answers(hits: Iterable[Hit]) -> list[Answer]:
    return [(hit.id, hit.score, hit.matched.kind, hit.matched.index) for hit in hits]


def same(left: Item | None, right: Item | None) -> bool:
    """Whether two items are equal in all they hold."""
    if left is None or right is None:
        return left is right
    return plain(left) == plain(right)


def plain(item: Item) -> tuple[object, ...]:
    seen = [(one.kind, one.index, one.feature.tolist(), one.text, one.blob) for one in item.observations]
    return item.id, seen, dict(item.payload)
