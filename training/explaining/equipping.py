"""What a bundle explains and walks with, written into it; its vectors and other files stay what they are."""

import json
from collections.abc import Sequence

from multifold import bundle as bundles
from multifold.bundle import POOL, Bundle
from training.explaining.graphs import SIDES, write_explaining


def equip(bundle: Bundle, pool: Sequence[str], graphs: bool = True) -> Bundle:
    """Captions to meet, if any, and graphs; says what they weigh, and why one is missing."""
    if pool:
        write_json(bundle, POOL, pool)
    refused = write_explaining(bundle) if graphs else {}
    sealed = bundles.save(bundle)
    for name in (f"{kind}_{side}.onnx" for kind in ("points", "explain") for side in SIDES):
        if sealed.has(name):
            print(f"{name}: {sealed.path(name).stat().st_size:,} bytes")
    for side, why in refused.items():
        print(f"explain_{side}.onnx: {why}")
    return sealed


def write_json(bundle: Bundle, name: str, content: object) -> None:
    """One of a bundle's files; it counts once the bundle is saved."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    bundle.path(name).write_text(text + "\n", encoding="utf-8")
