"""Flickr and COCO in every form in which their captions are passed around, known faults included."""

import json
from pathlib import Path

import pytest
from PIL import Image

from multifold import manifest
from multifold.cli import main
from multifold.files.textfile import TextFileError
from multifold.manifest import ManifestEntry
from tests.files import picture_file, put
from training.data.sources import captioned
from training.data.sources.imported import DatasetError

SHARES = (80, 10, 10)
FIVE = [f"caption {number} ." for number in range(5)]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for name in ("1.jpg", "2.jpg", "val2014/3.jpg"):
        put(tmp_path / "images" / name, picture_file(Image.new("RGB", (8, 6)), "JPEG"))
    return tmp_path / "images"


def read(images: Path, name: str, content: str, **lists: Path) -> tuple[dict[str, ManifestEntry], list[str]]:
    path = images.parent / name
    path.write_text(content, encoding="utf-8")
    found = captioned.read_captioned(path, images, SHARES, lists)
    return {entry.id: entry for entry in found.entries}, found.problems


def karpathy(*images: tuple[str, str, list[str]], folder: str | None = None) -> str:
    told = [
        {"filename": name, "split": split, "sentences": [{"raw": text} for text in texts]}
        | ({"filepath": folder} if folder else {})
        for name, split, texts in images
    ]
    return json.dumps({"images": told, "dataset": "x"})


def test_karpathys_json(images: Path) -> None:
    content = karpathy(
        ("1.jpg", "train", FIVE), ("2.jpg", "test", [*FIVE[:2], FIVE[0]]), ("9.jpg", "val", FIVE)
    )
    found, problems = read(images, "dataset_flickr30k.json", content)
    assert (found["1"].split, found["1"].texts) == ("train", tuple(FIVE))
    assert found["1"].images == (images / "1.jpg",)
    assert found["2"].split == "test"
    assert found["2"].texts == (*FIVE[:2], FIVE[0])
    assert problems == ["2.jpg has 3 captions, not 5", "left out 9.jpg: its file is missing"]


def test_cocos_rest_of_val_is_train(images: Path) -> None:
    found, problems = read(
        images, "dataset_coco.json", karpathy(("3.jpg", "restval", FIVE), folder="val2014")
    )
    assert found["3"].split == "train"
    assert found["3"].images == (images / "val2014" / "3.jpg",)
    assert problems == []


def test_cocos_own_json(images: Path) -> None:
    told = {
        "images": [{"id": 7, "file_name": "1.jpg"}, {"id": 8, "file_name": "3.jpg"}],
        "annotations": [{"image_id": 7, "caption": text} for text in FIVE]
        + [{"image_id": 8, "caption": " three\n lines "}, {"image_id": 99, "caption": "of nothing"}],
    }
    found, _ = read(images, "captions_val2017.json", json.dumps(told))
    assert found["1"].split == "val"
    assert found["3"].texts == ("three lines",)
    assert len(found) == 2


def test_flickrs_token_file_and_its_lists(images: Path) -> None:
    """Flickr8k names one picture `….jpg.1`, which there is not."""
    lines = [f"1.jpg#{n}\t{text}" for n, text in enumerate(FIVE)] + ["2.jpg.1#0\tlost", "2.jpg#0\tfound"]
    lists = {"train": images.parent / "train.txt"}
    lists["train"].write_text("1.jpg\n9.jpg\n", encoding="utf-8")
    found, problems = read(images, "Flickr8k.token.txt", "\n".join(lines), **lists)
    assert found["1"].texts == tuple(FIVE)
    assert (found["1"].split, found["2"].split) == ("train", None)
    assert "left out 2.jpg.1: its file is missing" in problems


def test_lists_without_suffixes_as_flickr30k_entities_has_them(images: Path) -> None:
    lists = {}
    for split, stem in (("train", "1"), ("test", "2")):
        lists[split] = images.parent / f"{split}.txt"
        lists[split].write_text(f"{stem}\n", encoding="utf-8")
    table = "image,caption\n1.jpg,a dog\n2.jpg,a cat\n3.jpg,a bird\n"
    found, _ = read(images, "captions.csv", table, **lists)
    assert [found[name].split for name in "123"] == ["train", "test", None]


@pytest.mark.parametrize(("content", "fault"), [("9\n", "it begins with '9'"), ("", "it is empty")])
def test_a_list_of_which_nothing_is_known_is_refused(images: Path, content: str, fault: str) -> None:
    lists = {"train": images.parent / "train.txt"}
    lists["train"].write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=f"no photo with captions is in .*train.txt: {fault}"):
        read(images, "captions.csv", "image,caption\n1.jpg,a dog\n", **lists)


def test_the_hubs_table_of_flickr30k(images: Path) -> None:
    header = "raw,sentids,split,filename,img_id"
    cell = json.dumps(FIVE).replace('"', '""')
    found, problems = read(images, "annotations.csv", f'{header}\n"{cell}","[0, 1, 2, 3, 4]",val,1.jpg,0\n')
    assert found["1"].texts == tuple(FIVE)
    assert found["1"].split == "val"
    assert problems == []
    with pytest.raises(
        DatasetError, match="'a dog' in its column raw, where a JSON list of captions belongs"
    ):
        read(images, "annotations.csv", f"{header}\na dog,,val,1.jpg,0\n")


def test_flickrs_table_with_the_row_that_lost_a_bar(images: Path) -> None:
    rows = ["image_name| comment_number| comment"]
    rows += [f"1.jpg| {n}| {text}" for n, text in enumerate(FIVE)]
    rows += ["2.jpg| 4   A dog runs across the grass ."]
    found, _ = read(images, "results.csv", "\n".join(rows))
    assert found["1"].texts == tuple(FIVE)
    assert found["2"].texts == ("A dog runs across the grass .",)


def test_a_table_with_commas(images: Path) -> None:
    rows = ["image,caption", '1.jpg,"a dog, and a cat"', "1.jpg,a dog", "2.jpg,a bird"]
    found, _ = read(images, "captions.txt", "\n".join(rows))
    assert found["1"].texts == ("a dog, and a cat", "a dog")
    assert {entry.split for entry in found.values()} <= {"train", "val", "test"}


def test_commas_need_no_quotes_after_a_file_name(images: Path) -> None:
    """As CLIP_benchmark's files have them: five lines a photo, commas as people write them."""
    texts = [f'a red chair, with {number} legs, "old"' for number in range(5)]
    rows = ["image,caption", *(f"1.jpg,{text}" for text in texts), '2.jpg,"one, two"']
    found, problems = read(images, "flickr30k_test_karpathy.txt", "\n".join(rows))
    assert found["1"].texts == tuple(texts)
    assert found["2"].texts == ("one, two",)
    assert problems == ["2.jpg has 1 captions, not 5"]


def test_commas_that_may_mean_two_things_are_refused_with_their_line(images: Path) -> None:
    for header, row in (("image,caption,split", "1.jpg,red, old,test"), ("image,caption", "1,red, old")):
        with pytest.raises(TextFileError, match=r"captions.txt, line 3, has \d cells for \d columns"):
            read(images, "captions.txt", f"{header}\n1.jpg,fine\n{row}")


def test_a_quote_that_is_never_closed_swallows_no_row(images: Path) -> None:
    table = 'image,caption\n1.jpg,"stop" says the sign\n2.jpg,"stop\n1.jpg,a dog\n2.jpg,a cat\n'
    with pytest.raises(TextFileError, match="line 3: a quote is opened, and not closed in its row"):
        read(images, "captions.csv", table)
    for line in ("lines, one caption", "wood.It, and its legs, are brown"):
        found, _ = read(images, "captions.csv", f'image,caption\n1.jpg,"two\n{line}"\n')
        assert found["1"].texts == (f"two {line}",)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("results.token", "1.jpg#0\ta dog", "1.jpg a lost number"),
        ("results.csv", "1.jpg| 0| a dog", "1.jpg| a lost number"),
    ],
)
def test_a_line_of_another_form_is_told(images: Path, name: str, good: str, bad: str) -> None:
    found, problems = read(images, name, f"{good}\n{bad}\n")
    assert found["1"].texts == ("a dog",)
    assert problems[0] == f"left out a line of {name}, which is of another form than the others: {bad}"


def test_repeated_captions_are_kept_and_counted(images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The published counts have them."""
    path, out = images.parent / "dataset_flickr30k.json", images.parent / "flickr30k.jsonl"
    path.write_text(karpathy(("1.jpg", "train", [FIVE[0]] * 3 + FIVE[1:3])), encoding="utf-8")
    assert main(["data", "flickr30k", str(path), str(images), str(out)]) == 0
    told = capsys.readouterr().out
    assert "train: 1 items, 5 texts" in told
    assert "2 texts repeat another of their item" in told


@pytest.mark.parametrize("content", ["[]", "{}", '{"images": [{"filename": "1.jpg"}]}', "not json"])
def test_other_json_is_refused(images: Path, content: str) -> None:
    with pytest.raises(DatasetError, match=r"is neither Karpathy's JSON nor COCO's"):
        read(images, "x.json", content)


def test_the_command_tells_what_differs_from_the_published_counts(
    images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = images.parent / "dataset_flickr30k.json", images.parent / "flickr30k.jsonl"
    path.write_text(karpathy(("1.jpg", "train", FIVE), ("2.jpg", "test", FIVE)), encoding="utf-8")
    assert main(["data", "flickr30k", str(path), str(images), str(out)]) == 0
    told = capsys.readouterr().out
    assert "train: 1 of the published 29,000 items, 5 of 145,000 texts" in told
    assert "val: 0 of the published 1,014 items" in told
    assert [entry.id for entry in manifest.read(out, "test")] == ["2"]
    path.write_text(karpathy(("9.jpg", "train", FIVE)), encoding="utf-8")
    assert main(["data", "coco", str(path), str(images), str(out)]) == 2
    assert "no item is left to write: left out 9.jpg" in capsys.readouterr().err
