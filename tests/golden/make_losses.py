"""Golden numbers of the losses, by the plain float64 computation alone: python -m tests.golden.make_losses"""

import json
from pathlib import Path

import numpy as np

from tests.training.losses.plain import DIRECTIONS, both

ROWS, COLUMNS = [0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 0, 1, 1, 1, 2, 2]


def main() -> None:
    """Three items with 3, 2 and 4 views and 2, 3 and 2 captions."""
    rng = np.random.default_rng(2022)
    logits, teacher = (rng.normal(size=(len(ROWS), len(COLUMNS))).round(3) * 3 for _ in range(2))
    rows, columns = np.array(ROWS), np.array(COLUMNS)
    losses = {name: both(each, logits, rows, columns, teacher) for name, each in DIRECTIONS.items()}
    content = {"logits": logits.tolist(), "teacher": teacher.tolist(), "rows": ROWS, "columns": COLUMNS}
    text = json.dumps({**content, "losses": losses}, indent=1) + "\n"
    (Path(__file__).parent / "losses.json").write_text(text)


if __name__ == "__main__":
    main()
