"""A bundle: an exported encoder on disk, with `bundle.json` beside graphs, tokenizer and canaries.

`vector_id` hashes everything that decides the vectors (graphs, tokenizer, preprocessing, rig, geometry) and
is stored with each collection. `bundle_id` hashes everything: a new report changes it alone.
A text reader may lie in the folder `reader` beside the graphs. It has a part in the `vector_id` only where
the text tower takes its vectors in place of tokens: then one reading of a text serves both.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float32

from multifold.bundle.point_groups import PointSpec
from multifold.bundle.preprocess import ImageSpec
from multifold.bundle.text_reader import ORIGIN_FILE, READER_FILES, TOKENIZER_FILE, open_text_reader
from multifold.bundle.tokenizer import TextSpec
from multifold.errors import MultifoldError
from multifold.scores import shorten
from multifold.types import SIDES, Features, Metric, Side, Vectors

FORMAT = 1
DESCRIPTION_FILE = "bundle.json"
REQUIRED_FILES = ("image.onnx", "text.onnx", "geometry.onnx", "tokenizer.json", "canary.npz", "probe.npz")
POINTS_FILE = "points.onnx"
# views.onnx: a graph that bundles had and no version reads now. It stays a part of their `vector_id`.
VECTOR_FILES = (
    "image.onnx", "text.onnx", "geometry.onnx", "rescore.onnx", "tokenizer.json", POINTS_FILE, "views.onnx",
)  # fmt: skip
POOL_FILE = "pool.json"
READER_FOLDER = "reader"
READER_PARTS = (*READER_FILES, ORIGIN_FILE)
ID_LENGTH = 16
ID_NAMES = "vector_id", "bundle_id"
TextInput: TypeAlias = Literal["tokens", "sentences"]


class BundleError(MultifoldError):
    """A bundle that must not be served; says what is wrong with it."""


@dataclass(frozen=True)
class GeometrySpec:
    """What the index must know of a geometry, and its name and parameters for people."""

    name: str
    feature_dim: int
    dim: int
    metric: Metric
    query_signs: tuple[float, ...] | None = None
    root: tuple[float, ...] | None = None  # a feature: where traversals from the special to the general end
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """How many parts of a vector are compared pair by pair, as oblique geometries do."""
        return int(self.params.get("m", 1))

    def __post_init__(self) -> None:
        if self.metric not in get_args(Metric):
            raise ValueError(f"no metric {self.metric!r}; there are {', '.join(get_args(Metric))}")
        for name, length in (("query_signs", self.dim), ("root", self.feature_dim)):
            numbers = getattr(self, name)
            if numbers is not None and len(numbers) != length:
                raise ValueError(f"{name} has {len(numbers)} numbers where {length} belong")


@dataclass(frozen=True)
class ViewSpec:
    """How the views of shapes were made: ingestion and queries must render the same."""

    rig: str
    size: int
    background: Literal["white", "black"]
    up: Literal["auto", "y", "z"]
    views: int
    renderer: str

    def __post_init__(self) -> None:
        if self.background not in ("white", "black") or self.up not in ("auto", "y", "z"):
            raise ValueError(f"no such way to draw: background {self.background!r}, up {self.up!r}")
        if self.size < 1 or self.views < 1:
            raise ValueError(f"no such way to draw: {self.views} views of {self.size} pixels")


@dataclass(frozen=True)
class Tolerance:
    """How far a healthy machine may stray from the canaries."""

    cosine: float  # least cosine of a canary's feature with the stored one
    norm: float  # largest relative difference of their lengths
    rank: float  # least share of queries that find the same best answer


@dataclass(frozen=True)
class Bundle:
    """A parsed and verified `bundle.json`."""

    folder: Path
    name: str
    about: str  # one sentence for people: what this encoder knows
    geometry: GeometrySpec
    image: ImageSpec
    text: TextSpec
    views: ViewSpec
    tolerances: Mapping[str, Tolerance]  # by "variant/provider", with "variant/*" for the rest
    variant: str = "fp32"
    provenance: Mapping[str, Any] = field(default_factory=dict)
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    serves: Mapping[str, Any] = field(default_factory=dict)  # vector_id it may query -> recall measured so
    prefixes: tuple[int, ...] = ()  # lengths to which index vectors may be cut, where it was trained so
    points: PointSpec | None = None  # how surfaces are sampled, where it has a point tower
    # Nats that a deviation of a picture's likeness to a text is worth where an item has no text, by side
    sees: Mapping[Side, float] = field(default_factory=dict)
    # The similarity from which a picture likely shows what a text says, by side
    alike: Mapping[Side, float] = field(default_factory=dict)
    text_input: TextInput = "tokens"  # what the text tower takes: tokens, or what the bundle's reader says
    files: Mapping[str, str] = field(default_factory=dict)  # name -> sha256

    def __post_init__(self) -> None:
        if self.text_input not in get_args(TextInput):
            raise ValueError(f"no text tower takes {self.text_input!r}")
        if not all(side in SIDES and 0 <= nats < math.inf for side, nats in self.sees.items()):
            raise ValueError(f"it cannot see {self.sees}")
        if not all(side in SIDES and math.isfinite(least) for side, least in self.alike.items()):
            raise ValueError(f"nothing is alike by {self.alike}")
        geometry = self.geometry
        cuts = geometry.metric == "ip" and geometry.query_signs is None and geometry.tokens == 1
        if self.prefixes and not (cuts and all(0 < one < geometry.dim for one in self.prefixes)):
            raise ValueError(f"vectors of {geometry.name} cannot be cut to {list(self.prefixes)} numbers")

    def shorten(self, vectors: Vectors, length: int) -> Float32[np.ndarray, "b k"]:
        """Index vectors cut to one of the prefixes, as unit vectors."""
        if length not in self.prefixes:
            raise BundleError(f"bundle {self.name} was not trained for vectors of {length} numbers")
        return shorten(vectors, length)

    @property
    def vector_id(self) -> str:
        """The name of the space that this encoder's vectors live in."""
        graphs = {name: digest for name, digest in self.files.items() if self._decides(name)}
        rootless = replace(self, geometry=replace(self.geometry, root=None))  # it decides no vector
        parts = ("geometry", "image", "text", "views", *(("points",) if self.points else ()))
        deciding = {k: asdict(getattr(rootless, k)) for k in parts}
        return _digest({**deciding, "variant": self.variant, "files": graphs})

    def _decides(self, name: str) -> bool:
        """Whether vectors depend on a file."""
        if name.startswith(f"{READER_FOLDER}/"):
            return self.text_input == "sentences" and Path(name).name in READER_FILES
        return name in VECTOR_FILES or name.endswith(".data")

    @property
    def bundle_id(self) -> str:
        """The name of this very bundle, report included."""
        return _digest(_describe(self))

    def has(self, name: str) -> bool:
        """Whether an optional file belongs to it."""
        return name in self.files

    def path(self, name: str) -> Path:
        return self.folder / name

    @property
    def reader_folder(self) -> Path | None:
        """Where its text reader lies; None where it brings none."""
        return self.path(READER_FOLDER) if self.has(f"{READER_FOLDER}/{TOKENIZER_FILE}") else None

    def probes(self) -> dict[Side, Features]:
        """Held-out query features of each side, for an index to measure its recall with."""
        if not self.has("probe.npz"):
            return {}
        with np.load(self.path("probe.npz")) as stored:
            return {side: stored[side] for side in SIDES if side in stored}

    def pool(self) -> tuple[str, ...]:
        """Captions from the general to the special, for traversals; none where it has none."""
        return tuple(self.json(POOL_FILE) or ())

    def json(self, name: str) -> Any:  # noqa: ANN401 (any JSON)
        """What an optional file says; None where it is missing."""
        return json.loads(self.path(name).read_text(encoding="utf-8")) if self.has(name) else None

    def tolerance(self, provider: str) -> Tolerance:
        """What a canary run on this provider may differ by."""
        for key in (f"{self.variant}/{provider}", f"{self.variant}/*"):
            if key in self.tolerances:
                return self.tolerances[key]
        raise BundleError(f"{self.name} states no tolerance for {self.variant} on {provider}")


def load(folder: Path) -> Bundle:
    """Read a bundle and check every hash; refuses with the reason. Canaries are the encoder's to run."""
    path = folder / DESCRIPTION_FILE
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleError(f"{folder} is no bundle: it has no {DESCRIPTION_FILE}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise BundleError(f"{path} is damaged: {error}") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        version = raw.get("format") if isinstance(raw, dict) else None
        raise BundleError(f"{folder} has bundle format {version!r}; this version reads format {FORMAT}")
    try:
        bundle = _parse(folder, raw)
    except (AttributeError, KeyError, TypeError, ValueError, MultifoldError) as error:
        raise BundleError(f"{path} does not describe a bundle: {error!r}") from error
    _check_files(bundle)
    said = {name: value for name, value in raw.items() if name not in ("format", *ID_NAMES)}
    for name, fits in zip(ID_NAMES, (bundle.vector_id, _digest(said)), strict=True):
        if raw.get(name) != fits:
            raise BundleError(f"{path} was changed by hand: its {name} does not fit what it says")
    return bundle


def find_bundle(vector_id: str | None, folder: Path) -> Path:
    """The bundle in this folder or, if that makes other vectors, the one beside it that makes these."""
    if vector_id in (None, _stated_vector_id(folder)):
        return folder
    beside = (one.parent for one in sorted(folder.resolve().parent.glob(f"*/{DESCRIPTION_FILE}")))
    return next((one for one in beside if _stated_vector_id(one) == vector_id), folder)


def _stated_vector_id(folder: Path) -> object:
    try:
        return json.loads((folder / DESCRIPTION_FILE).read_text(encoding="utf-8"))["vector_id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(bundle: Bundle) -> Bundle:
    """Hash the files that lie in the bundle's folder and write `bundle.json` beside them."""
    sealed = replace(bundle, files=hash_files(bundle.folder))
    _check_files(sealed)
    ids = {"vector_id": sealed.vector_id, "bundle_id": sealed.bundle_id}
    raw = {"format": FORMAT, **ids, **_describe(sealed)}
    text = json.dumps(raw, indent=2, ensure_ascii=False) + "\n"
    (bundle.folder / DESCRIPTION_FILE).write_text(text, encoding="utf-8")
    return load(bundle.folder)


def hash_files(folder: Path) -> dict[str, str]:
    """Every file that lies in a bundle's folder, and those of its reader, with their sha256."""
    paths = [p for p in folder.iterdir() if p.is_file() and p.name != DESCRIPTION_FILE]
    paths += [p for p in map((folder / READER_FOLDER).joinpath, READER_PARTS) if p.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in paths)
    return {name: file_hash(folder / name) for name in names}


def add_reader(folder: Path, reader: Path) -> Bundle:
    """Make a text reader part of a bundle, in the place of an older one; its vectors stay what they are."""
    bundle = load(folder)
    if bundle.text_input == "sentences":
        raise BundleError(f"the text tower of bundle {bundle.name} was made for the reader that it has")
    open_text_reader(reader)
    aside, target = folder / f"{READER_FOLDER}.partial", folder / READER_FOLDER
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for name in READER_PARTS:
        if (reader / name).is_file():
            shutil.copyfile(reader / name, aside / name)
    shutil.rmtree(target, ignore_errors=True)
    aside.replace(target)
    return save(bundle)


def file_hash(path: Path) -> str:
    """sha256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_files(bundle: Bundle) -> None:
    missing = [name for name in REQUIRED_FILES if name not in bundle.files]
    if missing:
        raise BundleError(f"bundle {bundle.name} lists no {missing[0]}")
    if bundle.has(POINTS_FILE) is (bundle.points is None):
        raise BundleError(f"bundle {bundle.name} needs both {POINTS_FILE} and how points are sampled")
    if bundle.text_input == "sentences" and bundle.reader_folder is None:
        raise BundleError(f"bundle {bundle.name} lists no text reader, whose vectors its text tower takes")
    for name, expected in bundle.files.items():
        own = name.removeprefix(f"{READER_FOLDER}/")
        if own in ("", "..") or Path(own).name != own:
            raise BundleError(f"bundle {bundle.name} lists {name!r}, which is not a plain file name")
        if not bundle.path(name).is_file():
            raise BundleError(f"bundle {bundle.name} lacks its file {name}")
        if file_hash(bundle.path(name)) != expected:
            raise BundleError(f"{name} of bundle {bundle.name} is damaged: its sha256 is not the listed one")


def _parse(folder: Path, raw: Mapping[str, Any]) -> Bundle:
    plain = ("name", "about", "variant", "provenance", "evaluation", "files")
    return Bundle(
        folder=folder,
        geometry=GeometrySpec(**_tuples(raw["geometry"])),
        image=ImageSpec(**_tuples(raw["image"])),
        text=TextSpec(**_tuples(raw["text"])),
        views=ViewSpec(**raw["views"]),
        tolerances={key: Tolerance(**value) for key, value in raw["tolerances"].items()},
        serves=raw.get("serves", {}),  # only of variants
        prefixes=tuple(raw.get("prefixes", ())),
        points=PointSpec(**raw["points"]) if "points" in raw else None,
        sees=raw.get("sees", {}),
        alike=raw.get("alike", {}),
        text_input=raw.get("text_input", "tokens"),
        **{key: raw[key] for key in plain},
    )


def _tuples(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}


def _describe(bundle: Bundle) -> dict[str, Any]:
    optional = ("serves", "prefixes", "points", "sees", "alike")
    left_out = {"folder", *(name for name in optional if not getattr(bundle, name))}
    if bundle.text_input == "tokens":
        left_out.add("text_input")
    return {name: value for name, value in asdict(bundle).items() if name not in left_out}


def _digest(value: Mapping[str, Any]) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:ID_LENGTH]


@contextmanager
def stage_bundle(folder: Path) -> Iterator[Path]:
    """A folder to write a bundle into; it becomes `folder` in the end, in the place of an older bundle."""
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / DESCRIPTION_FILE).exists():
        raise MultifoldError(f"{folder} holds something that is no bundle; choose another folder")
    aside, older = (folder.with_name(f"{folder.name}.{what}") for what in ("partial", "older"))
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        yield aside
        if folder.exists():
            folder.replace(older)
        aside.replace(folder)
        shutil.rmtree(older, ignore_errors=True)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
