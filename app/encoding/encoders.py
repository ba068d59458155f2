"""The bundles at hand, and one open encoder for each bundle in use."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from app.encoding.observations import ObservationEncoder, open_drawing_encoder
from app.errors import ApiError
from app.settings import Settings
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
    """Observers by the `vector_id` of their bundle, each opened when it is first needed."""

    def __init__(self, settings: Settings, sandbox: Sandbox) -> None:
        self._settings, self._sandbox = settings, sandbox
        self._opened: dict[str, ObservationEncoder] = {}
        self._opening = threading.Lock()
        self.first = self._open(settings.bundle)

    def of(self, vector_id: str) -> ObservationEncoder:
        """The observer that makes these vectors."""
        found = self._opened.get(vector_id)
        if found is not None:
            return found
        sentence = f"no bundle here makes the vectors of {vector_id}; put it into the folder of bundles"
        return self._open(self._folder(lambda one: one.vector_id == vector_id, sentence))

    def named(self, name: str) -> ObservationEncoder:
        """The observer of a bundle at hand, by the name of its folder or else by the bundle's own."""
        sentence = f"there is no bundle {name!r} here"
        return self._open(self._folder(lambda one: name in (one.name, one.folder.name), sentence, name))

    def reload(self) -> list[tuple[Bundle, Bundle]]:
        """Read the bundles at work anew from their folders, all or none; each before and after.

        What changed is verified as at a start, and takes its place between two batches.
        """
        with self._opening:
            renewed = [(one, self._renewed(one.encoder)) for one in self._opened.values()]
            bundles_of = [(one.encoder.bundle, encoder.bundle) for one, encoder in renewed]
            for one, encoder in renewed:
                one.encoder = encoder
        return bundles_of

    def _renewed(self, encoder: Encoder) -> Encoder:
        """The encoder as its folder has it now; itself if nothing changed."""
        known, found = encoder.bundle, bundles.load(encoder.bundle.folder)
        if found.vector_id != known.vector_id:
            sentence = f"the bundle {known.name} makes other vectors now; rebuild its collections for it"
            raise ApiError(409, "other_vectors", sentence)
        same = found.bundle_id == known.bundle_id
        return encoder if same else open_drawing_encoder(known.folder, self._settings.threads)

    def at_hand(self, first: str = "") -> Iterator[tuple[Path, Bundle | BundleError]]:
        """Every bundle here, or what is wrong with it; the one in a folder called `first` before others."""
        for folder in sorted(self._folders(), key=lambda one: one.name != first):
            try:
                yield folder, bundles.load(folder)
            except BundleError as error:
                yield folder, error

    def _folder(self, fits: Callable[[Bundle], bool], sentence: str, first: str = "") -> Path:
        for folder, bundle in self.at_hand(first):
            if isinstance(bundle, Bundle) and fits(bundle):
                return folder
        raise ApiError(404, "no_such_bundle", sentence)

    def _folders(self) -> list[Path]:
        """The service's own first; what lies beside it is looked for anew each time."""
        settings = self._settings
        beside = sorted(settings.bundles.iterdir()) if settings.bundles and settings.bundles.is_dir() else []
        own = settings.bundle.resolve()
        others = [
            one for one in beside if (one / bundles.DESCRIPTION_FILE).is_file() and one.resolve() != own
        ]
        return [settings.bundle, *others]

    def _open(self, folder: Path) -> ObservationEncoder:
        with self._opening:
            encoder = open_drawing_encoder(folder, self._settings.threads)
            known = self._opened.get(encoder.vector_id)
            if known is None:
                known = self._opened[encoder.vector_id] = ObservationEncoder(
                    encoder, self._sandbox, self._settings
                )
        return known
