"""Which parts of a surface made its index score with another vector.

The points of a surface are parted into regions around middles that lie far apart. The share of a region is
how much the score falls when its points are left out; a negative share lowers the score. Shares are in units
of the index score. `SurfaceShares.maps` draws them as heat maps of views.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from multifold.analysis.explanation import ExplanationError, HeatMap
from multifold.bundle.point_groups import POSITION, farthest_points
from multifold.scores import index_scores
from multifold.types import Metric, Vector, Vectors

PointRows: TypeAlias = Float32[np.ndarray, "_ 9"]  # position, normal and colour of each point
Places: TypeAlias = Float32[np.ndarray, "p 3"]
EncodePoints: TypeAlias = Callable[[Sequence[PointRows]], Vectors]  # index vectors of samples

REGIONS = 24
CELLS = 28  # along a side of a heat map
DRAWN = 20_000  # points that heat maps are drawn from
DEEP = 0.1  # points so far behind the first one of a cell are hidden; a shape has radius one


@dataclass(frozen=True, eq=False)
class SurfaceShares:
    """The share of each region of a surface, and the place around which it lies."""

    middles: Float32[np.ndarray, "r 3"]
    shares: Float32[np.ndarray, " r"]

    def at(self, places: Places) -> Float32[np.ndarray, " p"]:
        """The share of each of these places: that of its region."""
        of: Float32[np.ndarray, " p"] = self.shares[nearest_middle(places, self.middles)]
        return of

    def maps(
        self, places: Places, poses: Float64[np.ndarray, "v 4 4"], fov_degrees: float, cells: int = CELLS
    ) -> list[HeatMap]:
        """For each camera a heat map of the mean share of what it sees of many places of the surface."""
        shares = self.at(places)
        return [HeatMap("occlusion", _seen(places, shares, pose, fov_degrees, cells)) for pose in poses]


def explain_surface(
    sample: PointRows, other: Vector, encode: EncodePoints, metric: Metric, regions: int = REGIONS
) -> SurfaceShares:
    """How much less the index score with `other`, signs applied, is without each region of a sample."""
    if not 1 < regions <= len(sample):
        raise ExplanationError(
            f"{len(sample)} points are parted into 2 to {len(sample)} regions, not {regions}"
        )
    places = sample[:, POSITION]
    middles = places[farthest_points(places, regions)]
    middles = middles[np.sort(np.unique(middles, axis=0, return_index=True)[1])]  # of points in few places
    if len(middles) == 1:
        raise ExplanationError("all points of the surface are in one place, which has no parts")
    of = nearest_middle(places, middles)
    left = [sample[of != region] for region in range(len(middles))]
    scores = index_scores(other[None], encode([sample, *left]), metric)[0]
    return SurfaceShares(middles, np.asarray(scores[0] - scores[1:], np.float32))


def nearest_middle(places: Places, middles: Float32[np.ndarray, "r 3"]) -> Int64[np.ndarray, " p"]:
    """The middle that each place is nearest to; of equally near ones the first."""
    best, of = np.full(len(places), np.inf), np.zeros(len(places), np.int64)
    for number, middle in enumerate(middles):
        square = ((places - middle) ** 2).sum(axis=1)
        nearer = square < best
        best[nearer], of[nearer] = square[nearer], number
    return of


def _seen(
    places: Places,
    shares: Float32[np.ndarray, " p"],
    pose: Float64[np.ndarray, "4 4"],
    fov_degrees: float,
    cells: int,
) -> Float32[np.ndarray, "y x"]:
    """The mean share of the first places in each cell of a view; zero where there is none."""
    in_front = (places - pose[:3, 3]) @ pose[:3, :3]  # the camera looks along its own -z, y is up
    depth = -in_front[:, 2]
    reach = depth * np.tan(np.radians(fov_degrees) / 2)
    x, y = (((1 + sign * in_front[:, axis] / reach) / 2 * cells) for axis, sign in ((0, 1), (1, -1)))
    inside = (np.minimum(x, y) >= 0) & (np.maximum(x, y) < cells)
    cell = y[inside].astype(np.int64) * cells + x[inside].astype(np.int64)
    first = np.full(cells * cells, np.inf)
    np.minimum.at(first, cell, depth[inside])
    shown = depth[inside] <= first[cell] + DEEP
    sums = np.bincount(cell[shown], shares[inside][shown], cells * cells)
    counts = np.bincount(cell[shown], minlength=cells * cells)
    return (sums / np.maximum(counts, 1)).reshape(cells, cells).astype(np.float32)
