"""ONNX Runtime sessions of a bundle: from texts or pictures to features, and from features to index vectors.

Some graphs are optional: `rescore.onnx` orders candidates where no index can search exactly. `entail.onnx`
computes how far a specific feature lies outside the cone of a general one. `points.onnx` reads points of a
surface, grouped outside of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float32, Int64
from PIL.Image import Image

from multifold.bundle.bundle import POINTS_FILE, Bundle, BundleError
from multifold.bundle.looks import LOOKS_FILE, Looks, LooksError, read_looks
from multifold.bundle.point_groups import group_points
from multifold.bundle.preprocess import pixels
from multifold.bundle.text_reader import TextReader, open_text_reader, packaged_reader
from multifold.bundle.tokenizer import TextError, Tokenizer
from multifold.errors import needs_extra
from multifold.machine import cores
from multifold.scores import similarities
from multifold.types import Feature, Features, Kind, Observation, PixelBatch, Vector, Vectors

with needs_extra("cpu"):
    import onnxruntime as ort

INPUTS_AT_ONCE = 64  # pictures or texts that are in memory at once
SMALLEST_BATCH = 8  # fewer at a time cost more each
PointGroups: TypeAlias = Float32[np.ndarray, "b g k c"]
CPU_PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"


@dataclass(frozen=True)
class EncodedTexts:
    """Features of texts, and which of them were cut at the context length."""

    features: Features
    cut: tuple[bool, ...]


class Encoder:
    """The graphs of a bundle. To an index it is a space: id, metric, signs, features to vectors."""

    encodes = True  # else it is a space alone
    looks: Looks | None = None  # names of what pictures look like, where the bundle brings some

    def __init__(self, bundle: Bundle, threads: int = 0, provider: str | None = None) -> None:
        self.bundle = bundle
        self.provider = provider or available_providers()[0]
        if self.provider == CUDA_PROVIDER:
            ort.preload_dlls()  # CUDA's libraries come as Python packages, where no loader looks by itself
        self._threads = threads
        self._runs = ort.RunOptions()  # of all graphs
        self.vector_id = bundle.vector_id
        self.dim = bundle.geometry.dim
        self.metric = bundle.geometry.metric
        self.sees = bundle.sees
        self.alike = bundle.alike
        signs = bundle.geometry.query_signs
        self.query_signs: Vector | None = None if signs is None else np.asarray(signs, np.float32)
        self._image = self.session("image.onnx", "pixels")
        self._text = self.session("text.onnx", bundle.text_input)
        self._geometry = self.session("geometry.onnx", "features")
        rescore = ("rescore.onnx", "query", "candidates")
        entail = ("entail.onnx", "general", "specific", "k")
        self._rescore = self.session(*rescore) if bundle.has(rescore[0]) else None
        self._entail = self.session(*entail) if bundle.has(entail[0]) else None
        self._points = self.session(POINTS_FILE, "groups") if bundle.points else None
        self.entails = self._entail is not None  # whether general features hold special ones in cones
        self.rescores = self._rescore is not None  # whether hits of an index are to be ordered by `rescore`
        # how many may ask side by side until all cores are busy
        parallel = threads > 0 and self.provider == CPU_PROVIDER
        self.lanes = max(1, cores() // threads) if parallel else 1
        try:
            definition = bundle.path("tokenizer.json").read_text(encoding="utf-8")
            self.tokenizer = Tokenizer(definition, bundle.text)
        except (TextError, UnicodeDecodeError) as error:
            raise BundleError(f"tokenizer.json of bundle {bundle.name} cannot be used: {error}") from error
        if bundle.has(LOOKS_FILE):
            try:
                self.looks = read_looks(bundle.path(LOOKS_FILE), bundle.geometry.feature_dim)
            except LooksError as error:
                raise BundleError(f"bundle {bundle.name}: {error}") from error
            self._look_vectors = self.vectors(self.looks.features)
        folder = bundle.reader_folder
        self.reader: TextReader | None = packaged_reader() if folder is None else open_text_reader(folder)

    def texts(self, texts: Sequence[str]) -> EncodedTexts:
        """Features of texts."""
        tokens = [self.tokenizer(batch) for batch in self._batches(texts)]
        if self.bundle.text_input == "sentences":
            parts = [self._sentences(batch) for batch in self._batches(texts)]
        else:
            parts = [self.tokens(batch.ids) for batch in tokens]
        return EncodedTexts(self._joined(parts), tuple(chain.from_iterable(batch.cut for batch in tokens)))

    def tokens(self, ids: Int64[np.ndarray, "b t"]) -> Features:
        """Features of texts that are tokens already."""
        return self._joined(self._run(self._text, tokens=part) for part in self._batches(ids))

    def _sentences(self, texts: Sequence[str]) -> Features:
        """Features of texts by what the reader says of them."""
        assert self.reader is not None
        return self._run(self._text, sentences=self.reader.encode(texts))

    def pictures(self, pictures: Sequence[Image]) -> Features:
        """Features of decoded pictures."""
        spec = self.bundle.image
        batches = self._batches(pictures)
        parts = [self.pixels(np.stack([pixels(picture, spec) for picture in batch])) for batch in batches]
        return self._joined(parts)

    def pixels(self, batch: PixelBatch) -> Features:
        """Features of pictures already at the encoder's size."""
        return self._joined(self._run(self._image, pixels=part) for part in self._batches(batch))

    def points(self, samples: Sequence[Float32[np.ndarray, "_ 9"]]) -> Features:
        """Features of samples of surfaces: rows of position, normal and colour."""
        spec = self.bundle.points
        if spec is None:
            raise self._lacks("has no point tower")
        batches = self._batches(samples)
        return self._joined(
            self.grouped_points(np.stack([group_points(one, spec) for one in batch])) for batch in batches
        )

    def grouped_points(self, groups: PointGroups) -> Features:
        """Features of points that are grouped already."""
        if self._points is None:
            raise self._lacks("has no point tower")
        return self._joined(self._run(self._points, groups=part) for part in self._batches(groups))

    def vectors(self, features: Features) -> Vectors:
        """Index vectors of features."""
        return self._run_sized(self._geometry, (len(features), self.dim), features=features)

    def name_pictures(self, features: Features) -> list[tuple[str, ...]]:
        """What each picture looks like, the likeliest name first; nothing where no name fits."""
        if self.looks is None or not len(features):
            return [()] * len(features)
        return [*self.looks.fitting(similarities(self, self._look_vectors, self.vectors(features)))]

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        """The geometry's own similarity of each query's index vector to those of its candidates."""
        if self._rescore is None:
            raise self._lacks("needs no rescoring: its index scores rank as its similarity does")
        return self._run_sized(self._rescore, candidates.shape[:2], query=query, candidates=candidates)

    def entail(
        self, general: Float32[np.ndarray, "p n"], specific: Float32[np.ndarray, "s n"], k: float
    ) -> Float32[np.ndarray, "p s"]:
        """How far outside each general feature's cone of width k each specific one lies; ≤ 0 is inside."""
        if self._entail is None:
            raise self._lacks("knows nothing of entailment; Euclidean and Lorentz geometries do")
        shape = (len(general), len(specific))
        width = np.asarray(k, np.float32)
        return self._run_sized(self._entail, shape, general=general, specific=specific, k=width)

    def stop(self) -> None:
        """End what its graphs are computing, and let them compute no more."""
        self._runs.terminate = True

    @property
    def stopped(self) -> bool:
        """Whether it was."""
        return bool(self._runs.terminate)

    def _run(self, session: Any, **inputs: np.ndarray) -> np.ndarray:  # noqa: ANN401 (untyped library)
        """A graph's output."""
        answer: np.ndarray = session.run(None, inputs, self._runs)[0]
        return answer

    def _run_sized(self, session: Any, shape: tuple[int, ...], **inputs: np.ndarray) -> np.ndarray:  # noqa: ANN401
        """A graph's output. It never runs on an empty batch: reshaping that kills the whole process."""
        return self._run(session, **inputs) if min(shape) else np.empty(shape, np.float32)

    def _lacks(self, what: str) -> BundleError:
        return BundleError(f"bundle {self.bundle.name} (geometry {self.bundle.geometry.name}) {what}")

    def _joined(self, parts: Iterable[Any]) -> Features:
        none = np.empty((0, self.bundle.geometry.feature_dim), np.float32)
        return np.concatenate([*parts] or [none])  # the graphs of a draft may be wider than it states

    def _batches(self, values: Sequence[Any] | np.ndarray) -> Iterator[Any]:
        size = max(SMALLEST_BATCH, INPUTS_AT_ONCE // self.lanes)
        for start in range(0, len(values), size):
            yield values[start : start + size]

    def session(self, name: str, *arguments: str) -> Any:  # noqa: ANN401 (untyped library)
        """A graph of the bundle, opened; it must take these arguments."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # others want the cores too
        try:
            session = ort.InferenceSession(self.bundle.path(name), options, providers=[self.provider])
        except Exception as error:  # the runtime raises many kinds, all meaning: unusable
            raise BundleError(f"{name} of bundle {self.bundle.name} cannot be loaded: {error}") from error
        inputs = [value.name for value in session.get_inputs()]
        if inputs != [*arguments]:
            raise BundleError(f"{name} of bundle {self.bundle.name} takes {inputs}, not {[*arguments]}")
        if session.get_providers()[0] != self.provider:
            raise BundleError(f"{self.provider} was asked for, but {session.get_providers()[0]} came")
        return session


def captions_of(texts: Sequence[str], features: Iterable[Feature]) -> tuple[Observation, ...]:
    """The captions of an item, in order; the last ones may have no text."""
    pairs = enumerate(zip_longest(features, texts))
    return tuple(Observation("caption", place, feature, text=text) for place, (feature, text) in pairs)


def pictures_of(kind: Kind, features: Iterable[Feature], blobs: Sequence[str]) -> tuple[Observation, ...]:
    """The photos or the views of an item, in order; the last ones may have no picture."""
    pairs = enumerate(zip_longest(features, blobs))
    return tuple(Observation(kind, place, feature, blob=blob) for place, (feature, blob) in pairs)


def available_providers() -> list[str]:
    """What graphs can run on, by the runtime's names: a GPU, if it is built for one, before the CPU."""
    available = ort.get_available_providers()
    return [name for name in (CUDA_PROVIDER, CPU_PROVIDER) if name in available]
