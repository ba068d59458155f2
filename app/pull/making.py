"""Published towers as a bundle that checks itself: wrapped, compared, sealed with canaries and probes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from app.pull import graphs, parity, samples, wrapping
from app.pull.layouts import Layout, Variant, recognise
from app.pull.reading import Reading, reading, text_spec
from app.pull.seeing import image_spec
from app.pull.source import PullError, Source
from multifold import bundle as bundles
from multifold import canary
from multifold.bundle import Bundle, GeometrySpec, Tolerance, ViewSpec
from multifold.encoder import Encoder
from multifold.staging import staged
from renderers.base import LOOK
from renderers.cameras import rig

CPU = "CPUExecutionProvider"
# Of cosines, lengths and ranks, on a CPU and elsewhere: with few bits, processors differ in how they sum.
TOLERANCES: dict[Variant, tuple[Tolerance, Tolerance]] = {
    "fp32": (Tolerance(0.9999, 1e-3, 1.0), Tolerance(0.999, 1e-2, 0.9)),
    "fp16": (Tolerance(0.9995, 5e-3, 0.9), Tolerance(0.998, 2e-2, 0.9)),
    "int8": (Tolerance(0.98, 5e-2, 0.5), Tolerance(0.95, 1e-1, 0.5)),
}


@dataclass(frozen=True)
class Wish:
    """What the bundle is to be called, which variant of the graphs it takes, which rig draws its views."""

    name: str
    about: str
    variant: Variant = "fp32"
    rig: str = "ring6"


@dataclass(frozen=True)
class _Towers:
    """The published towers, and the outputs that hold their features."""

    source: Source
    layout: Layout
    said: Reading
    limit: float

    @property
    def image(self) -> tuple[Path, tuple[str, ...]]:
        """The image graph, and what its output may be called."""
        return self.source.path(self.layout.image_graph), self._outputs("image_embeds")

    @property
    def text(self) -> tuple[Path, tuple[str, ...]]:
        """The same of the text graph."""
        return self.source.path(self.layout.text_graph), self._outputs("text_embeds")

    def _outputs(self, projected: str) -> tuple[str, ...]:
        if self.layout.kind == "immich":
            return ()
        return ("pooler_output",) if self.said.family.startswith("siglip") else (projected,)


def make(source: Source, folder: Path, wish: Wish) -> Bundle:
    """Write the bundle; it takes its place when it is whole and has passed every check."""
    layout = recognise(source.names(), wish.variant)
    files = _verified(source, layout)
    masked = graphs.ids_input(graphs.read(source.path(layout.text_graph), weights=False))[1] is not None
    towers = _Towers(source, layout, reading(source, layout, masked), parity.LIMITS[wish.variant])
    with staged(folder) as aside:
        draft = _write_graphs(towers, _draft(towers, aside, wish))
        _write_queries(Encoder(draft))
        bundles.save(replace(draft, provenance=_provenance(source, layout, files)))
        canary.check(Encoder(bundles.load(aside)))
    return bundles.load(folder)


def _provenance(source: Source, layout: Layout, files: Mapping[str, str]) -> dict[str, object]:
    origin = {**source.origin, "layout": layout.kind, "files": files}
    return {"code": version("multifold"), "licence": source.licence or "unknown", "source": origin}


def _verified(source: Source, layout: Layout) -> dict[str, str]:
    """The sha256 of each file that is used; one that is pinned must have the pinned one."""
    names = [*layout.files]
    for graph in (layout.image_graph, layout.text_graph):
        names += [str(Path(graph).with_name(one)) for one in sorted(graphs.beside(source.path(graph)))]
    found = {name: bundles.file_hash(source.path(name)) for name in names}
    for name, wanted in source.pins.items():
        if found.get(name, wanted) != wanted:
            raise PullError(
                f"{name} is not the file that is known: its sha256 is {found[name]}, not {wanted}"
            )
    return found


def _draft(towers: _Towers, folder: Path, wish: Wish) -> Bundle:
    """The description as far as it is known before the graphs have answered; and the tokenizer."""
    image = image_spec(towers.source, towers.layout)
    here, elsewhere = TOLERANCES[wish.variant]
    tokenizer = towers.source.text(towers.layout.tokenizer)
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    return Bundle(
        folder=folder,
        name=wish.name,
        about=wish.about,
        geometry=GeometrySpec("clip", 1, 1, "ip"),
        image=image,
        text=text_spec(towers.source, towers.layout, towers.said, "fixed"),
        views=ViewSpec(wish.rig, image.size, "white", "auto", len(rig(wish.rig)), LOOK),
        tolerances={f"{wish.variant}/{CPU}": here, f"{wish.variant}/*": elsewhere},
        variant=wish.variant,
    )


def _write_graphs(towers: _Towers, draft: Bundle) -> Bundle:
    """All three graphs, compared with the published ones; returns the description that fits them."""
    graphs.write(graphs.geometry_graph(), draft.path("geometry.onnx"))
    path, wanted = towers.image
    model = graphs.read(path)
    features = graphs.output(model, wanted)
    graphs.write(wrapping.image_graph(model, draft.image, features), draft.path("image.onnx"))
    draft = _write_text(towers, draft)
    encoder, pictures = Encoder(draft), samples.canary_pictures()
    parity.check_pictures(encoder, path, features, pictures, towers.limit)
    lengths = encoder.texts(["a"]).features.shape[1], encoder.pictures(pictures[:1]).shape[1]
    if lengths[0] != lengths[1]:
        raise PullError(
            f"texts and pictures have features of different lengths, {lengths}: they do not compare"
        )
    return replace(draft, geometry=replace(draft.geometry, feature_dim=lengths[0], dim=lengths[0]))


def _write_text(towers: _Towers, draft: Bundle) -> Bundle:
    """The text graph: for texts of any length if it says the same then, else for whole contexts."""
    path, wanted = towers.text
    free = graphs.sizes(graphs.ids_input(graphs.read(path, weights=False))[0])[1] is None
    if towers.said.causal and free and draft.variant != "int8":
        try:
            return _write_text_of(
                path, wanted, towers, replace(draft, text=replace(draft.text, length="dynamic"))
            )
        except PullError:
            pass  # it looks at the padding after all
    return _write_text_of(path, wanted, towers, draft)


def _write_text_of(path: Path, wanted: tuple[str, ...], towers: _Towers, draft: Bundle) -> Bundle:
    model = graphs.read(path)
    features = graphs.output(model, wanted)
    graphs.write(wrapping.text_graph(model, draft.text, features), draft.path("text.onnx"))
    parity.check_texts(Encoder(draft), path, features, samples.canary_texts(), towers.limit)
    return draft


def _write_queries(encoder: Encoder) -> None:
    """Canaries, and texts for an index to measure its recall with; pictures it takes from itself."""
    pictures = [np.asarray(picture) for picture in samples.canary_pictures()]
    canary.record(encoder, samples.canary_texts(), pictures)
    probes = encoder.texts(samples.probe_texts()).features
    np.savez(encoder.bundle.path("probe.npz"), text=probes)
