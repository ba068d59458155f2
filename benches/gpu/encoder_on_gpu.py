"""The towers of bundles by either provider: one at a time, and as many as they take at once."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benches.reporting import head, row, steady_seconds
from multifold.bundle import bundle as bundles
from multifold.bundle.encoder import CPU_PROVIDER, INPUTS_AT_ONCE, Encoder, available_providers
from multifold.types import Features

SENTENCE = "a small round table of dark wood with four thin legs and a shelf below"


def measure(args: argparse.Namespace) -> Iterator[str]:
    """A table of both towers of every bundle."""
    yield head("bundle", "provider", "one picture", "one text", "pictures/s", "texts/s")
    for folder in (args.bundle, *args.also):
        for provider in reversed(available_providers()):
            yield measure_bundle(folder, provider)


def measure_bundle(folder: Path, provider: str) -> str:
    """A row of the table."""
    encoder = Encoder(bundles.load(folder), provider=provider)
    rng = np.random.default_rng(0)
    size = encoder.bundle.image.size
    pixels = rng.integers(0, 256, (INPUTS_AT_ONCE, size, size, 3), dtype=np.uint8)
    tokens = encoder.tokenizer([SENTENCE] * INPUTS_AT_ONCE).ids
    towers = (encoder.pixels, pixels), (encoder.tokens, tokens)
    one = [f"{1e3 * time_tower(tower, inputs[:1]):.2f} ms" for tower, inputs in towers]
    many = [f"{INPUTS_AT_ONCE / time_tower(tower, inputs):.0f}" for tower, inputs in towers]
    device = "CPU" if provider == CPU_PROVIDER else "CUDA"
    return row(encoder.bundle.name, device, *one, *many)


def time_tower(tower: Callable[[np.ndarray], Features], inputs: np.ndarray) -> float:
    """Seconds of one call."""
    return steady_seconds(lambda _: tower(inputs))
