"""Files to try the examples with, made of generated furniture: furniture_shop.py stl|products|photos FOLDER

stl: meshes without colours, as a printer takes them. products: photos and a table `products.csv`. photos:
photos with captions in `captions.csv`. Your own files take their place.
"""

import csv
import json
import sys
from pathlib import Path

import trimesh

from multifold.cli import main

ITEMS = 24


def make(form: str, folder: Path) -> None:
    main(["data", "furniture", "--items", str(ITEMS), "--seed", "44", str(folder / "furniture")])
    manifest = (folder / "furniture" / "manifest.jsonl").read_text(encoding="utf-8")
    pieces = [json.loads(line) for line in manifest.splitlines()]
    if form == "stl":
        for number, piece in enumerate(pieces):
            mesh = trimesh.load(folder / "furniture" / piece["mesh"], force="mesh")
            mesh.apply_transform([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])  # Z is up in STL
            mesh.export(folder / f"part-{number:02}.stl")
        return
    main(["render", str(folder / "furniture" / "meshes"), "--out", str(folder / "views")])
    table, fields = ("products.csv", ["sku", "title", "colour", "price", "photo"])
    if form == "photos":
        table, fields = "captions.csv", ["file", "caption"]
    with (folder / table).open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, fields)
        rows.writeheader()
        for number, piece in enumerate(pieces):
            photo = folder / f"{number:02}.webp"
            (folder / "views" / f"{piece['id']}.glb" / "00.webp").rename(photo)
            about, title = piece["meta"], piece["texts"][0]
            product = {"sku": f"F-{number:02}", "title": title, "colour": about["colour"]}
            product |= {"price": 20 + 10 * number, "photo": photo.name}
            captions = [{"file": photo.name, "caption": text} for text in piece["texts"]]
            rows.writerows([product] if form == "products" else captions)


if __name__ == "__main__":
    Path(sys.argv[2]).mkdir(parents=True)
    make(sys.argv[1], Path(sys.argv[2]))
