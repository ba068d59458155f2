"""The things that are searched, as files, and the questions that are asked: all made before any search."""

import base64
import csv
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

import numpy as np
from PIL import Image

from multifold import manifest
from renderers.cameras import rig
from renderers.contracts import Rig
from renderers.mesh.load import load_model
from renderers.raster.renderer import SoftwareRenderer

Use: TypeAlias = Literal["choose", "report"]
Line: TypeAlias = dict[str, Any]  # of the data: an item with its file and text
Captioned: TypeAlias = tuple[Path, str]
OTHER_WORDS = Path(__file__).with_name("other_words.tsv")
CAPTIONS = (0, 1, 2, 4)  # known of a piece of furniture; one more asks
SHARES = (10, 50, 90)  # per cent of a mixed folder that are models
MIXED = 100  # things in it
FEW_OWNERS = 10  # items that have all three words of a question, at most
MESHES = 40  # that ask in one world
FOLDERS = {
    "models": "models/",
    "emoji": "images/noto-emoji/",
    "symbols": "images/noto-emoji/",
    "objects": "images/kenney-isometric/",
}
MOST = {"models": 290, "emoji": 400, "symbols": 400, "objects": 403}  # items of a world
TYPES = {".png": "image/png", ".glb": "model/gltf-binary", ".gltf": "model/gltf+json"}


@dataclass(frozen=True)
class AskedQuestion:
    """What is asked, for people and as the body of a search, and the ids that are right."""

    asked: str
    body: Mapping[str, str]
    right: frozenset[str]  # none: nothing that is there is meant
    meant: str | None = None  # the one of several right ones that a confidence is about


@dataclass(frozen=True)
class QualityWorld:
    """What is searched, a folder or a manifest, and what is asked, by kind."""

    name: str
    source: Path
    questions: Mapping[str, Sequence[AskedQuestion]]
    captions: Mapping[str, Sequence[str]] = field(default_factory=dict)  # in place of those of the files


@dataclass(frozen=True)
class WorldMaker:
    """Makes worlds in a folder, of generated furniture and, where they are, of models and pictures."""

    folder: Path
    generated: Path  # the manifest of the furniture
    data: Path | None
    photos_at: Path | None
    queries: int  # of a kind, at most
    use: Use

    def furniture(self) -> Iterator[QualityWorld]:
        """Pieces with few captions, asked by one more and by three words of it."""
        entries = list(manifest.read(self.generated))
        bare = self.generated.with_name("bare.jsonl")
        manifest.write(bare, [replace(one, texts=(), meta={}) for one in entries])
        owners: dict[str, set[str]] = {}
        for one in entries:
            owners.setdefault(one.texts[-1], set()).add(one.id)
        chosen = _spread(sorted(owners), self.queries)
        questions = {
            "one more caption": [_by_text(text, owners[text]) for text in chosen],
            "three words of it": [_by_text(_three_words(text), owners[text]) for text in chosen],
        }
        for count in CAPTIONS:
            known = {one.id: one.texts[:count] for one in entries} if count else {}
            yield QualityWorld(f"furniture, {count} captions", bare, questions, known)

    def mixed(self) -> Iterator[QualityWorld]:
        """Meshes, and pictures of other things, each asked with its own file and caption."""
        pieces = [(one.mesh, one.texts[0]) for one in manifest.read(self.generated) if one.mesh is not None]
        photos = [(self._draw(mesh), text) for mesh, text in pieces[:MIXED]]
        yield self._mixture("furniture", 50, pieces[::-1], photos)
        if self.data is not None:
            meshes = [(self._pack(one), str(one["text"])) for one in _spread(self._lines("models"), MIXED)]
            drawn = [(self._pack(one), str(one["text"])) for one in _spread(self._lines("emoji"), MIXED)]
            for share in SHARES:
                yield self._mixture("models and emoji", share, meshes, drawn)

    def models(self) -> Iterator[QualityWorld]:
        """Named models, asked by name, three words, other words, a view that is new, and the files."""
        lines = self._lines("models")
        files = {_id_of(one): self._pack(one) for one in lines}
        known = {_id_of(one): set(_words(f"{_id_of(one)} {one['text']}")) for one in lines}
        three = []
        for name in known:
            text = _three_words(name)
            owners = [other for other, words in known.items() if set(text.split()) <= words]
            three += [replace(_by_text(text, owners), meant=name)] if len(owners) <= FEW_OWNERS else []
        asking = _spread(list(files), self.queries)
        questions = {
            "name": [_by_text(one["text"], [_id_of(one)]) for one in lines],
            "three words": _spread(three, self.queries),
            **self._other_words("models", lines),
            **self._with_sizes(lines, files),
            "a new view": [_by_file(self._draw(files[name]), [name]) for name in asking],
            "mesh itself": [_by_file(files[name], [name]) for name in _spread(asking, MESHES)],
        }
        yield QualityWorld("models", self.folder / "models", questions)

    def emoji(self) -> Iterator[QualityWorld]:
        """Captioned pictures, asked by name, other words, and the files."""
        yield self._captioned("emoji")

    def symbols(self) -> Iterator[QualityWorld]:
        """The same with other pictures of the folder, which are described for reports only."""
        yield self._captioned("symbols")

    def objects(self) -> Iterator[QualityWorld]:
        """Pictures that have names alone, asked as the captioned ones are."""
        lines = self._lines("objects")
        for one in lines:
            self._pack(one)
        yield self._pictures("objects", lines)

    def photos(self) -> Iterator[QualityWorld]:
        """Photographs that nobody has described, asked with what people say of each."""
        assert self.photos_at is not None
        folder = self.folder / "photos"
        folder.mkdir(exist_ok=True)
        asked = []
        for number, line in enumerate((self.photos_at / "photos.jsonl").read_text("utf-8").splitlines()):
            one = json.loads(line)
            name = f"IMG_{number:04}"
            shutil.copyfile(self.photos_at / one["file"], folder / f"{name}.jpg")
            asked += [_by_text(caption, [name]) for caption in one["captions"]]
        yield QualityWorld("photos", folder, {"a caption": _spread(asked, self.queries)})

    def drawn(self) -> Iterator[QualityWorld]:
        """Models, asked with the pictures that their maker has drawn of some."""
        assert self.data is not None
        pictures = self.data / "images/kenney-isometric/platformer-kit-1-0"
        folder = self.folder / "drawn models"
        folder.mkdir(exist_ok=True)
        asked = []
        for mesh in sorted((self.data / "models/kenney-platformer").glob("*.glb")):
            if (picture := pictures / f"{mesh.stem}_NE.png").is_file():
                shutil.copyfile(mesh, folder / mesh.name)
                asked.append(_by_file(picture, [mesh.stem]))
        for one in self._lines("models"):
            if not one["file"].startswith("models/kenney-platformer/"):
                shutil.copyfile(self._pack(one), folder / f"{one['group']} {PurePosixPath(one['file']).name}")
        as_shapes = [replace(one, body={**one.body, "target": "shape"}) for one in asked]
        yield QualityWorld(
            "drawn", folder, {"its maker's picture": asked, "the same among shapes": as_shapes}
        )

    def _captioned(self, world: str) -> QualityWorld:
        lines = self._lines(world)
        for one in lines:
            self._pack(one).with_suffix(".txt").write_text(one["text"], encoding="utf-8")
        return self._pictures(world, lines)

    def _pictures(self, world: str, lines: Sequence[Line]) -> QualityWorld:
        asking = _spread(lines, self.queries)
        questions = {
            "name": [_by_text(one["text"], [_id_of(one)]) for one in asking],
            **self._other_words(world, lines),
            "picture itself": [_by_file(self._pack(one), [_id_of(one)]) for one in asking],
        }
        return QualityWorld(world, self.folder / world, questions)

    def _lines(self, world: str) -> list[Line]:
        """Items whose texts differ; those that are described in other words come first."""
        assert self.data is not None
        lines = map(json.loads, (self.data / "items.jsonl").read_text(encoding="utf-8").splitlines())
        ours = [{**one, "world": world} for one in lines if one["file"].startswith(FOLDERS[world])]
        distinct = list({one["text"]: one for one in reversed(ours)}.values())[::-1]
        first = (next((one for one in distinct if _fits(one, row)), None) for row in _descriptions(world))
        chosen = list({one["id"]: one for one in first if one is not None}.values())
        others = [one for one in distinct if one not in chosen]
        return chosen + _spread(others, max(0, MOST[world] - len(chosen)))

    def _other_words(self, world: str, lines: Sequence[Line]) -> dict[str, list[AskedQuestion]]:
        """Descriptions of items, and of what is not there."""
        rows = [row for row in _descriptions(world) if row["use"] == self.use]
        asked = [_by_text(row["text"], [_id_of(one) for one in lines if _fits(one, row)]) for row in rows]
        meant = [one for one in asked if one.right]
        return {"other words": meant, "what is not there": [one for one in asked if not one.right]}

    def _with_sizes(self, lines: Sequence[Line], files: Mapping[str, Path]) -> dict[str, list[AskedQuestion]]:
        """Descriptions of models with their height beside them, as a filter and as words."""
        asked = []
        for one in self._other_words("models", lines)["other words"]:
            name = min(one.right)
            height = load_model(files[name]).facts.get("height")
            if height is not None:
                text = f"{one.asked}, about {height:.2f} m high"
                asked.append(replace(_by_text(text, [name]), asked=one.asked))
        plain = [replace(one, body={"text": one.asked}) for one in asked]
        as_words = [replace(one, body={**one.body, "understand": "off"}) for one in asked]
        return {"sized: description": plain, "with a height": asked, "the height as words": as_words}

    def _pack(self, one: Line) -> Path:
        """The file of an item in the folder of its world, whole, named by its id."""
        assert self.data is not None
        source = self.data / one["file"]
        target = self.folder / str(one["world"]) / f"{_id_of(one)}{source.suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_inlined(source) if source.suffix == ".gltf" else source.read_bytes())
        return target

    def _draw(self, mesh: Path) -> Path:
        """A picture of a mesh from where no encoder sees it."""
        cameras = rig("ring7@10")
        aside = Rig(cameras.name, cameras.poses[1:2], cameras.fov_degrees)
        target = self.folder / "drawn" / f"{mesh.parent.name} {mesh.stem}.png"
        target.parent.mkdir(exist_ok=True)
        Image.fromarray(SoftwareRenderer().render(load_model(mesh), aside)[0]).save(target)
        return target

    def _mixture(
        self, name: str, share: int, meshes: Sequence[Captioned], photos: Sequence[Captioned]
    ) -> QualityWorld:
        """A folder of a share of meshes; equal files and equal captions are equally right."""
        folder = self.folder / f"mixed {name} {share}"
        folder.mkdir()
        size = min(MIXED, len(meshes), len(photos))
        files: dict[Path, str] = {}
        for number, (path, text) in enumerate([*meshes[: size * share // 100], *photos][:size]):
            target = folder / f"{number:03} {'-'.join(_words(text))}{path.suffix}"
            shutil.copyfile(path, target)
            target.with_suffix(".txt").write_text(text, encoding="utf-8")
            files[target] = text
        data = {path: path.read_bytes() for path in files}
        itself = [_by_file(path, [one.stem for one in data if data[one] == data[path]]) for path in data]
        texts = [_by_text(text, [one.stem for one in files if files[one] == text]) for text in files.values()]
        asked = {
            "picture itself": [one for one in itself if "image" in one.body],
            "mesh itself": _spread([one for one in itself if "mesh" in one.body], MESHES),
            "caption itself": texts,
        }
        return QualityWorld(f"{name}, {share} % models", folder, asked)


def _by_text(text: str, right: Iterable[str]) -> AskedQuestion:
    return AskedQuestion(text, {"text": text}, frozenset(right))


def _by_file(path: Path, right: Iterable[str]) -> AskedQuestion:
    kind = "image" if path.suffix == ".png" else "mesh"
    address = f"data:{TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
    form = {} if kind == "image" else {"mesh_format": path.suffix[1:]}
    return AskedQuestion(path.stem, {kind: address, **form}, frozenset(right))


def _descriptions(world: str) -> list[dict[str, str]]:
    with open(OTHER_WORDS, encoding="utf-8", newline="") as table:
        return [row for row in csv.DictReader(table, delimiter="\t") if row["world"] == world]


def _fits(one: Line, row: Mapping[str, str]) -> bool:
    return any(fnmatchcase(one["file"], pattern) for pattern in row["item"].split("|"))


def _id_of(one: Line) -> str:
    """The path in the folder of its world, without what exporters put behind a dot."""
    path = PurePosixPath(one["file"]).relative_to(FOLDERS[one["world"]])
    return path.with_name(path.name.partition(".")[0]).as_posix()


def _words(text: str) -> list[str]:
    """The different words of a name or caption that have three letters."""
    words = re.findall(r"[A-Z]?[a-z]+", text)
    return list(dict.fromkeys(word.lower() for word in words if len(word) > 2))


def _three_words(text: str) -> str:
    """Three words of a text, which only the text decides."""
    words = _words(text)
    random = np.random.default_rng(list(text.encode()))
    return " ".join(words[place] for place in random.permutation(len(words))[:3])


def _spread(every: Sequence[Any], most: int) -> list[Any]:
    """At most so many, evenly spread."""
    return [every[place] for place in np.linspace(0, len(every) - 1, min(most, len(every))).astype(int)]


def _inlined(path: Path) -> bytes:
    """A glTF file with all that it names inside."""
    described = json.loads(path.read_text(encoding="utf-8"))
    for one in (*described.get("buffers", ()), *described.get("images", ())):
        if (name := one.get("uri", "data:")) and not name.startswith("data:"):
            kind = TYPES.get(Path(name).suffix, "application/octet-stream")
            data = base64.b64encode((path.parent / name).read_bytes()).decode()
            one["uri"] = f"data:{kind};base64,{data}"
    return json.dumps(described).encode()
