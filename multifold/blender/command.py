"""Make the add-on for Blender: a search box in the sidebar, and the hit in the scene.

    multifold blender --zip multifold-blender.zip
    multifold blender --install --url http://127.0.0.1:8000

--install calls Blender, which then keeps the add-on and the address of the service in its preferences.
A zip file is installed by hand: Edit > Preferences > Add-ons > Install.
"""

import argparse
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from multifold.errors import MultifoldError

ADDON = "multifold_search"  # not `multifold`: an environment of Blender's may have that package
FILES = ("__init__.py", "connection.py", "panel.py")
INSTALL = f"""
import sys
import bpy
path, url = sys.argv[sys.argv.index("--") + 1:]
bpy.ops.preferences.addon_install(filepath=path, overwrite=True)
bpy.ops.preferences.addon_enable(module="{ADDON}")
bpy.context.preferences.addons["{ADDON}"].preferences.url = url
bpy.ops.wm.save_userpref()
"""


class BlenderError(MultifoldError):
    """Blender is not there, or it refuses the add-on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--zip", type=Path, metavar="FILE", help="write the add-on to a zip file")
    what.add_argument("--install", action="store_true", help="install it in the Blender of this user")
    parser.add_argument("--blender", default="blender", metavar="PROGRAM", help="default: %(default)s")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the service (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    if args.zip is not None:
        write_addon(args.zip)
        print(f"{args.zip}: install it in Blender under Edit > Preferences > Add-ons > Install")
        return 0
    program = shutil.which(args.blender)
    if program is None:
        raise BlenderError(f"there is no program {args.blender!r}; name Blender's with --blender")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{ADDON}.zip"
        write_addon(path)
        command = [program, "--background", "--python-exit-code", "1", "--python-expr", INSTALL]
        done = subprocess.run(  # noqa: S603 (the program that the user names)
            [*command, "--", str(path), args.url], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise BlenderError(f"Blender refuses the add-on: {(done.stdout + done.stderr).strip()[-500:]}")
    print("installed: press N in a 3D view of Blender, and choose the tab Multifold")
    return 0


def write_addon(path: Path) -> None:
    """The add-on as a zip file, as Blender installs it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            archive.write(Path(__file__).with_name(name), f"{ADDON}/{name}")
