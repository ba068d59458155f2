"""Train an encoder by a recipe.

    multifold train demo --out runs/demo
    multifold train my.toml --set train.rate=1e-4 loss.name=mfh
    multifold train --show demo
    multifold train --list

What is rendered and generated on the way is kept in --cache and used again.
"""

import argparse
from pathlib import Path

from training import cookbook, loop, prepare, start
from training.recipe import Recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("recipe", nargs="?", help="a recipe's file, or the name of one of ours")
    parser.add_argument("--list", action="store_true", help="name our recipes, and train nothing")
    parser.add_argument("--show", action="store_true", help="print the recipe in full, and train nothing")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes", help="changes"
    )
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/NAME)")
    parser.add_argument(
        "--cache", type=Path, default=Path("runs/cache"), help="rendered views and generated sets"
    )


def run(args: argparse.Namespace) -> int:
    """Show what there is, or follow the recipe."""
    if args.list or args.recipe is None:
        print(listing())
        return 0 if args.list else 2
    followed = cookbook.load(args.recipe, args.changes)
    if args.show:
        print(cookbook.toml(followed), end="")
        return 0
    return follow(followed, args.out or Path("runs") / followed.name, args.cache)


def follow(followed: Recipe, out: Path, cache: Path) -> int:
    """Prepare the data, train, say where the checkpoint lies."""
    out.mkdir(parents=True, exist_ok=True)
    items = prepare.entries(followed, cache, followed.data.train_split)
    texts = [text for entry in items for text in entry.texts]
    print(f"{followed.name}: {len(items)} items, {len(texts)} texts to learn from")
    tokenizer = start.tokenizer(followed, texts)
    groups = prepare.groups(followed, items, tokenizer, cache)
    print(f"training for {followed.train.steps} steps of {followed.train.items} items")
    path = loop.train(followed, groups, tokenizer, out)
    print(f"checkpoint: {path}\nnext: multifold export {path} BUNDLE")
    return 0


def listing() -> str:
    """Our recipes, each with what it says about itself."""
    names = cookbook.shipped()
    width = max(map(len, names))
    lines = [f"  {name:{width}}  {cookbook.load(name).about}" for name in names]
    return "recipes, for `multifold train NAME`:\n\n" + "\n".join(lines)
