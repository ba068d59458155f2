"""A table of products as a manifest: products.py products.csv > products.jsonl

Each row becomes an item: its title is a caption, its photo lies beside the table, and the other columns are
its payload, by which a search can be filtered.
"""

import csv
import json
import sys
from pathlib import Path


def entry(row: dict[str, str], folder: Path) -> dict[str, object]:
    payload: dict[str, object] = {"colour": row["colour"], "price": float(row["price"])}
    photo = (folder / row["photo"]).resolve()
    return {"id": row["sku"], "texts": [row["title"]], "images": [str(photo)], "meta": payload}


if __name__ == "__main__":
    table = Path(sys.argv[1])
    with table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            print(json.dumps(entry(row, table.parent)))
