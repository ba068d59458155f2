"""Builds a bundle from published graphs: wrapped, compared, with canaries and probes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from app.pull import graphs, verification
from app.pull import graphs as wrapping
from app.pull.layouts import TowerLayout, Variant, recognise_layout
from app.pull.source import PublishedFiles, PullError
from app.pull.specs import TextConfig, image_spec, read_text_config, text_spec
from multifold.bundle import bundle as bundles
from multifold.bundle import canary
from multifold.bundle.bundle import Bundle, GeometrySpec, Tolerance, ViewSpec, stage_bundle
from multifold.bundle.encoder import Encoder
from renderers.cameras import rig
from renderers.contracts import LOOK

CPU_PROVIDER = "CPUExecutionProvider"
# Of cosines, lengths and ranks, on a CPU and elsewhere: with few bits, processors differ in how they sum.
TOLERANCES: dict[Variant, tuple[Tolerance, Tolerance]] = {
    "fp32": (Tolerance(0.9999, 1e-3, 1.0), Tolerance(0.999, 1e-2, 0.9)),
    "fp16": (Tolerance(0.9995, 5e-3, 0.9), Tolerance(0.998, 2e-2, 0.9)),
    "int8": (Tolerance(0.98, 5e-2, 0.5), Tolerance(0.95, 1e-1, 0.5)),
}


@dataclass(frozen=True)
class BundleRequest:
    """What the bundle is to be called, which variant of the graphs it takes, which rig draws its views."""

    name: str
    about: str
    variant: Variant = "fp32"
    rig: str = "ring6"


@dataclass(frozen=True)
class _Towers:
    """The published towers, and the outputs that hold their features."""

    source: PublishedFiles
    layout: TowerLayout
    said: TextConfig
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


def build_bundle(source: PublishedFiles, folder: Path, wish: BundleRequest) -> Bundle:
    """Write the bundle; it takes its place when it is whole and has passed every check."""
    layout = recognise_layout(source.names(), wish.variant)
    files = _verify_files(source, layout)
    masked = graphs.ids_input(graphs.read_graph(source.path(layout.text_graph), weights=False))[1] is not None
    towers = _Towers(
        source, layout, read_text_config(source, layout, masked), verification.DIFFERENCE_LIMITS[wish.variant]
    )
    with stage_bundle(folder) as aside:
        draft = _write_graphs(towers, _draft_bundle(towers, aside, wish))
        _write_queries(Encoder(draft))
        bundles.save(replace(draft, provenance=_provenance(source, layout, files)))
        canary.check(Encoder(bundles.load(aside)))
    return bundles.load(folder)


def _provenance(source: PublishedFiles, layout: TowerLayout, files: Mapping[str, str]) -> dict[str, object]:
    origin = {**source.origin, "layout": layout.kind, "files": files}
    return {"code": version("multifold"), "licence": source.licence or "unknown", "source": origin}


def _verify_files(source: PublishedFiles, layout: TowerLayout) -> dict[str, str]:
    """The sha256 of each file that is used; one that is pinned must have the pinned one."""
    names = [*layout.files]
    for graph in (layout.image_graph, layout.text_graph):
        names += [str(Path(graph).with_name(one)) for one in sorted(graphs.weight_files(source.path(graph)))]
    found = {name: bundles.file_hash(source.path(name)) for name in names}
    for name, wanted in source.pins.items():
        if found.get(name, wanted) != wanted:
            raise PullError(
                f"{name} is not the file that is known: its sha256 is {found[name]}, not {wanted}"
            )
    return found


def _draft_bundle(towers: _Towers, folder: Path, wish: BundleRequest) -> Bundle:
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
        tolerances={f"{wish.variant}/{CPU_PROVIDER}": here, f"{wish.variant}/*": elsewhere},
        variant=wish.variant,
    )


def _write_graphs(towers: _Towers, draft: Bundle) -> Bundle:
    """All three graphs, compared with the published ones; returns the description that fits them."""
    graphs.write_graph(graphs.geometry_graph(), draft.path("geometry.onnx"))
    path, wanted = towers.image
    model = graphs.read_graph(path)
    features = graphs.feature_output(model, wanted)
    graphs.write_graph(wrapping.image_graph(model, draft.image, features), draft.path("image.onnx"))
    draft = _write_text(towers, draft)
    encoder, pictures = Encoder(draft), verification.canary_pictures()
    verification.check_pictures(encoder, path, features, pictures, towers.limit)
    lengths = encoder.texts(["a"]).features.shape[1], encoder.pictures(pictures[:1]).shape[1]
    if lengths[0] != lengths[1]:
        raise PullError(
            f"texts and pictures have features of different lengths, {lengths}: they do not compare"
        )
    return replace(draft, geometry=replace(draft.geometry, feature_dim=lengths[0], dim=lengths[0]))


def _write_text(towers: _Towers, draft: Bundle) -> Bundle:
    """The text graph: for texts of any length if it says the same then, else for whole contexts."""
    path, wanted = towers.text
    free = graphs.axis_lengths(graphs.ids_input(graphs.read_graph(path, weights=False))[0])[1] is None
    if towers.said.causal and free and draft.variant != "int8":
        try:
            return _write_text_of(
                path, wanted, towers, replace(draft, text=replace(draft.text, length="dynamic"))
            )
        except PullError:
            pass  # it looks at the padding after all
    return _write_text_of(path, wanted, towers, draft)


def _write_text_of(path: Path, wanted: tuple[str, ...], towers: _Towers, draft: Bundle) -> Bundle:
    model = graphs.read_graph(path)
    features = graphs.feature_output(model, wanted)
    graphs.write_graph(wrapping.text_graph(model, draft.text, features), draft.path("text.onnx"))
    verification.check_texts(Encoder(draft), path, features, verification.canary_texts(), towers.limit)
    return draft


def _write_queries(encoder: Encoder) -> None:
    """Canaries, and texts for an index to measure its recall with; pictures it takes from itself."""
    pictures = [np.asarray(picture) for picture in verification.canary_pictures()]
    canary.record(encoder, verification.canary_texts(), pictures)
    probes = encoder.texts(verification.probe_texts()).features
    np.savez(encoder.bundle.path("probe.npz"), text=probes)
