"""Skinned meshes of a glTF file, drawn in the pose in which the file shows them."""

import numpy as np
from jaxtyping import Float64, Shaped

from renderers.errors import MeshError
from renderers.files.accessors import Buffers, entry


def skin_matrices(
    buffers: Buffers, index: int, worlds: dict[int, Float64[np.ndarray, "4 4"]]
) -> Float64[np.ndarray, "j 4 4"]:
    """What each joint does to a vertex: into the joint's rest frame, then to where the joint stands."""
    skin = entry(buffers.tree, "skins", index)
    joints = skin["joints"]
    if not joints or any(joint not in worlds for joint in joints):
        raise MeshError("the file is damaged: a skin names a joint that is not in the scene.")
    stand = np.stack([worlds[joint] for joint in joints])
    if "inverseBindMatrices" not in skin:
        return stand
    rest = buffers.accessor(skin["inverseBindMatrices"]).astype(np.float64)
    if rest.shape != (len(joints), 16):
        raise MeshError("the file is damaged: a skin has fewer rest poses than joints.")
    return stand @ rest.reshape(-1, 4, 4).transpose(0, 2, 1)


def skinned(
    matrices: Float64[np.ndarray, "j 4 4"],
    joints: Shaped[np.ndarray, "n 4"],
    weights: Shaped[np.ndarray, "n 4"],
) -> Float64[np.ndarray, "n 4 4"]:
    """The mean of its joints' matrices for each vertex, by its weights."""
    if joints.size and joints.max() >= len(matrices):
        raise MeshError("the file is damaged: a vertex hangs on a joint that does not exist.")
    shares = weights.astype(np.float64)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    means: Float64[np.ndarray, "n 4 4"] = np.einsum("nk,nkij->nij", shares, matrices[joints.astype(np.int64)])
    return means
