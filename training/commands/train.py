"""Train an encoder by a recipe.

    multifold train training/recipes/demo.toml --out runs/demo

What is rendered and generated on the way is kept in --cache and used again.
"""

import argparse
from pathlib import Path

from training import loop, prepare, recipe, start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("recipe", type=Path, help="a recipe, see training/recipes")
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/NAME)")
    parser.add_argument(
        "--cache", type=Path, default=Path("runs/cache"), help="rendered views and generated sets"
    )


def run(args: argparse.Namespace) -> int:
    """Prepare the data, train, say where the checkpoint lies."""
    followed = recipe.load(args.recipe)
    out = args.out or Path("runs") / followed.name
    out.mkdir(parents=True, exist_ok=True)
    items = prepare.entries(followed, args.cache, followed.data.train_split)
    texts = [text for entry in items for text in entry.texts]
    print(f"{followed.name}: {len(items)} items, {len(texts)} texts to learn from")
    tokenizer = start.tokenizer(followed, texts)
    groups = prepare.groups(followed, items, tokenizer, args.cache)
    print(f"training for {followed.train.steps} steps of {followed.train.items} items")
    path = loop.train(followed, groups, tokenizer, out)
    print(f"checkpoint: {path}\nnext: multifold export {path} BUNDLE")
    return 0
