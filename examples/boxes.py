"""Boxes whose captions name no colour, and users who look for colours: boxes.py make FOLDER, boxes.py judge

What the captions do not say, the encoder can learn from the verdicts alone.
"""

import os
import sys
import time
from pathlib import Path

from multifold.client import Client, Search

COLOURS = {"red": "1 0 0", "green": "0 1 0", "blue": "0 0 1", "white": "1 1 1"}
HEIGHTS = {"small": 0.5, "large": 2.0, "flat": 0.1}
WAYS = ("i want something {}", "{}, please", "the {} one", "do you have it in {}?", "show me {}")
CORNERS = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]
FACES = ("1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4")


def write(path: Path, height: float, colour: str, texts: str, split: str) -> None:
    corners = [f"v {x} {y * height} {z} {colour}" for x, y, z in CORNERS]
    path.write_text("\n".join([*corners, *(f"f {face}" for face in FACES)]), encoding="utf-8")
    path.with_suffix(".json").write_text(f'{{"texts": [{texts}], "split": "{split}"}}', encoding="utf-8")


def make(folder: Path) -> None:
    folder.mkdir(parents=True)
    for place in ("left", "right"):
        for size, height in HEIGHTS.items():
            for name, colour in COLOURS.items():
                texts = f'"a {size} box", "{size}, at the {place}"'
                write(folder / f"{place}-{size}-{name}.obj", height, colour, texts, "train")
    for split in ("val", "test"):
        write(folder / f"{split}.obj", 1.0, "1 1 0", f'"a {split} box"', split)


def judge(client: Client) -> None:
    while not client.ready():
        time.sleep(0.5)
    boxes = sorted(item.id for item in client.items() if "-" in item.id)
    for number, box in enumerate(boxes):
        colour = box.rpartition("-")[2]
        other = next(one for one in boxes if colour not in one)
        for way in WAYS:
            query = Search(text=f"{way.format(colour)} ({number})")
            client.judge(query, box, "good", by=f"user {number}")
            client.judge(query, other, "bad", by=f"user {number}")
    print(len(list(client.judgements())), "verdicts")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        with Client(os.environ.get("MULTIFOLD_URL", "http://127.0.0.1:8000")) as service:
            judge(service)
