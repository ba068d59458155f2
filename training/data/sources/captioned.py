"""Photos with captions: Flickr8k, Flickr30K and COCO, in the forms in which their captions are passed around.

dataset_flickr30k.json         Karpathy's: splits and five sentences an image; COCO's `restval` is train
captions_train2017.json        COCO's own: images and annotations
results_20130124.token         Flickr's own: `name.jpg#0`, a tab, the caption
results.csv, captions.txt      tables: image, (number,) caption, by commas or by bars
flickr_annotations_30k.csv     the Hub's: a row an image, its captions as a list in the column `raw`
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from multifold.files import textfile
from multifold.manifest import ManifestEntry
from training.data.sources.imported import SPLITS, DatasetError, ImportedDataset, split_of

PUBLISHED: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "flickr30k": {"train": (29_000, 145_000), "val": (1_014, 5_070), "test": (1_000, 5_000)},
    "flickr8k": {"train": (6_000, 30_000), "val": (1_000, 5_000), "test": (1_000, 5_000)},
    "coco": {"train": (113_287, 566_747), "val": (5_000, 25_010), "test": (5_000, 25_010)},
}
USUAL = 5  # captions an image
RENAMED = {"restval": "train", "dev": "val", "validation": "val"}
TOKEN = re.compile(r"^(.+?)#\d+\s+(.*)$")
ROW = re.compile(r"^(?P<image>[^|]+)\|\s*(?P<number>\d+)\s*(?:\||\s)\s*(?P<caption>.*)$")


@dataclass
class CaptionedPhoto:
    captions: list[str] = field(default_factory=list)
    split: str | None = None


def read_captioned(
    captions: Path, images: Path, percentages: Sequence[int], lists: Mapping[str, Path] | None = None
) -> ImportedDataset:
    """Every picture with its captions; `lists` name the pictures of each split."""
    if not images.is_dir():
        raise DatasetError(f"there is no folder {images}")
    dataset = ImportedDataset()
    by_name = {path.name: path for path in sorted(images.rglob("*")) if path.is_file()}
    photos = _read_photos(captions, dataset.problems)
    listed = _read_lists(lists or {}, photos)
    for name, photo in photos.items():
        path = images / name if (images / name).is_file() else by_name.get(Path(name).name)
        texts = tuple(" ".join(text.split()) for text in photo.captions if text.strip())
        if path is None or not texts:
            dataset.leave_out(name, "its file is missing" if path is None else "it has no captions")
            continue
        if len(texts) < USUAL:
            dataset.problems.append(f"{name} has {len(texts)} captions, not {USUAL}")
        drawn = None if listed else split_of(name, percentages)
        split = photo.split or listed.get(name) or drawn
        dataset.entries.append(ManifestEntry(id=Path(name).stem, images=(path,), texts=texts, split=split))
    return dataset


def _read_lists(lists: Mapping[str, Path], photos: Iterable[str]) -> dict[str, str]:
    """The split of each listed photo. A list has file names or, as Flickr30K Entities' own, stems."""
    photos_of: dict[str, set[str]] = {}
    for photo in photos:
        for name in (Path(photo).name, Path(photo).stem):
            photos_of.setdefault(name, set()).add(photo)
    splits: dict[str, str] = {}
    for split, path in lists.items():
        names = [Path(line).name for line in textfile.lines(path)]
        listed = {photo for name in names for photo in photos_of.get(name, ())}
        if not listed:
            begins = f"it begins with {names[0]!r}" if names else "it is empty"
            raise DatasetError(f"no photo with captions is in {path}: {begins}; it needs a file name a line")
        splits |= dict.fromkeys(listed, split)
    return splits


def _read_photos(path: Path, problems: list[str]) -> dict[str, CaptionedPhoto]:
    photos = defaultdict[str, CaptionedPhoto](CaptionedPhoto)
    for name, caption, split in _read_captions(path, problems):
        photos[name].captions.append(caption)
        photos[name].split = photos[name].split or split
    if not photos:
        raise DatasetError(f"{path} has no captions in a form that is known; see `multifold data --help`")
    return photos


def _read_captions(path: Path, problems: list[str]) -> Iterator[tuple[str, str, str | None]]:
    if path.suffix.lower() == ".json":
        yield from _from_json(path)
        return
    lines = textfile.lines(path)
    if lines and "|" in lines[0]:  # Flickr30K's table: one of its rows has lost its second bar
        table = lines if ROW.match(lines[0]) else lines[1:]  # without its header
        for match in _matches(ROW, table, path, problems):
            yield match["image"].strip(), match["caption"], None
    elif lines and TOKEN.match(lines[0]):
        for match in _matches(TOKEN, lines, path, problems):
            yield match[1].strip(), match[2], None
    else:
        for row in textfile.table(path):
            name = textfile.column(row, ("image", "image_name", "file", "filename"), path)
            text = textfile.column(row, ("caption", "comment", "text", "raw"), path)
            split = RENAMED.get(row.get("split", ""), row.get("split") or None)
            for caption in _listed_captions(text, path) if "raw" in row else [text]:
                yield name, caption, split


def _listed_captions(text: str, path: Path) -> list[str]:
    try:
        captions = json.loads(text)
    except ValueError:
        captions = None
    if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
        raise DatasetError(
            f"{path} has {text[:60]!r} in its column raw, where a JSON list of captions belongs"
        )
    return captions


def _matches(
    form: re.Pattern[str], lines: Sequence[str], path: Path, problems: list[str]
) -> Iterator[re.Match[str]]:
    for line in lines:
        if match := form.match(line):
            yield match
        else:
            odd = f"left out a line of {path.name}, which is of another form than the others"
            problems.append(f"{odd}: {line}")


def _from_json(path: Path) -> Iterator[tuple[str, str, str | None]]:
    try:
        content = json.loads(textfile.read(path))
        if "annotations" in content:
            names = {image["id"]: image["file_name"] for image in content["images"]}
            split = next((split for split in SPLITS if split in path.name), None)
            for note in content["annotations"]:
                if note["image_id"] in names:
                    yield names[note["image_id"]], note["caption"], split
            return
        for image in content["images"]:
            name = "/".join(filter(None, (image.get("filepath"), image["filename"])))
            split = image.get("split")
            for sentence in image["sentences"]:
                raw = str(sentence["raw"]) if "raw" in sentence else " ".join(sentence["tokens"])
                yield name, raw, RENAMED.get(split, split)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"{path} is neither Karpathy's JSON nor COCO's: {error!r}") from error
