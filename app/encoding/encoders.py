"""The available bundles, and one open encoder for each bundle in use."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from app.encoding.no_encoder import NoEncoder
from app.encoding.observations import ObservationEncoder, open_drawing_encoder
from app.errors import ApiError
from app.settings import Settings
from index.plain_space import PlainSpace, parse_plain_space
from index.registry import stored_vector_id
from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import Bundle, BundleError
from multifold.bundle.encoder import Encoder
from renderers.sandbox import Sandbox


def with_recorded_bundle(settings: Settings) -> Settings:
    """With the bundle that made the main collection, if that lies beside the one asked for."""
    bundle = bundles.find_bundle(stored_vector_id(settings.place), settings.bundle)
    return settings if bundle == settings.bundle else settings.model_copy(update={"bundle": bundle})


class OpenEncoders:
    """Observation encoders by the `vector_id` of their bundle, each opened when it is first needed."""

    def __init__(self, settings: Settings, sandbox: Sandbox) -> None:
        self._settings = settings
        self._sandbox = sandbox
        self._opened: dict[str, ObservationEncoder] = {}
        self._plain: dict[PlainSpace, ObservationEncoder] = {}
        self._opening = threading.Lock()
        self.first = self._open(settings.bundle)

    def of(self, vector_id: str) -> ObservationEncoder:
        if (opened := self._opened.get(vector_id)) is not None:
            return opened
        if (space := parse_plain_space(vector_id)) is not None:
            return self.without(space)
        sentence = f"no bundle here makes the vectors of {vector_id}; put it into the folder of bundles"
        return self._open(self._folder(lambda one: one.vector_id == vector_id, sentence))

    def without(self, space: PlainSpace) -> ObservationEncoder:
        with self._opening:
            if space not in self._plain:
                self._plain[space] = ObservationEncoder(NoEncoder(space), self._sandbox, self._settings)
            return self._plain[space]

    def named(self, name: str) -> ObservationEncoder:
        """The encoder of an available bundle, by the name of its folder or else by the bundle's own."""
        sentence = f"there is no bundle {name!r} here"
        return self._open(self._folder(lambda one: name in (one.name, one.folder.name), sentence, name))

    def reload(self) -> list[tuple[Bundle, Bundle]]:
        """Read the open bundles again, all or none, for the next batches; returns each before and after."""
        with self._opening:
            reloaded = [(observer, self._reload(observer.encoder)) for observer in self._opened.values()]
            pairs = [(observer.encoder.bundle, encoder.bundle) for observer, encoder in reloaded]
            for observer, encoder in reloaded:
                observer.encoder = encoder
        return pairs

    def _reload(self, encoder: Encoder) -> Encoder:
        before = encoder.bundle
        now = bundles.load(encoder.bundle.folder)
        if now.vector_id != before.vector_id:
            sentence = f"the bundle {before.name} makes other vectors now; rebuild its collections for it"
            raise ApiError(409, "other_vectors", sentence)
        same = now.bundle_id == before.bundle_id
        return encoder if same else open_drawing_encoder(before.folder, self._settings.threads)

    def at_hand(self, first: str = "") -> Iterator[tuple[Path, Bundle | BundleError]]:
        """Every bundle, or what is wrong with it: the folder called `first`, our own, those of the others."""
        own = self._settings.bundle
        shared = self._settings.bundles
        others = sorted(shared.iterdir()) if shared and shared.is_dir() else []
        described = [one for one in others if (one / bundles.DESCRIPTION_FILE).is_file()]
        folders = [own, *(one for one in described if one.resolve() != own.resolve())]
        for folder in sorted(folders, key=lambda folder: folder.name != first):
            try:
                yield folder, bundles.load(folder)
            except BundleError as error:
                yield folder, error

    def _folder(self, fits: Callable[[Bundle], bool], sentence: str, first: str = "") -> Path:
        for folder, bundle in self.at_hand(first):
            if isinstance(bundle, Bundle) and fits(bundle):
                return folder
        raise ApiError(404, "no_such_bundle", sentence)

    def _open(self, folder: Path) -> ObservationEncoder:
        with self._opening:
            encoder = open_drawing_encoder(folder, self._settings.threads)
            if encoder.vector_id not in self._opened:
                observer = ObservationEncoder(encoder, self._sandbox, self._settings)
                self._opened[encoder.vector_id] = observer
            return self._opened[encoder.vector_id]
