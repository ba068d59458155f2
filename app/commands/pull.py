"""Make a bundle from published ONNX encoders, without torch: CLIP and SigLIP families, many languages.

    multifold pull packaged
    multifold pull --list
    multifold pull siglip2-b16-small bundles/siglip2
    multifold pull OWNER/REPOSITORY bundles/mine --variant fp16 --revision COMMIT
    multifold pull clip-b32 bundles/clip --from downloads/clip-vit-base-patch32
    multifold pull nllb-base --language cs
    multifold pull --for photos --language cs
    multifold pull potion-base-8M bundles/clip
    multifold pull openshape-b32

`packaged` makes bundles/general of packages that are installed, without a hub: a picture classifier and a
sentence encoder.
`--for` pulls two or three encoders, asks each with the captions of your own pictures, and names the best.
A text reader, such as potion-base-8M, becomes a part of the bundle that is named, or a folder of its own.
The weights of a point encoder, such as openshape-b32, are fetched for `multifold export openshape:FILE`.
NAME is one of the list, or a repository of the model hub in the layout of immich or of transformers.js.
A broken download goes on. Files that came whole stay for the next run.
"""

import argparse
from pathlib import Path

from app.pull.published_files import VARIANTS

WORK = "app.commands.run_pull"
PACKAGED = "packaged"  # the bundle that is made of installed packages, without what fetches others
PULLED_BYTES = 8 * 10**9


class ChooseWork(argparse.Action):
    """Takes the name, and the module that makes what it names."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 (argparse asks so)
        namespace: argparse.Namespace,
        values: object,
        option: str | None = None,  # noqa: ARG002
    ) -> None:
        setattr(namespace, self.dest, values)
        if values == PACKAGED:
            namespace.work = "app.pull.general"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", action=ChooseWork, help="of the list, or OWNER/REPOSITORY")
    add("bundle", nargs="?", type=Path, help="its folder (default: NAME in bundles, readers or weights)")
    about = "the encoders, text readers and point encoders that are known"
    add("--list", dest="work", action="store_const", const="app.pull.catalogue", help=about)
    add("--for", dest="own", type=Path, metavar="FOLDER", help="compare on captioned pictures")
    add("--candidates", metavar="NAMES", help="with --for: which encoders, separated by commas")
    add("--language", help="of the captions and queries: en, cs … (for --for, and for NLLB)")
    add("--prefixes", metavar="NUMBERS", help="trained lengths of its vectors: 64,128")
    add("--reader", action="store_true", help="OWNER/REPOSITORY is a text reader")
    add("--from", dest="folder", type=Path, metavar="FOLDER", help="files already here: no network")
    add("--variant", choices=VARIANTS, help="of the graphs (default: the list's, else fp32)")
    add("--revision", help="commit, tag or branch (default: the list's, else main)")
    add("--licence", help="of the weights, where the files do not state it")
    add("--rig", default="ring6", help="cameras that draw the views of meshes (default: ring6)")
    add("--hub", metavar="URL", help="address of another hub")
    about = "most that is downloaded, default: %(default)s"
    add("--max-bytes", "--most", dest="most", type=int, default=PULLED_BYTES, metavar="BYTES", help=about)
