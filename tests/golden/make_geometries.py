"""Golden numbers of every geometry, by the papers' formulas as they stand, in float64 numpy.

Nothing here knows the code under test, and nothing is clever: one pair at a time, arccosh where the paper has
arccosh. Features are of moderate length, where the plain formulas are exact in float64.

    python tests/golden/make_geometries.py     writes geometries.json beside itself
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("geometries.json")
QUERIES, GALLERY, LENGTH, SPHERES = 3, 4, 8, 4
CURVATURE, SIGMA, WIDTH, SHARE, FREQUENCIES, POINTS = 0.7, 0.5, 0.5, 0.333, 6, 5
APERTURES = (0.0, 0.1, 0.3, 5.0)
TEMPERATURE, RAW = 1 / 0.07, 1 / 0.07

Pair = Callable[[np.ndarray, np.ndarray], float]
Cone = Callable[[float, np.ndarray, np.ndarray], float]


def main() -> None:
    """Write all numbers."""
    rng = np.random.default_rng(21)
    query, gallery = rng.normal(size=(QUERIES, LENGTH)), rng.normal(size=(GALLERY, LENGTH))
    golden: dict[str, Any] = {"query": query.tolist(), "gallery": gallery.tolist(), "flat": {}, "cones": {}}
    for name, (pair, scale, params) in flat().items():
        numbers = table(pair, query, gallery)
        golden["flat"][name] = {"params": params, "similarity": numbers, "scale": scale}
    for name, (cone, params) in cones().items():
        energies = {str(k): table(partial(cone, k), query, gallery) for k in APERTURES}
        golden["cones"][name] = {"params": params, "energy": energies}
    golden["clouds"] = clouds(rng)
    lines = [f"{json.dumps(key)}: {json.dumps(rounded(value))}" for key, value in golden.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def flat() -> dict[str, tuple[Pair, float, dict[str, float]]]:
    """Similarity of two features, the initial scale, and the parameters, by name."""
    curved, cut = {"curvature": CURVATURE}, {"m": float(SPHERES)}
    return {
        "clip": (cosine, TEMPERATURE, {}),
        "elliptic": (lambda x, y: -np.arccos(cosine(x, y)), TEMPERATURE, {}),
        "euclidean": (lambda x, y: -euclidean(x, y), TEMPERATURE, {}),
        "euclidean_squared": (lambda x, y: -(euclidean(x, y) ** 2), 1.0, {}),
        "lorentz": (lambda x, y: -lorentz(x, y), TEMPERATURE, curved),
        "lorentz_squared": (lambda x, y: -(lorentz(x, y) ** 2), 1.0, curved),
        "oblique": (oblique, TEMPERATURE, cut),
        "oblique_multi": (oblique, TEMPERATURE, cut),
        "oblique_geodesic": (lambda x, y: -geodesic(x, y), TEMPERATURE, cut),
    }


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    """Of the angle between two vectors."""
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def euclidean(x: np.ndarray, y: np.ndarray) -> float:
    """The distance of features scaled by 1/√n."""
    return float(np.linalg.norm(x - y) / np.sqrt(LENGTH))


def lorentz(u: np.ndarray, v: np.ndarray) -> float:
    """arccosh(−c⟨x, y⟩)/√c, x and y by the exponential map."""
    (x, x_time), (y, y_time) = exponential(u), exponential(v)
    return float(np.arccosh(-CURVATURE * (x @ y - x_time * y_time)) / np.sqrt(CURVATURE))


def exponential(u: np.ndarray) -> tuple[np.ndarray, float]:
    """The point of the hyperboloid that a tangent vector at the origin leads to: its space and its time."""
    radius = np.sqrt(CURVATURE) * np.linalg.norm(u)
    space = np.sinh(radius) / radius * u
    return space, float(np.sqrt(1 / CURVATURE + space @ space))


def oblique(x: np.ndarray, y: np.ndarray) -> float:
    """The sum of the cosines on all spheres."""
    return sum(cosine(a, b) for a, b in spheres(x, y))


def geodesic(x: np.ndarray, y: np.ndarray) -> float:
    """The root of the sum of the squared angles on all spheres."""
    return float(np.sqrt(sum(np.arccos(cosine(a, b)) ** 2 for a, b in spheres(x, y))))


def spheres(x: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The parts of two features, side by side."""
    return list(zip(np.split(x, SPHERES), np.split(y, SPHERES), strict=True))


def cones() -> dict[str, tuple[Cone, dict[str, float]]]:
    """The entailment energy of a general and a specific feature, and the parameters, by name."""
    curved = {"curvature": CURVATURE}
    return {
        "euclidean": (euclidean_cone, {}),
        "euclidean_squared": (euclidean_cone, {}),
        "lorentz": (lorentz_cone, curved),
        "lorentz_squared": (lorentz_cone, curved),
    }


def euclidean_cone(k: float, general: np.ndarray, specific: np.ndarray) -> float:
    """arccos of (y − x)·x/(‖y − x‖‖x‖), less arcsin(min(1, K/‖x‖)), on scaled features (EuCLIP)."""
    x, y = general / np.sqrt(LENGTH), specific / np.sqrt(LENGTH)
    return float(np.arccos(cosine(y - x, x)) - np.arcsin(min(1.0, k / float(np.linalg.norm(x)))))


def lorentz_cone(k: float, general: np.ndarray, specific: np.ndarray) -> float:
    """arccos((y_t + x_t·c⟨x, y⟩)/(‖x‖√((c⟨x, y⟩)² − 1))) less arcsin(min(1, 2K/(√c‖x‖))) (MERU)."""
    (x, x_time), (y, y_time) = exponential(general), exponential(specific)
    product, length = CURVATURE * (x @ y - x_time * y_time), float(np.linalg.norm(x))
    exterior = np.arccos((y_time + x_time * product) / (length * np.sqrt(product**2 - 1)))
    return float(exterior - np.arcsin(min(1.0, 2 * k / (np.sqrt(CURVATURE) * length))))


def clouds(rng: np.random.Generator) -> dict[str, Any]:
    """Embeddings under given frequencies, and the exact similarities that they estimate."""
    points = rng.normal(size=(QUERIES + GALLERY, POINTS, LENGTH))
    weights = 60 * rng.normal(size=(QUERIES + GALLERY, POINTS))
    mask = np.arange(POINTS) < rng.integers(2, POINTS + 1, size=(QUERIES + GALLERY, 1))
    directions, phases = (
        rng.normal(size=(FREQUENCIES, LENGTH)) / SIGMA,
        rng.uniform(0, 2 * np.pi, FREQUENCIES),
    )
    kernels: dict[str, tuple[float, Callable[[float], float], dict[str, float]]] = {
        "cloud_linear": (0.0, lambda r: 0.0, {}),
        "cloud_gaussian": (SHARE, lambda r: float(np.exp(-(r**2) / (2 * SIGMA**2))), {"sigma": SIGMA}),
        "cloud_imq": (SHARE, lambda r: float(WIDTH / np.sqrt(WIDTH**2 + r**2)), {"c": WIDTH}),
    }
    named = {}
    for name, (share, kernel, params) in kernels.items():
        alive = [cloud(p[m], w[m]) for p, w, m in zip(points, weights, mask, strict=True)]
        embedded = np.stack([embedding(*c, share, directions, phases) for c in alive])
        exact = [[mean(a, b, share, kernel) for b in alive[QUERIES:]] for a in alive[:QUERIES]]
        named[name] = {
            "params": params if name == "cloud_linear" else {**params, "kernel_share": SHARE},
            "embedding": embedded.tolist(),
            "similarity": (embedded[:QUERIES] @ embedded[QUERIES:].T).tolist(),
            "exact": exact,
            "scale": RAW,
        }
    drawn = {"directions": directions.tolist(), "phases": phases.tolist()}
    given = {"points": points.tolist(), "weights": weights.tolist(), "mask": mask.tolist()}
    return {"queries": QUERIES, **given, **drawn, "named": named}


def cloud(points: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit points and their signed weights 100·tanh(a/100)."""
    return points / np.linalg.norm(points, axis=1, keepdims=True), 100 * np.tanh(raw / 100)


def embedding(
    units: np.ndarray, weights: np.ndarray, share: float, directions: np.ndarray, phases: np.ndarray
) -> np.ndarray:
    """[√(1−s)·mean wᵢvᵢ ; √s·mean wᵢφ(vᵢ)], φ(v) = √(2/D)·cos(Wv + β); no second half without a share."""
    linear = np.mean([w * v for w, v in zip(weights, units, strict=True)], axis=0)
    if not share:
        return np.asarray(linear)
    waves = [np.sqrt(2 / FREQUENCIES) * np.cos(directions @ v + phases) for v in units]
    kernel = np.mean([w * z for w, z in zip(weights, waves, strict=True)], axis=0)
    return np.concatenate([np.sqrt(1 - share) * linear, np.sqrt(share) * kernel])


def mean(
    one: tuple[np.ndarray, np.ndarray],
    other: tuple[np.ndarray, np.ndarray],
    share: float,
    kernel: Callable[[float], float],
) -> float:
    """Over all pairs of points: both weights times the mix of inner product and kernel."""
    total = 0.0
    for v, w in zip(*one, strict=True):
        for u, x in zip(*other, strict=True):
            total += w * x * ((1 - share) * float(v @ u) + share * kernel(float(np.linalg.norm(v - u))))
    return total / (len(one[1]) * len(other[1]))


def table(pair: Pair, query: np.ndarray, gallery: np.ndarray) -> list[list[float]]:
    """Every query with everything in the gallery."""
    return [[pair(x, y) for y in gallery] for x in query]


def rounded(value: Any) -> Any:  # noqa: ANN401 (what JSON can hold)
    """Ten digits are more than any test asks for."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 10) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
