"""How much the draw of a kernel cloud's random features matters: an evaluation by several draws."""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from multifold.errors import MultifoldError
from multifold.manifest import ManifestEntry
from training.evaluate import classification, protocols
from training.evaluate.protocols import Protocol
from training.evaluate.subject import EvaluatedEncoder, encode_test_set
from training.retrieval import directions
from training.retrieval.directions import CUTS


def measure_draws(
    subject: EvaluatedEncoder, protocol: Protocol, entries: Sequence[ManifestEntry], args: argparse.Namespace
) -> dict[str, Any]:
    """Mean and deviation, over so many draws, of each recall, and of zero-shot accuracy with a label."""
    if subject.redraw is None:
        raise MultifoldError("--draws is for checkpoints of cloud_gaussian or cloud_imq: others draw nothing")
    found = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    length = 0
    for seed in range(args.draws):
        length = subject.redraw(args.frequencies, seed)
        test = encode_test_set(subject, entries, args.cache)
        search = directions.search_among(subject.encoder, test.observed, protocol.equal_texts)
        for name, pools in protocols.measure_retrieval(protocol, entries, search, None).items():
            for pool, numbers in pools.items():
                for cut in CUTS:
                    found[f"{name}, {pool}"][f"R@{cut}"].append(numbers[f"R@{cut}"][0])
        if args.label is not None:
            shot = classification.measure_zero_shot(subject, test, args)
            found["zero-shot"]["accuracy"].append(shot["accuracy"][0])
            found["zero-shot"]["per_class"].append(shot["per_class"])
    spread = {
        name: {measure: _spread(values) for measure, values in measures.items()}
        for name, measures in found.items()
    }
    return {"draws": args.draws, "frequencies": length, "measures": spread}


def _spread(values: Sequence[float]) -> list[float]:
    """Their mean and standard deviation."""
    return [round(float(np.mean(values)), 4), round(float(np.std(values, ddof=1)), 4)]
