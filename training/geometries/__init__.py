"""Geometries by name. A family is one file; a new one is added to the table below."""

from collections.abc import Mapping
from dataclasses import fields, replace
from inspect import signature
from typing import Any

from multifold.errors import MultifoldError
from training.geometries.base import Geometry
from training.geometries.euclidean import Euclidean, EuclideanSquared
from training.geometries.lorentz import Lorentz, LorentzSquared
from training.geometries.oblique import Oblique, ObliqueGeodesic, ObliqueMulti
from training.geometries.pointcloud import GaussianCloud, ImqCloud, LinearCloud
from training.geometries.sphere import Clip, Elliptic
from training.geometries.temperature import Scale

GEOMETRIES: Mapping[str, type[Geometry]] = {
    geometry.name: geometry
    for geometry in (
        Clip,
        Elliptic,
        Euclidean,
        EuclideanSquared,
        Lorentz,
        LorentzSquared,
        Oblique,
        ObliqueMulti,
        ObliqueGeodesic,
        LinearCloud,
        GaussianCloud,
        ImqCloud,
    )
}


def build(name: str, dim: int, **params: float | int) -> Geometry:
    """The geometry of that name over features of length `dim`, or over clouds of points of length `dim`."""
    if name not in GEOMETRIES:
        raise MultifoldError(f"no geometry {name!r}; there are: {', '.join(GEOMETRIES)}")
    make: Any = GEOMETRIES[name]
    own = _own(make)
    shared = {field.name: field.type for field in fields(Scale)}
    for key in params:
        if key not in {**own, **shared}:
            known = ", ".join([*own, *shared])
            raise MultifoldError(f"the geometry {name!r} has no parameter {key!r}; it has: {known}")
    start = replace(make.start, **_typed(params, shared))
    geometry: Geometry = make(dim, start, **_typed(params, own))
    return geometry


def _own(make: type[Geometry]) -> dict[str, Any]:
    """What this geometry alone is built with, and of which type."""
    named = signature(make).parameters.items()
    return {name: parameter.annotation for name, parameter in named if name not in ("dim", "start")}


def _typed(params: Mapping[str, float | int], types: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe knows numbers only: 8.0 for a count, 1 for yes."""
    typed = {key: types[key](value) for key, value in params.items() if key in types}
    for key, value in typed.items():
        if value != params[key]:
            wanted = "0 or 1" if types[key] is bool else "a whole number"
            raise MultifoldError(f"the parameter {key!r} is {wanted}, not {params[key]}")
    return typed
