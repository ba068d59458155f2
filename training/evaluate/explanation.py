"""Why a picture and a text match: by occlusion for a bundle, by gradients for a checkpoint."""

from dataclasses import dataclass
from pathlib import Path

from multifold.analysis.explanation import (
    HeatMap,
    WordShares,
    check_method,
    isolate_part,
    occlude_picture,
    occlude_text,
)
from multifold.bundle.encoder import Encoder
from multifold.bundle.preprocess import decode, pixels
from multifold.types import ExplanationMethod, Pixels
from training.evaluate.opening import open_evaluated
from training.evaluate.subject import EvaluatedEncoder, MatchingPair, matching_pairs


@dataclass(frozen=True, eq=False)
class ExplainedPair:
    """A picture as the encoder sees it, and what in it and in its text made them match."""

    picture: Pixels
    heat: HeatMap
    words: WordShares


def explain_pair(
    path: Path, image: Path, text: str, method: ExplanationMethod | None = None, token: int | None = None
) -> ExplainedPair:
    """The shares of places and words in the score of a picture and a text, or in one pair of tokens."""
    subject = open_evaluated(path)
    picture = pixels(decode(image.read_bytes()), subject.image)
    (pair,) = matching_pairs(subject.encoder, [picture], [text])
    return explain_match(subject, pair, method, token)


def explain_match(
    subject: EvaluatedEncoder,
    pair: MatchingPair,
    method: ExplanationMethod | None = None,
    token: int | None = None,
) -> ExplainedPair:
    """The same of a pair whose vectors are known."""
    encoder = subject.encoder
    said = pair.text_vector
    seen = pair.picture_vector
    if subject.explainer is None:
        assert isinstance(encoder, Encoder)
        check_method(method)
        if token is not None:
            said, seen = (isolate_part(one, token, encoder.bundle.geometry.tokens) for one in (said, seen))
        heat = occlude_picture(encoder, pair.picture, said)
        return ExplainedPair(pair.picture, heat, occlude_text(encoder, pair.text, seen))
    explainer = subject.explainer(method)
    if token is not None:
        said, seen = (isolate_part(one, token, explainer.tokens) for one in (said, seen))
    heat = explainer.picture(pair.picture, said)
    return ExplainedPair(pair.picture, heat, explainer.text(pair.text, seen))
