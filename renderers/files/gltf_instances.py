"""EXT_mesh_gpu_instancing: one node that places its mesh many times."""

from typing import Any

import numpy as np
from jaxtyping import Float64

from renderers.errors import MeshError
from renderers.files.accessors import Buffers, entry, whole
from renderers.transform import placement

INSTANCING = "EXT_mesh_gpu_instancing"
_RESTING = {"TRANSLATION": (0.0, 0.0, 0.0), "ROTATION": (0.0, 0.0, 0.0, 1.0), "SCALE": (1.0, 1.0, 1.0)}


def instance_count(tree: dict[str, Any], node: dict[str, Any]) -> int:
    """How many instances a node declares; 1 without the extension."""
    accessors = _accessors(node)
    counts = [whole(entry(tree, "accessors", one).get("count"), "count") for one in accessors.values()]
    return max(counts, default=1)


def instance_matrices(buffers: Buffers, node: dict[str, Any]) -> list[Float64[np.ndarray, "4 4"]]:
    """Where the instances stand beneath their node; the node alone without the extension."""
    count, columns = instance_count(buffers.tree, node), {}
    for name, index in _accessors(node).items():
        columns[name] = buffers.accessor(index).astype(np.float64)
        if columns[name].shape != (count, len(_RESTING[name])):
            raise MeshError("the file is damaged: its instances have places and turns in different numbers.")
    rows = {name: columns.get(name, np.tile(rest, (count, 1))) for name, rest in _RESTING.items()}
    return [placement(*one) for one in zip(rows["TRANSLATION"], rows["ROTATION"], rows["SCALE"], strict=True)]


def _accessors(node: dict[str, Any]) -> dict[str, Any]:
    attributes = node.get("extensions", {}).get(INSTANCING, {}).get("attributes", {})
    return {name: index for name, index in attributes.items() if name in _RESTING}
