"""Example queries of a test set in pictures: hits, explanations, and captions on the way to the root."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Int64
from PIL import Image

from multifold.analysis.explanation import ExplanationError
from multifold.analysis.traversal import caption_pool, traverse
from multifold.bundle.encoder import Encoder
from multifold.scores import similarities
from multifold.types import Pixels
from training.data.views import open_picture
from training.evaluate import figures
from training.evaluate.explanation import ExplainedPair, explain_match
from training.evaluate.figures import data_uri
from training.evaluate.report import ReportFigure, ReportSection
from training.evaluate.subject import EvaluatedEncoder, MatchingPair, TestSet, matching_pairs
from training.retrieval.directions import Pooling, RetrievalEncoder, relevant_columns, score_gallery
from training.retrieval.features import FeatureBank

QUERIES, BEST = 8, 5
EXPLAINED = 4
TOKENS = 2  # of several, explained one by one
RIGHT = "✓ is right: what belongs to the item that asks, or what the protocol counts."
SHAPES_CAPTION = (
    "Captions all over the set and the first five shapes, each by the view that matched best, and their "
    f"scores; {RIGHT}"
)
TEXTS_CAPTION = f"Shapes or pictures all over the set, and the first five captions with their scores; {RIGHT}"
PICTURES_CAPTION = f"Captions all over the set, and the first five pictures with their scores; {RIGHT}"
WHY_CAPTION = (
    "What made a picture and its first caption match: the brighter a place and the darker a word, the larger "
    "its share of the score. By {}."
)
TRAVERSAL_CAPTION = "Captions of the bundle's pool that are met on a straight line from a shape to the root."


def example_sections(subject: EvaluatedEncoder, test: TestSet, *, equal_texts: bool) -> list[ReportSection]:
    """The example figures of this set; traversals are for bundles."""
    encoder, observed = subject.encoder, test.observed
    if not len(observed.text):
        return []
    examples = ExampleHits(subject, test, equal_texts)
    sections = []
    if test.views is not None:
        sections += [
            ReportSection("What captions find", [examples.shapes_of_captions(test.views)]),
            ReportSection("What shapes find", [examples.captions_of_shapes(test.views)]),
        ]
    if len(observed.image):
        sections += [
            ReportSection("What captions find among pictures", [examples.pictures_of_captions()]),
            ReportSection("What pictures find", [examples.captions_of_pictures()]),
        ]
    if why := _why(subject, test):
        sections.append(ReportSection("Why they match", why))
    if test.views is not None and isinstance(encoder, Encoder) and _has_root(encoder):
        sections.append(ReportSection("From shapes to the root", [_rootward(encoder, test, test.views)]))
    return sections


def _has_root(encoder: Encoder) -> bool:
    """Whether captions may be met on the way to it."""
    return bool(encoder.bundle.pool()) and encoder.bundle.geometry.root is not None


@dataclass(frozen=True, eq=False)
class BestHits:
    """Some queries all over a set: their places among all, and their best columns, first first."""

    places: Sequence[int]
    columns: Int64[np.ndarray, "q best"]
    scores: Float32[np.ndarray, "q g"]
    right: Bool[np.ndarray, "q g"]
    owners: Int64[np.ndarray, " g"]


@dataclass(frozen=True, eq=False)
class ExampleHits:
    """What an encoder finds in a test set, and what it should have found."""

    subject: EvaluatedEncoder
    test: TestSet
    equal_texts: bool

    @property
    def encoder(self) -> RetrievalEncoder:
        return self.subject.encoder

    def shapes_of_captions(self, views: np.ndarray) -> ReportFigure:
        observed = self.test.observed
        hits = self._best(observed.text, observed.shape, "mean")
        asked, searched = (
            self.encoder.vectors(one)
            for one in (observed.text.features[hits.places], observed.shape.features)
        )
        by_view = similarities(self.encoder, asked, searched).reshape(*hits.scores.shape, -1)

        def best_view(row: int, column: int) -> str:
            return _picture(views[column, by_view[row, column].argmax()])

        return self._figure(hits, [self._said(place) for place in hits.places], best_view, SHAPES_CAPTION)

    def captions_of_shapes(self, views: np.ndarray) -> ReportFigure:
        observed = self.test.observed
        hits = self._best(observed.shape.pooled(), observed.text, "each")
        asked = [_picture(views[place, 0]) for place in hits.places]
        return self._figure(hits, asked, lambda _, column: self._said(column), TEXTS_CAPTION)

    def pictures_of_captions(self) -> ReportFigure:
        observed = self.test.observed
        hits = self._best(observed.text, observed.image, "each")
        asked = [self._said(place) for place in hits.places]
        return self._figure(hits, asked, lambda _, column: _picture(self._photo(column)), PICTURES_CAPTION)

    def captions_of_pictures(self) -> ReportFigure:
        observed = self.test.observed
        hits = self._best(observed.image, observed.text, "each")
        asked = [_picture(self._photo(place)) for place in hits.places]
        return self._figure(hits, asked, lambda _, column: self._said(column), TEXTS_CAPTION)

    def _best(self, asking: FeatureBank, gallery: FeatureBank, pool: Pooling) -> BestHits:
        places = _spread(len(asking), QUERIES)
        queries = asking.only(np.isin(np.arange(len(asking)), places))
        scores, columns = score_gallery(self.encoder, queries, gallery, pool)
        right = relevant_columns(self.test.observed, queries, columns, self.equal_texts)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :BEST]
        return BestHits(places, best, scores, right, columns.owners)

    def _figure(
        self, hits: BestHits, asked: Sequence[str], shown: Callable[[int, int], str], caption: str
    ) -> ReportFigure:
        """A row for each query: what asks, then its best, the right ones marked."""
        rows = []
        for row, query in enumerate(asked):
            cells = [f"<td>{query}</td>"]
            for column in hits.columns[row].tolist():
                name = self.test.entries[hits.owners[column]].id
                hit, score = bool(hits.right[row, column]), float(hits.scores[row, column])
                cells.append(_cell(shown(row, column), name, hit, score))
            rows.append(f"<tr>{''.join(cells)}</tr>")
        return ReportFigure(f'<table class="grid">{"".join(rows)}</table>', caption)

    @cached_property
    def _captions(self) -> list[str]:
        return [text for texts in self.test.observed.captions for text in texts]

    @cached_property
    def _photos(self) -> list[Path]:
        return [path for entry in self.test.entries for path in entry.images]

    def _said(self, place: int) -> str:
        """A caption of all, by its place."""
        return f"<q>{escape(self._captions[place])}</q>"

    def _photo(self, place: int) -> Pixels:
        """A picture of all, by its place."""
        return open_picture(self._photos[place], self.subject.image)


def _why(subject: EvaluatedEncoder, test: TestSet) -> list[ReportFigure]:
    """Heat maps and words of a few pictures and captions; none of towers that cannot be explained."""
    try:
        explained = [one for pair in _explained_pairs(subject, test) for one in _explain(subject, pair)]
    except ExplanationError:
        return []
    cells = [
        f"<div>{figures.heat_map_html(one.picture, one.heat)}{figures.words_html(one.words)}"
        f"<small>{about}</small></div>"
        for about, one in explained
    ]
    if not cells:
        return []
    caption = WHY_CAPTION.format(explained[0][1].heat.method)
    return [ReportFigure(f'<div class="why">{"".join(cells)}</div>', caption)]


def _explain(subject: EvaluatedEncoder, pair: MatchingPair) -> list[tuple[str, ExplainedPair]]:
    """By occlusion for a bundle; by gradients for a checkpoint, and of several tokens the first alone."""
    tokens = 1 if subject.explainer is None else subject.explainer(None).tokens
    whole = explain_match(subject, pair)
    if tokens == 1:
        return [("", whole)]
    parts = [(f"token {token}", explain_match(subject, pair, token=token)) for token in range(TOKENS)]
    return [("all tokens", whole), *parts]


def _explained_pairs(subject: EvaluatedEncoder, test: TestSet) -> list[MatchingPair]:
    """First views of a few shapes with their first captions; of a set without meshes, first pictures."""
    meshed = [entry for entry in test.entries if entry.mesh is not None]
    seen = meshed if test.views is not None else [entry for entry in test.entries if entry.images]
    captioned = [place for place, entry in enumerate(seen) if entry.texts]
    places = [captioned[place] for place in _spread(len(captioned), EXPLAINED)]
    if not places:
        return []
    if test.views is not None:
        pictures = [np.array(test.views[place, 0]) for place in places]
    else:
        pictures = [open_picture(seen[place].images[0], subject.image) for place in places]
    return matching_pairs(subject.encoder, pictures, [seen[place].texts[0] for place in places])


def _rootward(encoder: Encoder, test: TestSet, views: np.ndarray) -> ReportFigure:
    """Strips of a few shapes, by the mean of their views."""
    pool = caption_pool(encoder, encoder.bundle.pool())
    shapes = test.observed.shape.pooled()
    strips = []
    for place in _spread(len(shapes), EXPLAINED):
        (path,) = traverse(encoder, shapes.features[place], pool)
        picture = Image.fromarray(np.array(views[place, 0]))
        strips.append(figures.traversal_strip(path, picture, test.entries[shapes.owners[place]].id))
    return ReportFigure("".join(strips), TRAVERSAL_CAPTION)


def _spread(count: int, most: int) -> list[int]:
    return sorted({*np.linspace(0, count - 1, most).astype(int).tolist()}) if count else []


def _picture(pixels: Pixels) -> str:
    return f'<img src="{data_uri(Image.fromarray(pixels))}" alt="">'


def _cell(shown: str, name: str, hit: bool, score: float) -> str:
    mark = "<b>✓</b> " if hit else ""
    kind = ' class="hit"' if hit else ""
    short = escape(name.rpartition("/")[2])
    return f"<td{kind}>{shown}<small>{mark}{score:.3f}</small><small>{short}</small></td>"
