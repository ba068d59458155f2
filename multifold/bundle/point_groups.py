"""Point samples as a point tower reads them: groups of neighbours around points that lie far apart.

This happens outside any graph, so a tower's graph has matrices only. A sample is rows of nine numbers:
position, normal and colour. A group is rows of a position relative to the middle of its group, the position
itself, and normal and colour if wanted.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float32, Int64

POSITION, NORMAL, COLOR = slice(0, 3), slice(3, 6), slice(6, 9)


@dataclass(frozen=True)
class PointSpec:
    """How a mesh is sampled, and its points are grouped."""

    points: int = 1024
    groups: int = 32
    neighbours: int = 16  # points of a group
    radius: float = 0.3  # of a group; the shape has radius one
    normals: bool = True  # whether a point has its normal
    colors: bool = True  # whether it has its colour
    middle: Literal["box", "mean"] = "box"  # what lies at the origin: the middle of the box, or of the points
    seed: int = 0  # of the sample
    sampler: str = "points-1"  # the rules by which points are drawn

    def __post_init__(self) -> None:
        if self.middle not in ("box", "mean"):
            raise ValueError(f"no such middle of points: {self.middle!r}")
        if not 0 < self.groups <= self.points or self.neighbours < 1 or not self.radius > 0:
            asked = f"{self.points} points in {self.groups} groups of {self.neighbours}"
            raise ValueError(f"no such way to group points: {asked} within {self.radius}")

    @property
    def columns(self) -> int:
        """Numbers of a point in a group."""
        return 3 * self.directions + 3 * self.colors

    @property
    def directions(self) -> int:
        """The first triples of them, which turn with the shape."""
        return 2 + self.normals


def group_points(sample: Float32[np.ndarray, "n 9"], spec: PointSpec) -> Float32[np.ndarray, "g k c"]:
    """The groups of a sample: relative position, position, and normal and colour if wanted."""
    places = sample[:, POSITION]
    if spec.middle == "mean":
        places = places - places.mean(axis=0)
        places = places / np.linalg.norm(places, axis=1).max()
    middles = farthest_points(places, spec.groups)
    members = neighbours_within(places, middles, spec.radius, spec.neighbours)
    parts = [places[members] - places[middles][:, None], places[members]]
    parts += [sample[members][..., NORMAL]] if spec.normals else []
    parts += [sample[members][..., COLOR]] if spec.colors else []
    return np.concatenate(parts, axis=2)


def farthest_points(places: Float32[np.ndarray, "n 3"], count: int) -> Int64[np.ndarray, " g"]:
    """The first point, then again and again the one that is farthest from all that are chosen.

    Of equally far ones the first is taken. Where all points are chosen, they repeat.
    """
    chosen = np.zeros(count, np.int64)
    columns = np.ascontiguousarray(places.T)
    nearest = _squares(columns, places[0])
    for turn in range(1, count):
        chosen[turn] = nearest.argmax()
        np.minimum(nearest, _squares(columns, places[chosen[turn]]), out=nearest)
    return chosen


def neighbours_within(
    places: Float32[np.ndarray, "n 3"], middles: Int64[np.ndarray, " g"], radius: float, most: int
) -> Int64[np.ndarray, "g k"]:
    """The first `most` points within a radius of each middle; where they are few, the first repeats."""
    columns = np.ascontiguousarray(places.T)
    members = np.empty((len(middles), most), np.int64)
    for row, middle in zip(members, middles, strict=True):
        near = np.flatnonzero(_squares(columns, places[middle]) <= np.float32(radius) ** 2)[:most]
        row[: len(near)], row[len(near) :] = near, near[0]
    return members


def _squares(
    columns: Float32[np.ndarray, "3 n"], place: Float32[np.ndarray, " 3"]
) -> Float32[np.ndarray, " n"]:
    """Squared distances of all points from one place."""
    x, y, z = columns - place[:, None]
    return np.asarray(x * x + y * y + z * z)
