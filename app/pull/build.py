"""Builds a bundle from published graphs: wrapped, compared, with canaries and probes."""

from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from app.pull import graphs, verification
from app.pull.published_files import PublishedFiles, PullError, TowerLayout, Variant, recognise_layout
from app.pull.specs import image_spec
from app.pull.texts import RAW_TEXTS, PublishedTexts, TextConfig, read_text_config
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
    language: str | None = None  # of the texts, where towers need it
    prefixes: tuple[int, ...] = ()  # lengths to which its vectors may be cut


def build_bundle(source: PublishedFiles, folder: Path, request: BundleRequest) -> Bundle:
    """Write the bundle; it takes its place when it is complete and has passed every check."""
    layout = recognise_layout(source.names(), request.variant)
    weights = [
        str(Path(graph).with_name(one))
        for graph in (layout.image_graph, layout.text_graph)
        for one in sorted(graphs.weight_files(source.path(graph)))
    ]
    files = source.hashes([*layout.files, *weights])
    with stage_bundle(folder) as staging:
        draft = _BundleBuilder(source, layout, request).write_graphs(staging)
        encoder = Encoder(draft)
        pictures = [np.asarray(one) for one in verification.canary_pictures()]
        canary.record(encoder, verification.canary_texts(), pictures)
        probes = encoder.texts(verification.probe_texts()).features  # an index takes pictures from its items
        np.savez(draft.path("probe.npz"), text=probes)
        origin = {**source.origin, "layout": layout.kind, "files": files}
        if request.language is not None:
            origin["language"] = request.language
        licence = source.licence or "unknown"
        provenance = {"code": version("multifold"), "licence": licence, "source": origin}
        bundles.save(replace(draft, provenance=provenance))
        canary.check(Encoder(bundles.load(staging)))
    return bundles.load(folder)


class _BundleBuilder:
    """Wraps both towers, and compares each wrapped graph with the published one."""

    def __init__(self, source: PublishedFiles, layout: TowerLayout, request: BundleRequest) -> None:
        self._source = source
        self._layout = layout
        self._request = request
        self._image = source.path(layout.image_graph)
        self._text = source.path(layout.text_graph)
        ids, mask = graphs.ids_input(graphs.read_graph(self._text, weights=False))
        self._any_length = graphs.axis_lengths(ids)[1] is None
        self._config: TextConfig = read_text_config(source, layout, masked=mask is not None)
        self._texts = PublishedTexts(source, layout, self._config, request.language)
        self._limit = verification.DIFFERENCE_LIMITS[request.variant]

    def write_graphs(self, folder: Path) -> Bundle:
        """All three graphs and the tokenizer; returns the description that fits them."""
        draft = self._describe(folder)
        graphs.write_graph(graphs.geometry_graph(), draft.path("geometry.onnx"))
        model = graphs.read_graph(self._image)
        output = graphs.feature_output(model, self._outputs("image_embeds"))
        graphs.write_graph(graphs.image_graph(model, draft.image, output), draft.path("image.onnx"))
        draft = self._write_text(draft)
        encoder = Encoder(draft)
        pictures = verification.canary_pictures()
        verification.check_pictures(encoder, self._image, output, pictures, self._limit)
        length = encoder.texts(["a"]).features.shape[1]
        other = encoder.pictures(pictures[:1]).shape[1]
        if length != other:
            lengths = f"of different lengths, {(length, other)}: they do not compare"
            raise PullError(f"texts and pictures have features {lengths}")
        geometry = replace(draft.geometry, feature_dim=length, dim=length)
        return replace(draft, geometry=geometry, prefixes=self._request.prefixes)

    def _describe(self, folder: Path) -> Bundle:
        """The description, as far as it is known before the graphs have answered; writes the tokenizer."""
        request = self._request
        source = self._source
        layout = self._layout
        image = image_spec(source, layout)
        on_cpu, elsewhere = TOLERANCES[request.variant]
        (folder / "tokenizer.json").write_text(source.text(layout.tokenizer), encoding="utf-8")
        return Bundle(
            folder=folder,
            name=request.name,
            about=request.about,
            geometry=GeometrySpec("clip", 1, 1, "ip"),
            image=image,
            text=self._texts.spec,
            views=ViewSpec(request.rig, image.size, "white", "auto", len(rig(request.rig)), LOOK),
            tolerances={f"{request.variant}/{CPU_PROVIDER}": on_cpu, f"{request.variant}/*": elsewhere},
            variant=request.variant,
        )

    def _write_text(self, draft: Bundle) -> Bundle:
        """The text graph: for texts of any length if it answers the same then, else for whole contexts."""
        if self._config.causal and self._any_length and draft.variant != "int8":
            try:
                return self._write_text_of(replace(draft, text=replace(draft.text, length="dynamic")))
            except PullError:
                pass  # padding changes its answers
        return self._write_text_of(draft)

    def _write_text_of(self, draft: Bundle) -> Bundle:
        model = graphs.read_graph(self._text)
        output = graphs.feature_output(model, self._outputs("text_embeds"))
        graphs.write_graph(graphs.text_graph(model, draft.text, output), draft.path("text.onnx"))
        encoder = Encoder(draft)
        texts = {text: encoder.tokenizer([text]).ids[0].tolist() for text in verification.canary_texts()}
        texts |= {text: self._texts.ids(text) for text in RAW_TEXTS}
        verification.check_texts(encoder, self._text, output, texts, self._limit)
        return draft

    def _outputs(self, projected: str) -> tuple[str, ...]:
        if self._layout.kind == "immich":
            return ()
        return ("pooler_output",) if self._config.family.startswith("siglip") else (projected,)
