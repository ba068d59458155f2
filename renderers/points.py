"""The surface of a model as points: where they lie, which way the surface faces there, and its colour.

    sample = sample_points(load_model(Path("chair.glb")), count=2048, seed=0)

Points are spread by area: the surface, face after face, is cut into as many equal areas as there are points,
and each point lies at random in one of them. So a face has its share of points, give or take one. The same
model, count and seed give the same points, in random order: the first thousand of them are a sample, too.
Positions are those of the model (upright, in the unit ball), colours the surface's own, without light.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64, UInt8

from renderers.contracts import MeshError, MeshModel
from renderers.images.color import to_srgb
from renderers.images.texture_lookup import look_up_texture

SAMPLER = "points-1"  # rises when a mesh gets other points, so that caches are made anew
FEWEST_POINTS, MOST_POINTS = 16, 100_000
POINT_BYTES = 27  # of `encode`, for each point
_TRIES = (1, 6, 36)  # points tried for each one wanted, where textures cut some of a surface away
_FAINTEST = 1 / 255  # alpha of a see-through surface that is no surface at all


@dataclass(frozen=True, eq=False)
class PointSample:
    """Points of a surface."""

    positions: Float32[np.ndarray, "n 3"]
    normals: Float32[np.ndarray, "n 3"]
    colors: UInt8[np.ndarray, "n 3"]  # sRGB

    def __len__(self) -> int:
        return len(self.positions)

    def rows(self) -> Float32[np.ndarray, "n 9"]:
        """Position, normal and colour (sRGB, 0 to 1) beside each other, as an encoder reads them."""
        shades = self.colors.astype(np.float32) / np.float32(255)
        return np.concatenate([self.positions, self.normals, shades], axis=1)

    def encode(self) -> bytes:
        return b"".join(part.tobytes() for part in (self.positions, self.normals, self.colors))

    @classmethod
    def decode(cls, data: bytes, count: int) -> "PointSample":
        numbers = np.frombuffer(data, "<f4", 6 * count).astype(np.float32).reshape(2, count, 3)
        colors = np.frombuffer(data, np.uint8, offset=24 * count).reshape(count, 3)
        return cls(numbers[0], numbers[1], colors)


def check_point_count(count: int) -> None:
    """Refuse samples that are too small to tell a shape or too large to hold."""
    if not FEWEST_POINTS <= count <= MOST_POINTS:
        raise MeshError(f"a surface is sampled by {FEWEST_POINTS} to {MOST_POINTS:,} points, not {count:,}.")


def sample_points(model: MeshModel, count: int = 2048, seed: int = 0) -> PointSample:
    """So many points of the surface; none where a texture cuts it away."""
    check_point_count(count)
    reach = _areas(model).cumsum()
    if not reach[-1] > 0:
        raise MeshError("the mesh has no surface: none of its faces has an area.")
    rng = np.random.default_rng(seed)
    for tried in _TRIES:
        face, weights = _scatter(reach, tried * count, rng)
        color = _colors(model, face, weights)
        there = np.flatnonzero(color[:, 3] >= _least_alpha(model)[model.material_of[face]])
        if len(there) >= count:
            chosen = there[rng.permutation(len(there))[:count]]
            face, weights, color = face[chosen], weights[chosen], color[chosen]
            corners = model.vertices[model.faces[face]]
            positions = np.einsum("nc,ncx->nx", weights, corners).astype(np.float32)
            return PointSample(positions, _normals(model, face, weights), to_srgb(color[:, :3]))
    raise MeshError("the mesh has no surface: its textures cut nearly all of it away.")


def _areas(model: MeshModel) -> Float64[np.ndarray, " f"]:
    return np.asarray(np.linalg.norm(_across(model.vertices.astype(np.float64)[model.faces]), axis=1) / 2)


def _across(corners: Float64[np.ndarray, "n 3 3"]) -> Float64[np.ndarray, "n 3"]:
    """The direction in which faces look, as long as they are large."""
    return np.asarray(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))


def _scatter(
    reach: Float64[np.ndarray, " f"], count: int, rng: np.random.Generator
) -> tuple[Int64[np.ndarray, " n"], Float64[np.ndarray, "n 3"]]:
    """The face of each point, and the weights of its corners."""
    places = (np.arange(count) + rng.random(count)) * (reach[-1] / count)
    last = int(np.searchsorted(reach, reach[-1]))  # faces without area may come after it
    face = np.minimum(np.searchsorted(reach, places, side="right"), last)
    root = np.sqrt(rng.random(count))
    along = rng.random(count)
    return face, np.stack([1 - root, root * (1 - along), root * along], axis=1)


def _normals(
    model: MeshModel, face: Int64[np.ndarray, " n"], weights: Float64[np.ndarray, "n 3"]
) -> Float32[np.ndarray, "n 3"]:
    """Smooth normals of length one; those of the face where they cancel out."""
    mixed = np.einsum("nc,ncx->nx", weights, model.normals[face].astype(np.float64))
    flat = np.linalg.norm(mixed, axis=1) < 1e-3
    mixed[flat] = _across(model.vertices.astype(np.float64)[model.faces[face[flat]]])
    return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), np.float32)


def _colors(
    model: MeshModel, face: Int64[np.ndarray, " n"], weights: Float64[np.ndarray, "n 3"]
) -> Float32[np.ndarray, "n 4"]:
    """Linear colour and alpha: the material's, times that of the vertices, times the texture's."""
    corners = model.faces[face]
    shares = weights.astype(np.float32)
    material = model.material_of[face]
    color: Float32[np.ndarray, "n 4"] = np.array([one.base for one in model.materials], np.float32)[material]
    if model.colored:
        color *= np.einsum("nc,ncx->nx", shares, model.colors[corners])
    for number, one in enumerate(model.materials):
        here = np.flatnonzero(material == number)
        if one.base_texture is None or not len(here):
            continue
        uv = model.uv1 if one.base_texture.uv_set and model.uv1 is not None else model.uv
        places = np.einsum("nc,ncx->xn", shares[here], uv[corners[here]])
        texels = look_up_texture(one.base_texture, places)
        color[here, : len(texels)] *= texels.T
    return color


def _least_alpha(model: MeshModel) -> Float32[np.ndarray, " m"]:
    """What a point of each material needs to be there, as far as its alpha is looked at."""
    least = {"OPAQUE": -1.0, "BLEND": _FAINTEST}
    return np.array([least.get(one.alpha_mode, one.alpha_cutoff) for one in model.materials], np.float32)
