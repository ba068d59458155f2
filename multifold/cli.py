"""`multifold COMMAND`: finds commands by entry point, and imports only the one that is named.

Where the work imports much, the command's module only describes it, and `WORK` names the module that runs it.
An option may name another one, as `work`.
"""

import argparse
import ast
import gc
import importlib
import importlib.util
import os
import select
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points, version
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType

from multifold.errors import MultifoldError

GROUP = "multifold.commands"
HEADINGS = {  # of the commands, as the help shows them
    "Search your own things": ("serve", "ingest", "pull", "index", "keys", "feedback"),
    "From other programs": ("mcp", "blender", "render"),
    "Make an encoder": (
        *("data", "train", "train-on-feedback", "train-reader"),
        *("export", "add-captions", "encode"),
    ),
    "Look closer": ("eval", "explain", "generalise", "reproduce", "bench"),
}
RENAMED = {  # other names of commands
    "equip": "add-captions",
    "features": "encode",
    "improve": "train-on-feedback",
    "reader": "train-reader",
    "traverse": "generalise",
}


class MissingPackageError(MultifoldError):
    """A command whose package is not in the wheel."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; mistakes that a user can mend become one line on stderr."""
    # Pillow's, of large pictures, which we refuse or shrink in our own words
    warnings.filterwarnings("ignore", r"Image size \(", RuntimeWarning)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a line appears when it is written, in a pipe as well
    try:
        return _answer(list(sys.argv[1:] if arguments is None else arguments))
    except MultifoldError as error:
        print(f"multifold: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("multifold: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        if _is_read():
            raise
        return 141
    except OSError as error:
        if error.filename is None:
            raise
        print(f"multifold: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    finally:
        gc.unfreeze()  # else extensions tell of leaks when the process ends


def at_least_one(text: str) -> int:
    """The number of an option that makes no sense below 1."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def _answer(words: Sequence[str]) -> int:
    """Help, the version, or a command's work."""
    commands = {RENAMED.get(point.name, point.name): point for point in sorted(entry_points(group=GROUP))}
    if not words or words[0] in ("-h", "--help"):
        print(f"usage: multifold COMMAND [-h] …\n{_list_commands(commands)}")
        return 0
    if words[0] == "--version":
        print(f"multifold {version('multifold')}")
        return 0
    return run_command(commands, [RENAMED.get(words[0], words[0]), *words[1:]])


def _is_read() -> bool:
    """Whether our output is still read; if not, as after `| head`, what is left of it goes nowhere."""
    try:
        out = sys.stdout.fileno()
    except OSError:  # no file
        return True
    watch = select.poll()
    watch.register(out, 0)  # for the end of the reader alone
    if not watch.poll(0):
        return True
    os.dup2(os.open(os.devnull, os.O_WRONLY), out)
    return False


def run_command(
    commands: dict[str, EntryPoint], words: list[str], kind: str = "command", prefix: str = "multifold"
) -> int:
    """Run the module that the first word names; it parses the others."""
    if words[0] not in commands:
        raise MultifoldError(f"no {kind} {words[0]!r}; there are: {', '.join(commands)}")
    module = _load(commands[words[0]])
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        f"{prefix} {words[0]}", description=module.__doc__, formatter_class=plain
    )
    module.add_arguments(parser)
    parser.set_defaults(work=getattr(module, "WORK", module.__name__))
    args = parser.parse_args(words[1:])
    work = _import(vars(args).pop("work"))  # the others are the command's own
    status: int = work.run(args)
    return status


def _list_commands(commands: Mapping[str, EntryPoint]) -> str:
    """What each command does, below the headings; those without one come last."""
    known = {name for names in HEADINGS.values() for name in names}
    groups = {**HEADINGS, "Others": [name for name in commands if name not in known]}
    width = max(map(len, commands), default=0)
    lines: list[str] = []
    for heading, names in groups.items():
        there = [f"  {name:{width}}  {summary_of(commands[name])}" for name in names if name in commands]
        lines += ["", f"{heading}:", *there] if there else []
    return "\n".join(lines)


def _import(name: str) -> ModuleType:
    """Import a module. Most of its objects stay for good, so they are not looked through for garbage."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def _load(point: EntryPoint) -> ModuleType:
    package = point.module.split(".")[0]
    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(
            f"`multifold {point.name}` needs the package '{package}', which is not in the wheel; "
            "run it from a clone."
        )
    return _import(point.module)


def summary_of(point: EntryPoint) -> str:
    """The first line of a command's docstring, read without importing it."""
    package, *inner = point.module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return f"(needs the package '{package}', which is not in the wheel)"
    module = Path(spec.origin).parent.joinpath(*inner)
    source = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    if not source.is_file():
        return "(not in this version)"
    return (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").split("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
