"""The work of `multifold train`."""

import argparse
from pathlib import Path

from multifold.errors import MultifoldError, needs_extra

with needs_extra("train"):
    from training import loop
    from training.distributed import join_processes
    from training.export.own import learn_own, own_manifest
    from training.recipes import library
    from training.train import RunPlace, train_recipe


def run(args: argparse.Namespace) -> int:
    if args.list or args.recipe is None:
        print(library.list_recipes())
        return 0 if args.list else 2
    changes = [*args.changes]
    if args.manifest is not None and not args.show:
        out = args.out or Path("runs") / Path(args.recipe).stem
        out.mkdir(parents=True, exist_ok=True)
        changes.append(f"data.manifest={own_manifest(args.manifest, out)}")
    recipe = library.load_recipe(args.recipe, changes)
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
        if recipe.heads is not None:
            bundle = learn_own(recipe, place)
            print(f"bundle {bundle.bundle_id} (vectors {bundle.vector_id}) in {bundle.folder}")
            print(f"next: multifold ingest MANIFEST --data DATA --bundle {bundle.folder}")
            return 0
        path = train_recipe(recipe, place, resume=unfinished, strict=args.strict)
        ranks.say(f"checkpoint: {path}\nnext: multifold export {path} BUNDLE")
    return 0
