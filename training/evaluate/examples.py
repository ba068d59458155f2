"""Example queries of a test set in pictures: hits, explanations, and captions on the way to the root."""

from html import escape

import numpy as np
from PIL import Image

from multifold.analysis.explanation import occlude_picture, occlude_text
from multifold.analysis.traversal import caption_pool, traverse
from multifold.bundle.encoder import Encoder
from multifold.scores import similarities
from training.evaluate import figures
from training.evaluate.figures import data_uri
from training.evaluate.report import ReportFigure, ReportSection
from training.evaluate.subject import TestSet, matching_pairs
from training.retrieval.directions import RetrievalEncoder, relevant_columns, score_gallery

QUERIES, BEST = 8, 5
EXPLAINED = 4
HITS_CAPTION = (
    "Captions all over the set and the first five shapes, each by the view that matched best, and their "
    "scores; ✓ is right: what belongs to the caption's item, or what the protocol counts."
)
WHY_CAPTION = (
    "What made a shape and its first caption match: the brighter a place and the darker a word, the larger "
    "its share of the score. By occlusion."
)
TRAVERSAL_CAPTION = "Captions of the bundle's pool that are met on a straight line from a shape to the root."


def example_sections(encoder: RetrievalEncoder, test: TestSet, *, equal_texts: bool) -> list[ReportSection]:
    """The example figures of this set; explanations and traversals are for bundles."""
    if test.views is None or not len(test.observed.text):
        return []
    sections = [ReportSection("What captions find", [hits_figure(encoder, test, test.views, equal_texts)])]
    if isinstance(encoder, Encoder):
        sections.append(ReportSection("Why they match", [_why(encoder, test, test.views)]))
        if encoder.bundle.pool() and encoder.bundle.geometry.root is not None:
            sections.append(ReportSection("From shapes to the root", [_rootward(encoder, test, test.views)]))
    return sections


def hits_figure(
    encoder: RetrievalEncoder, test: TestSet, views: np.ndarray, equal_texts: bool
) -> ReportFigure:
    """One caption of items all over the set, each with the shapes it finds by the view that matched best."""
    observed = test.observed
    mask = np.isin(np.arange(len(observed.text)), _spread(len(observed.text), QUERIES))
    queries = observed.text.only(mask)
    scores, columns = score_gallery(encoder, queries, observed.shape, "mean")
    marked = relevant_columns(observed, queries, columns, equal_texts)
    asked, searched = (encoder.vectors(bank.features) for bank in (queries, observed.shape))
    by_view = similarities(encoder, asked, searched).reshape(len(queries), len(columns), -1)
    texts = [text for texts in observed.captions for text in texts]
    rows = []
    for row, place in enumerate(np.flatnonzero(mask)):
        best = np.argsort(-scores[row], kind="stable")[:BEST]
        cells = [f"<td>“{escape(texts[place])}”</td>"]
        for item in best:
            view = views[item, by_view[row, item].argmax()]
            name = test.entries[columns.owners[item]].id
            cells.append(_cell(view, name, bool(marked[row, item]), float(scores[row, item])))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return ReportFigure(f'<table class="grid">{"".join(rows)}</table>', HITS_CAPTION)


def _why(encoder: Encoder, test: TestSet, views: np.ndarray) -> ReportFigure:
    """Heat maps and words of a few items that have a mesh and a caption."""
    entries = [entry for entry in test.entries if entry.mesh is not None]
    captioned = [place for place, entry in enumerate(entries) if entry.texts]
    places = [captioned[place] for place in _spread(len(captioned), EXPLAINED)]
    pictures = [np.array(views[place, 0]) for place in places]
    pairs = matching_pairs(encoder, pictures, [entries[place].texts[0] for place in places])
    cells = []
    for pair in pairs:
        heat = occlude_picture(encoder, pair.picture, pair.text_vector)
        words = occlude_text(encoder, pair.text, pair.picture_vector)
        cells.append(f"<div>{figures.heat_map_html(pair.picture, heat)}{figures.words_html(words)}</div>")
    return ReportFigure(f'<div class="why">{"".join(cells)}</div>', WHY_CAPTION)


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


def _cell(view: np.ndarray, name: str, hit: bool, score: float) -> str:
    mark = "<b>✓</b> " if hit else ""
    picture = f'<img src="{data_uri(Image.fromarray(view))}" alt="">'
    kind = ' class="hit"' if hit else ""
    short = escape(name.rpartition("/")[2])
    return f"<td{kind}>{picture}<small>{mark}{score:.3f}</small><small>{short}</small></td>"
