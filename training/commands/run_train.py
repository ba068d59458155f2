"""The work of `multifold train`."""

import argparse
from pathlib import Path

from multifold.errors import MultifoldError, needs_extra

with needs_extra("train"):
    from training import loop
    from training.distributed import join_processes
    from training.recipes import library
    from training.train import RunPlace, train_recipe


def run(args: argparse.Namespace) -> int:
    if args.list or args.recipe is None:
        print(library.list_recipes())
        return 0 if args.list else 2
    recipe = library.load_recipe(args.recipe, args.changes)
    if args.show:
        print(library.to_toml(recipe), end="")
        return 0
    out = args.out or Path("runs") / recipe.name
    out.mkdir(parents=True, exist_ok=True)
    unfinished = (out / loop.LAST).exists()
    if unfinished and not args.resume:
        last = out / loop.LAST
        raise MultifoldError(f"{out} has an unfinished run: continue it with --resume, or remove {last}")
    if args.resume and not unfinished and (out / loop.DONE).exists():
        print(f"already finished: {out / loop.DONE}")
        return 0
    with join_processes(args.device) as (ranks, device):
        place = RunPlace(out, args.cache, device, ranks)
        path = train_recipe(recipe, place, resume=unfinished, strict=args.strict)
        ranks.say(f"checkpoint: {path}\nnext: multifold export {path} BUNDLE")
    return 0
