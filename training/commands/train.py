"""Train an encoder by a recipe.

    multifold train demo --out runs/demo
    multifold train my.toml --set train.rate=1e-4 loss.name=mfh
    multifold train --show demo
    multifold train --list
    multifold train demo --out runs/demo --resume
    torchrun --nproc-per-node 2 -m multifold train demo --out runs/demo

Under torchrun the processes share each batch, and the run is that of one process with the same batch.
What is rendered and generated on the way is kept in --cache and used again.
"""

import argparse
from pathlib import Path

from multifold.errors import MultifoldError
from training import checkpoint, loop, prepare, validation
from training.distributed import ProcessRank, join_processes
from training.recipes import library
from training.recipes.schema import Recipe, with_steps_for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("recipe", nargs="?", help="a recipe's file, or the name of one of ours")
    parser.add_argument("--list", action="store_true", help="name our recipes, and train nothing")
    parser.add_argument("--show", action="store_true", help="print the recipe in full, and train nothing")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="changes", help="changes"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the run that lies in --out")
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 (default: a GPU if there is one)")
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/NAME)")
    parser.add_argument(
        "--cache", type=Path, default=Path("runs/cache"), help="rendered views and generated sets"
    )


def run(args: argparse.Namespace) -> int:
    """Show what there is, or follow the recipe."""
    if args.list or args.recipe is None:
        print(list_recipes())
        return 0 if args.list else 2
    followed = library.load_recipe(args.recipe, args.changes)
    if args.show:
        print(library.to_toml(followed), end="")
        return 0
    out = args.out or Path("runs") / followed.name
    out.mkdir(parents=True, exist_ok=True)
    unfinished = (out / loop.LAST).exists()
    if unfinished and not args.resume:
        raise MultifoldError(
            f"an unfinished run lies in {out}: go on with --resume, or remove {out / loop.LAST}"
        )
    if args.resume and not unfinished and (out / loop.DONE).exists():
        print(f"finished before: {out / loop.DONE}")
        return 0
    with join_processes(args.device) as (ranks, device):
        path = train_recipe(followed, out, args.cache, unfinished, device, ranks)
        if ranks.is_first:
            print(f"checkpoint: {path}\nnext: multifold export {path} BUNDLE")
    return 0


def train_recipe(
    recipe: Recipe, out: Path, cache: Path, resume: bool, device: str, ranks: ProcessRank
) -> Path:
    """Prepare the data and train; the path of the checkpoint."""
    with ranks.first_alone():
        items = prepare.entries(recipe, cache, recipe.data.train_split)
        recipe = with_steps_for(recipe, len(items))
        texts = [text for entry in items for text in entry.texts]
        kept = checkpoint.read_checkpoint(out / loop.LAST) if resume else None
        tokenizer = checkpoint.starting_tokenizer(recipe, texts) if kept is None else kept.tokenizer
        if ranks.is_first:
            print(f"{recipe.name}: {len(items)} items, {len(texts)} texts to learn from")
        groups = prepare.groups(recipe, items, tokenizer, cache)
        held_out = validation.load_validation_set(recipe, tokenizer, cache) if ranks.is_first else None
    done = 0 if kept is None or kept.run is None else kept.run["step"]
    if ranks.is_first:
        shared = f", shared by {ranks.count} processes" if ranks.count > 1 else ""
        steps = recipe.train.steps - done
        print(f"training for {steps} steps of {recipe.train.items} items on {device}{shared}")
    return loop.train(recipe, groups, tokenizer, out, held_out, resume, device, ranks)


def list_recipes() -> str:
    """Our recipes, each with what it says about itself."""
    names = library.shipped_names()
    width = max(map(len, names))
    lines = [f"  {name:{width}}  {library.load_recipe(name).about}" for name in names]
    return "recipes, for `multifold train NAME`:\n\n" + "\n".join(lines)
