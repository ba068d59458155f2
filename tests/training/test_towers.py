"""What serving relies on: pads and batch mates change nothing."""

import torch

from tests.training import small
from training.towers import build_model


def test_text_may_be_cut_after_its_end_token() -> None:
    model = build_model(small.recipe(), 300).eval()
    tokens = torch.randint(1, 298, (4, 12))
    tokens[:, -1] = 299
    padded = torch.nn.functional.pad(tokens, (0, 10))
    with torch.inference_mode():
        torch.testing.assert_close(model.text(padded), model.text(tokens))


def test_an_observation_ignores_its_batch_mates() -> None:
    model = build_model(small.recipe(), 300).eval()
    pixels = torch.randint(0, 256, (5, 32, 32, 3), dtype=torch.uint8)
    with torch.inference_mode():
        torch.testing.assert_close(model.image(pixels)[2:3], model.image(pixels[2:3]))
