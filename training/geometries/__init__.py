"""Geometries by name. A family is one file; a new one is added to the table below."""

from collections.abc import Callable, Mapping

from multifold.errors import MultifoldError
from training.geometries.base import Geometry
from training.geometries.sphere import Clip

GEOMETRIES: Mapping[str, Callable[..., Geometry]] = {"clip": Clip}


def build(name: str, dim: int, **params: float) -> Geometry:
    """The geometry of that name over features of length `dim`."""
    if name not in GEOMETRIES:
        raise MultifoldError(f"no geometry {name!r}; there are: {', '.join(GEOMETRIES)}")
    return GEOMETRIES[name](dim, **params)
