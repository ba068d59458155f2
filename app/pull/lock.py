"""The commits that were pulled, so that the same command brings the same files again.

The lock lies beside the bundles. An encoder whose commit the list leaves open is locked at its first pull.
"""

import json
from pathlib import Path

from app.pull.published_files import PullError
from multifold.durable import replace_file

LOCK_FILE = "encoders.lock"


def locked_commit(folder: Path, repository: str) -> str | None:
    """The commit that was pulled into a folder of bundles before."""
    return _read(folder / LOCK_FILE).get(repository)


def check_commit(folder: Path, repository: str, commit: str) -> None:
    """Refuse another commit than the one that was pulled before."""
    locked = locked_commit(folder, repository)
    if locked not in (None, commit):
        choice = f"--revision {locked} pulls the former files, --revision {commit} takes the new ones"
        raise PullError(f"{repository} is at {commit} now, and was pulled at {locked} before: {choice}")


def lock_commit(folder: Path, repository: str, commit: str) -> None:
    """Keep the commit of a pull."""
    commits = _read(folder / LOCK_FILE) | {repository: commit}
    with replace_file(folder / LOCK_FILE) as out:
        out.write((json.dumps(commits, indent=2, sort_keys=True) + "\n").encode())


def _read(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        commits = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        commits = None
    if not isinstance(commits, dict) or not all(isinstance(one, str) for one in commits.values()):
        raise PullError(f"{path} is damaged; remove it, and pull again")
    return commits
