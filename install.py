"""Install packages into a virtual environment, in the versions of requirements.lock.

    install.py .venv '.[cpu,serve,render]' pip
    install.py --lock cpu,serve,render,dev        write requirements.lock anew

uv installs: that of PATH, or else one that pip puts into the environment's folder. Where it cannot be had,
pip installs. What is configured for pip (indexes, links, certificates, proxy, time limit) is passed on to uv,
which reads none of it; variables of uv itself (UV_*) come first. Needs Python alone.
"""

from __future__ import annotations

import argparse
import ast
import os
import queue
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

LOCK = Path(__file__).resolve().with_name("requirements.lock")
OLDEST_UV = (0, 8)
OLDEST_PYTHON = (3, 11)
# What builds and installs, locked beside what the extras name.
TOOLS = ("editables", "hatchling", "pip", "uv")
# Pinned by torch as by faiss and ONNX Runtime for GPUs, which disagree; the lock has torch's.
OF_NVIDIA = re.compile(r"nvidia-|cuda-|triton|libcuvs")
QUIET_SECONDS = 5.0  # without a line; then one says what is being waited for
# Sections of pip's configuration, the last of which wins.
SECTIONS = ("global", "install", ":env:")


class InstallError(Exception):
    """A sentence for the user."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "environment", type=Path, nargs="?", help="folder of the virtual environment; made if there is none"
    )
    parser.add_argument(
        "requirements", nargs="*", help="as pip takes them; one that begins with a dot is editable"
    )
    parser.add_argument("--lock", metavar="EXTRAS", help="write the lock of these extras instead")
    parser.add_argument(
        "--uv", type=Path, metavar="FOLDER", help="where pip puts uv (default: uv in the environment)"
    )
    args = parser.parse_args(words)
    if sys.version_info < OLDEST_PYTHON:
        print(
            f"error: this is Python {sys.version.split()[0]}; 3.11 is needed: make PYTHON=python3.11 …",
            file=sys.stderr,
        )
        return 1
    try:
        if args.lock is not None:
            with tempfile.TemporaryDirectory() as folder:
                write_lock(args.lock.split(","), Path(folder))
        else:
            install(args.environment, args.requirements, args.uv or args.environment / "uv")
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def install(environment: Path, requirements: list[str], uv_folder: Path) -> None:
    """Whoever ends this in the middle leaves a mark, and the next time every package is written again."""
    make_environment(environment)
    unfinished = environment / ".unfinished"
    again = unfinished.exists()
    unfinished.touch()
    for_gpus = any(re.search(r"[\[,]gpu[\],]", one) for one in requirements)
    locked = chosen(LOCK.read_text(encoding="utf-8"), for_gpus)
    words = [word for one in requirements for word in (["--editable"] if one[0] == "." else []) + [one]]
    uv, why = None, "INSTALLER=pip"
    if os.environ.get("INSTALLER") != "pip":
        uv, why = find_uv(environment, uv_folder)
    lock = environment / "requirements.lock"
    if uv is not None:
        lock.write_text(locked, encoding="utf-8")
        command = [uv, "pip", "install", "--python", str(environment / "bin" / "python")]
        command += ["--constraints", str(lock), "--build-constraints", str(lock)]
        command += ["--reinstall"] if again else []
        status, said = follow([*command, *words], os.environ | uv_settings(pip_settings(), os.environ))
    else:
        print(f"pip installs, which takes minutes and checks no hashes: {why}", flush=True)
        lock.write_text(versions(locked), encoding="utf-8")
        command = [*pip_into(environment), "install", "--progress-bar", "off", "--constraint", str(lock)]
        command += ["--force-reinstall"] if again else []
        status, said = follow([*command, *words], os.environ)
    if status:
        sys.stderr.writelines(said[-100:])
        raise InstallError(
            "this could not be installed, see above" + ("; INSTALLER=pip lets pip try" if uv else "")
        )
    unfinished.unlink()


def make_environment(environment: Path) -> None:
    """An environment without pip, which takes three seconds less; what wants it asks for it."""
    if not (environment / "pyvenv.cfg").exists() or not (environment / "bin" / "python").exists():
        print(f"making {environment} with Python {sys.version.split()[0]}", flush=True)
        if _run([sys.executable, "-m", "venv", "--without-pip", str(environment)]).returncode:
            raise InstallError(
                f"{sys.executable} -m venv does not work; on Debian: apt-get install python3-venv"
            )


def pip_into(environment: Path) -> list[str]:
    """The command of a pip that installs into an environment: that of this Python, or else one of its own."""
    python = str(environment / "bin" / "python")
    ours = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    if _works([*ours, "--version"]):
        return ours
    own = [python, "-m", "pip", "--disable-pip-version-check"]
    if not _works([*own, "--version"]):
        _run([python, "-m", "ensurepip", "--default-pip"])
    return own


def find_uv(environment: Path, folder: Path) -> tuple[str | None, str]:
    """The uv that installs, or None and why there is none."""
    for path in (shutil.which("uv"), environment / "bin" / "uv", folder / "bin" / "uv"):
        if path is not None and _version(str(path)) >= OLDEST_UV:
            return str(path), ""
    with tempfile.TemporaryDirectory() as place:
        wanted = Path(place) / "uv.txt"
        wanted.write_text(lines_of("uv", LOCK.read_text(encoding="utf-8")), encoding="utf-8")
        arguments = [
            "install",
            "--progress-bar",
            "off",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
        ]
        arguments += ["--upgrade", "--target", str(folder), "--requirement", str(wanted)]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        if find_spec("pip") is None:
            pip = pip_into(environment)
        print("getting uv, which installs the rest", flush=True)
        status, said = follow([*pip, *arguments], os.environ)
    if status == 0 and _version(str(folder / "bin" / "uv")) >= OLDEST_UV:
        return str(folder / "bin" / "uv"), ""
    errors = [line.strip() for line in said if line.startswith("ERROR")]
    return None, f"uv cannot be had ({errors[-1] if errors else 'it does not run here'})"


def _version(uv: str) -> tuple[int, ...]:
    """The version of a program, and (0,) if it does not run."""
    try:
        said = _run([uv, "--version"]).stdout
    except OSError:
        return (0,)
    found = re.search(r"(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0,)


def _works(command: list[str]) -> bool:
    return _run(command).returncode == 0


def _run(command: list[str], environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)  # noqa: S603 (no shell)


def entries(lock: str) -> Iterator[tuple[str, str]]:
    """Each package of a lock, with its lines: a version and its hashes."""
    for block in re.findall(r"^[^\s#].*(?:\n\s+--hash.*)*\n", lock, re.MULTILINE):
        yield re.split(r"[=\s]", block, maxsplit=1)[0], block


def lines_of(package: str, lock: str) -> str:
    return "".join(block for name, block in entries(lock) if name == package)


def chosen(lock: str, for_gpus: bool) -> str:
    """A lock as an environment needs it."""
    return "".join(block for name, block in entries(lock) if not (for_gpus and OF_NVIDIA.match(name)))


def versions(lock: str) -> str:
    """A lock without hashes: pip refuses an editable package beside them."""
    return "".join(block.partition("\n")[0].rstrip(" \\") + "\n" for _, block in entries(lock))


def pip_settings() -> dict[str, str]:
    """What is configured for pip, by files and by PIP_*; nothing where there is no pip."""
    return read_settings(_run([sys.executable, "-m", "pip", "config", "list"]).stdout.splitlines())


def read_settings(lines: Iterable[str]) -> dict[str, str]:
    """The lines of `pip config list`, as one table."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for line in lines:
        section, dot, rest = line.partition(".")
        name, equals, value = rest.partition("=")
        if dot and equals and section in found:
            found[section][name] = str(ast.literal_eval(value))
    return {name: value for section in SECTIONS for name, value in found[section].items()}


def uv_settings(
    pip: Mapping[str, str], environ: Mapping[str, str], *, for_lock: bool = False
) -> dict[str, str]:
    """The same for uv, as variables; those that are set stay. A lock is made from the first index alone,
    since others often have some files of a version only."""
    settings = dict[str, str]()
    if "index-url" in pip:
        settings["UV_DEFAULT_INDEX"] = pip["index-url"]
    more = [url for url in pip.get("extra-index-url", "").split() if _is_there(url)]
    if more and not for_lock:
        settings["UV_INDEX"] = " ".join(more)
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip does it: the best version of all indexes
    links = [place for place in pip.get("find-links", "").split() if _is_there(place)]
    if links and not for_lock:
        settings["UV_FIND_LINKS"] = ",".join(links)
    if pip.get("no-index", "").lower() in {"1", "true", "yes", "on"} and not for_lock:
        settings["UV_NO_INDEX"] = "1"
    if "trusted-host" in pip:
        settings["UV_INSECURE_HOST"] = " ".join(pip["trusted-host"].split())
    if "proxy" in pip:
        settings.update(dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), pip["proxy"]))
    if limit := pip.get("timeout", pip.get("default-timeout")):
        settings["UV_HTTP_TIMEOUT"] = limit
    if "client-cert" in pip:
        settings["SSL_CLIENT_CERT"] = pip["client-cert"]
    # Names that requests, and so pip, reads.
    authorities = pip.get("cert") or environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    if authorities:
        settings["SSL_CERT_FILE"] = authorities
    elif "SSL_CERT_FILE" not in environ and ssl.create_default_context().get_ca_certs():
        settings.update(dict.fromkeys(("UV_SYSTEM_CERTS", "UV_NATIVE_TLS"), "true"))
    return {name: value for name, value in settings.items() if name not in environ}


def _is_there(place: str) -> bool:
    """Whether a place may have packages; pip passes over folders that are not there."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path)).exists()
    return len(parts.scheme) > 1 or Path(place).expanduser().exists()


def follow(command: list[str], environ: Mapping[str, str]) -> tuple[int, list[str]]:
    """Run an installer, and say shortly what it does; its status and what it said."""
    with subprocess.Popen(  # noqa: S603 (no shell)
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        lines: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        said = list[str]()
        progress = Progress()
        last = time.monotonic()
        while True:
            shown = None
            try:
                line = lines.get(timeout=max(last + QUIET_SECONDS - time.monotonic(), 0.0))
            except queue.Empty:
                shown = progress.state()
            else:
                if line is None:
                    break
                said.append(line)
                shown = progress.read(line)
            if shown is not None:
                print(f"  {shown}", flush=True)
                last = time.monotonic()
    return process.returncode, said


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    for line in process.stdout or ():
        lines.put(line)
    lines.put(None)


class Progress:
    """What an installer is doing, by its own lines."""

    SIZED = re.compile(r"^\s*(Downloading|Using cached|Processing) (\S+)(?: \(([^)]*)\))?")
    DONE = re.compile(r"^\s*Downloaded (\S+)")
    WRITTEN = re.compile(r"^(Resolved|Prepared|Installed) (\d+) packages?")
    PIP_WRITES = re.compile(r"^Installing collected packages: (.*)")

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._waiting = dict[str, None]()  # in order
        self._step = "asking the package index for versions"
        self._count = 0

    def read(self, line: str) -> str | None:
        """What is to be shown of a line."""
        if found := self.SIZED.match(line):
            name, size = re.split(r"-\d", found[2].rpartition("/")[2])[0], found[3]
            if not found[2].endswith((".whl", ".gz")):  # uv's, which says when it has come, too
                self._waiting[name] = None
            elif found[1] != "Downloading" and not size:
                return None
            self._count += 1
            return f"{self._count:3}  {name}" + (f" ({size})" if size else "")
        if found := self.DONE.match(line):
            self._waiting.pop(found[1], None)
        elif found := self.PIP_WRITES.match(line):
            self._step = f"writing {found[1].count(',') + 1} packages"
            return self._step
        elif found := self.WRITTEN.match(line):
            steps = {"Resolved": "fetching", "Prepared": "writing", "Installed": "finishing"}
            self._step = f"{steps[found[1]]} packages"
            return f"{found[1].lower()} {found[2]} packages ({time.monotonic() - self._started:.1f} s)"
        elif line.startswith(("warning", "WARNING")) and "is ignored" not in line:
            return line.rstrip()
        return None

    def state(self) -> str:
        """What is being waited for."""
        what = f"waiting for {', '.join(self._waiting)}" if self._waiting else self._step
        return f"{time.monotonic() - self._started:.0f} s: {what}"


def write_lock(extras: list[str], folder: Path) -> None:
    """All packages of these extras, for all platforms and Python versions, with the hashes of their files."""
    make_environment(folder / "venv")
    uv, why = find_uv(folder / "venv", folder / "uv")
    if uv is None:
        raise InstallError(f"the lock is made by uv, but {why}")
    tools = folder / "tools.in"
    tools.write_text("\n".join(TOOLS), encoding="utf-8")
    command = [uv, "pip", "compile", str(LOCK.with_name("pyproject.toml")), str(tools)]
    command += [word for extra in extras for word in ("--extra", extra)]
    command += [
        "--universal",
        "--python-version",
        "{}.{}".format(*OLDEST_PYTHON),
        "--upgrade",
        "--generate-hashes",
    ]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--quiet", "--output-file", str(LOCK)]
    settings = uv_settings(pip_settings(), os.environ, for_lock=True)
    said = _run(command, {**os.environ, **settings})
    if said.returncode:
        raise InstallError(f"uv could not make the lock: {said.stderr}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
