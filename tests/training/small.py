"""A recipe and a data set so small that a test can train on them."""

from collections.abc import Sequence

import numpy as np

from multifold.bundle.tokenizer import Tokenizer
from training.batches import TrainingItems
from training.recipes.schema import Recipe, parse_recipe
from training.towers import text_spec
from training.towers.tokenizers import TrainedTokenizer, train_definition
from training.validation import ValidationSet

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220), "grey": (120, 120, 120)}
PLACES = ("left", "right", "top", "bottom")


def recipe(**train: object) -> Recipe:
    """Tiny towers; `train` overrides the run."""
    return parse_recipe(
        {
            "name": "small",
            "about": "Knows coloured squares.",
            "data": {},
            "image": {"size": 32, "stem": [8, 16], "width": 32, "depth": 1, "heads": 2},
            "text": {"vocabulary": 300, "context": 24, "width": 32, "depth": 1, "heads": 2},
            "geometry": {"dim": 16},
            "train": {"items": 8, "steps": 200, "warmup": 10, "rate": 3e-3, "shift": 1, **train},
        },
        "small",
    )


def pictures() -> tuple[np.ndarray, list[list[str]]]:
    """Sixteen items, a coloured square in one of four places, each with two views and three captions."""
    views, captions = [], []
    for colour, rgb in COLOURS.items():
        for row, place in enumerate(PLACES):
            y, x = divmod(row, 2)
            view = np.full((2, 32, 32, 3), 255, np.uint8)
            view[:, 4 + 14 * y : 14 + 14 * y, 4 + 14 * x : 14 + 14 * x] = rgb
            view[1] = view[1] // 2 + 100
            views.append(view)
            captions.append(
                [f"a {colour} square {place}", f"{place}: {colour} square", f"square, {colour}, {place}"]
            )
    return np.stack(views), captions


def tokenizer(captions: Sequence[Sequence[str]]) -> TrainedTokenizer:
    """A vocabulary of the captions' own."""
    return train_definition([text for texts in captions for text in texts], 300)


def groups(wanted: Recipe) -> tuple[TrainingItems, TrainedTokenizer]:
    """The pictures as the loop wants them."""
    views, captions = pictures()
    trained = tokenizer(captions)
    tokenize = Tokenizer(trained.definition, text_spec(wanted.text, trained))
    rows = [(3 * i, 3 * i + 3) for i in range(len(captions))]
    return TrainingItems(views, tokenize([text for texts in captions for text in texts]).ids, rows), trained


def held_out(wanted: Recipe) -> ValidationSet | None:
    """Four of the pictures again, for runs that validate."""
    if not wanted.validation.every:
        return None
    views, captions = pictures()
    trained = tokenizer(captions)
    reader = Tokenizer(trained.definition, text_spec(wanted.text, trained))
    return ValidationSet(views[::4], captions[::4], reader)
