"""Some queries of a test set in pictures: what they find, why, and what lies between them and the root."""

from html import escape

import numpy as np
from PIL import Image

from multifold.encoder import Encoder
from multifold.explanation import Explainer
from multifold.scores import likeness
from multifold.traversal import pool_of, traverse
from training.evaluate import pictures
from training.evaluate.explanation import matches
from training.evaluate.looking import TestSet
from training.evaluate.page import Figure, Section
from training.evaluate.pictures import data_uri
from training.evaluate.retrieval import Encodes, answered, right

QUERIES, BEST = 8, 5
EXPLAINED = 4
FOUND = (
    "Captions all over the set and the first five shapes, each by the view that matched best, and their "
    "scores; ✓ is right: what belongs to the caption's item, or what the protocol counts."
)
WHY = (
    "What made a shape and its first caption match: the brighter a place and the darker a word, the larger "
    "its share of the score. Pictures by {picture}, words by {text}."
)
ROOTWARD = "Captions of the bundle's pool that are met on a straight line from a shape to the root."


def sections(encoder: Encodes, test: TestSet, *, equal_texts: bool) -> list[Section]:
    """What can be shown of this set; explanations and traversals are for bundles."""
    if test.views is None or not len(test.observed.text):
        return []
    told = [Section("What captions find", [text_to_shape(encoder, test, test.views, equal_texts)])]
    if isinstance(encoder, Encoder):
        told.append(Section("Why they match", [_why(encoder, test, test.views)]))
        if encoder.bundle.pool() and encoder.bundle.geometry.root is not None:
            told.append(Section("From shapes to the root", [_rootward(encoder, test, test.views)]))
    return told


def text_to_shape(encoder: Encodes, test: TestSet, views: np.ndarray, equal_texts: bool) -> Figure:
    """One caption of items all over the set, each with the shapes it finds by the view that matched best."""
    observed = test.observed
    mask = np.isin(np.arange(len(observed.text)), _spread(len(observed.text), QUERIES))
    queries = observed.text.only(mask)
    scores, columns = answered(encoder, queries, observed.shape, "mean")
    marked = right(observed, queries, columns, equal_texts)
    seen = observed.shape
    by_view = likeness(encoder, encoder.vectors(queries.features), encoder.vectors(seen.features))
    by_view = by_view.reshape(len(queries), len(columns), -1)
    texts = [text for texts in observed.captions for text in texts]
    rows = []
    for row, place in enumerate(np.flatnonzero(mask)):
        best = np.argsort(-scores[row], kind="stable")[:BEST]
        cells = [
            _cell(
                views[item, by_view[row, item].argmax()],
                test.entries[columns.owners[item]].id,
                bool(marked[row, item]),
                float(scores[row, item]),
            )
            for item in best
        ]
        rows.append(f"<tr><td>“{escape(texts[place])}”</td>{''.join(cells)}</tr>")
    return Figure(f'<table class="grid">{"".join(rows)}</table>', FOUND)


def _why(encoder: Encoder, test: TestSet, views: np.ndarray) -> Figure:
    """Heat maps and words of a few items that are seen and said."""
    entries = [entry for entry in test.entries if entry.mesh is not None]
    said = [place for place, entry in enumerate(entries) if entry.texts]
    chosen = [said[place] for place in _spread(len(said), EXPLAINED)]
    found = matches(
        encoder,
        [np.array(views[place, 0]) for place in chosen],
        [entries[place].texts[0] for place in chosen],
    )
    explainer = Explainer(encoder)
    cells = []
    for match in found:
        heat, words = (
            explainer.picture(match.seen, match.text_vector),
            explainer.text(match.text, match.seen_vector),
        )
        cells.append(f"<div>{pictures.heat(match.seen, heat)}{pictures.words(words)}</div>")
    methods = {"picture": explainer.methods("image")[0], "text": explainer.methods("text")[0]}
    return Figure(f'<div class="why">{"".join(cells)}</div>', WHY.format(**methods))


def _rootward(encoder: Encoder, test: TestSet, views: np.ndarray) -> Figure:
    """Strips of a few shapes, by the mean of their views."""
    pool, shapes = pool_of(encoder, encoder.bundle.pool()), test.observed.shape.pooled()
    strips = []
    for place in _spread(len(shapes), EXPLAINED):
        (path,) = traverse(encoder, shapes.features[place], pool)
        face = Image.fromarray(np.array(views[place, 0]))
        strips.append(pictures.strip(path, face, test.entries[shapes.owners[place]].id))
    return Figure("".join(strips), ROOTWARD)


def _spread(count: int, most: int) -> list[int]:
    """A few places, all over the set."""
    return sorted({*np.linspace(0, count - 1, most).astype(int).tolist()}) if count else []


def _cell(view: np.ndarray, name: str, hit: bool, score: float) -> str:
    mark = "<b>✓</b> " if hit else ""
    picture = f'<img src="{data_uri(Image.fromarray(view))}" alt="">'
    kind = ' class="hit"' if hit else ""
    short = escape(name.rpartition("/")[2])
    return f"<td{kind}>{picture}<small>{mark}{score:.3f}</small><small>{short}</small></td>"
