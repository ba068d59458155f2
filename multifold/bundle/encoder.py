"""ONNX Runtime sessions of a bundle: from texts or pictures to features, and from features to index vectors.

Two graphs are optional: `rescore.onnx` orders candidates where no index can search exactly, and `entail.onnx`
computes how far a specific feature lies outside the cone of a general one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float32
from PIL.Image import Image

from multifold.bundle import calibration
from multifold.bundle.bundle import Bundle, BundleError
from multifold.bundle.preprocess import pixels
from multifold.bundle.tokenizer import TextError, Tokenizer
from multifold.errors import needs_extra
from multifold.machine import cores
from multifold.types import Features, Metric, PixelBatch, Vector, Vectors

with needs_extra("cpu"):
    import onnxruntime as ort

BATCH = 64  # pictures or texts that are in memory at once
SMALLEST_BATCH = 8  # fewer at a time cost more each
CPU_PROVIDER = "CPUExecutionProvider"
PREFERRED_PROVIDERS = ("CUDAExecutionProvider", CPU_PROVIDER)


@dataclass(frozen=True)
class EncodedTexts:
    """Features of texts, and which of them were cut at the context length."""

    features: Features
    cut: tuple[bool, ...]


class Encoder:
    """A bundle at work. It satisfies the index's idea of a space: id, metric, signs, features to vectors."""

    def __init__(self, bundle: Bundle, threads: int = 0) -> None:
        self.bundle = bundle
        self.provider = _provider()
        self._threads = threads
        self._image = self.session("image.onnx", "pixels")
        self._text = self.session("text.onnx", "tokens")
        self._geometry = self.session("geometry.onnx", "features")
        self._rescore = self._optional("rescore.onnx", "query", "candidates")
        self._entail = self._optional("entail.onnx", "general", "specific", "k")
        self.tokenizer = _tokenizer(bundle)
        self.curves = calibration.read(bundle.calibration)

    @property
    def vector_id(self) -> str:
        """The name of the space."""
        return self.bundle.vector_id

    @property
    def dim(self) -> int:
        """Length of an index vector."""
        return self.bundle.geometry.dim

    @property
    def metric(self) -> Metric:
        """How index vectors are compared."""
        return self.bundle.geometry.metric

    @property
    def query_signs(self) -> Vector | None:
        """What a query vector is multiplied with."""
        signs = self.bundle.geometry.query_signs
        return None if signs is None else np.asarray(signs, np.float32)

    def texts(self, texts: Sequence[str]) -> EncodedTexts:
        """Features of texts."""
        if not texts:
            return EncodedTexts(self._empty(), ())
        parts: list[Features] = []
        cut: list[bool] = []
        for batch in self._batches(texts):
            tokens = self.tokenizer(batch)
            parts.append(self._text.run(None, {"tokens": tokens.ids})[0])
            cut.extend(tokens.cut)
        return EncodedTexts(np.concatenate(parts), tuple(cut))

    def pictures(self, pictures: Sequence[Image]) -> Features:
        """Features of decoded pictures."""
        parts = [
            self.pixels(np.stack([pixels(p, self.bundle.image) for p in b])) for b in self._batches(pictures)
        ]
        return np.concatenate(parts) if parts else self._empty()

    def pixels(self, batch: PixelBatch) -> Features:
        """Features of pictures already at the encoder's size."""
        parts = [self._image.run(None, {"pixels": part})[0] for part in self._batches(batch)]
        return np.concatenate(parts) if parts else self._empty()

    def vectors(self, features: Features) -> Vectors:
        """Index vectors of features."""
        vectors: Vectors = _run(self._geometry, (len(features), self.dim), features=features)
        return vectors

    @cached_property
    def lanes(self) -> int:
        """How many callers keep all cores busy."""
        return max(1, cores() // self._threads) if self._threads and self.provider == CPU_PROVIDER else 1

    @property
    def entails(self) -> bool:
        """Whether general features hold special ones in cones."""
        return self._entail is not None

    @property
    def rescores(self) -> bool:
        """Whether what an index finds is but a list of candidates, to be ordered by `rescore`."""
        return self._rescore is not None

    def rescore(self, query: Vectors, candidates: Float32[np.ndarray, "q k d"]) -> Float32[np.ndarray, "q k"]:
        """The geometry's own similarity of each query's index vector to those of its candidates."""
        if self._rescore is None:
            raise BundleError(
                f"{self._title} needs no rescoring: its index scores rank as its similarity does"
            )
        return _run(self._rescore, candidates.shape[:2], query=query, candidates=candidates)

    def entail(
        self, general: Float32[np.ndarray, "p n"], specific: Float32[np.ndarray, "s n"], k: float
    ) -> Float32[np.ndarray, "p s"]:
        """How far outside each general feature's cone of width k each specific one lies; ≤ 0 is inside."""
        if self._entail is None:
            raise BundleError(
                f"{self._title} knows nothing of entailment; Euclidean and Lorentz geometries do"
            )
        shape, width = (len(general), len(specific)), np.asarray(k, np.float32)
        return _run(self._entail, shape, general=general, specific=specific, k=width)

    @property
    def _title(self) -> str:
        return f"bundle {self.bundle.name} (geometry {self.bundle.geometry.name})"

    def _empty(self) -> Features:
        return np.empty((0, self.bundle.geometry.feature_dim), np.float32)

    def _batches(self, values: Sequence[Any] | PixelBatch) -> Iterator[Any]:
        size = max(SMALLEST_BATCH, BATCH // self.lanes)
        for start in range(0, len(values), size):
            yield values[start : start + size]

    def _optional(self, name: str, *arguments: str) -> Any:  # noqa: ANN401 (untyped library)
        return self.session(name, *arguments) if self.bundle.has(name) else None

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
        found = [value.name for value in session.get_inputs()]
        if found != [*arguments]:
            raise BundleError(f"{name} of bundle {self.bundle.name} takes {found}, not {[*arguments]}")
        if session.get_providers()[0] != self.provider:
            raise BundleError(f"{self.provider} was asked for, but {session.get_providers()[0]} came")
        return session


def _run(session: Any, shape: tuple[int, ...], **given: np.ndarray) -> np.ndarray:  # noqa: ANN401 (untyped library)
    """A graph's answer. It is never asked of nothing: reshaping that kills the whole process."""
    answer: np.ndarray = session.run(None, given)[0] if min(shape) else np.empty(shape, np.float32)
    return answer


def _tokenizer(bundle: Bundle) -> Tokenizer:
    try:
        return Tokenizer(bundle.path("tokenizer.json").read_text(encoding="utf-8"), bundle.text)
    except (TextError, UnicodeDecodeError) as error:
        raise BundleError(f"tokenizer.json of bundle {bundle.name} cannot be used: {error}") from error


def _provider() -> str:
    available = ort.get_available_providers()
    chosen = next(name for name in PREFERRED_PROVIDERS if name in available)
    if chosen == "CUDAExecutionProvider":
        ort.preload_dlls()  # CUDA's libraries come as Python packages, where no loader looks by itself
    return chosen
