"""A PostgreSQL server of our own, in a temporary folder, as a user without rights."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.waiting import PATIENCE, until

# To run as another user is to fork. Where gRPC was at work before, two forks in a hundred crash there.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
BACKENDS = text("SELECT count(*) FROM pg_stat_activity WHERE usename = 'us' AND datname = current_database()")


def binaries() -> Path:
    """Where the server's programs are; skips where there are none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = found[-1] if found else shutil.which("initdb")
    if path is None:
        pytest.skip("no PostgreSQL server here: install the package postgresql")
    return Path(path).parent


class Server:
    """Listens on a socket in its folder. Every collection gets a schema of its own."""

    def __init__(self) -> None:
        self._binaries = binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="multifold-pg-"))
        self._as: Mapping[str, Any] = {}
        if os.getuid() == 0:  # the server refuses to run as root
            user = pwd.getpwnam("nobody")
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        make = ["initdb", "-D", "data", "-U", "us", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        self._run(make)
        self._count = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        more = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}", "-c", "fsync=off"]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", "data", *more],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self._as,
            )
        until(self._answers, what="PostgreSQL to start")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        ready = subprocess.run([self._binaries / "pg_isready", "-q", "-h", self.folder], check=False)
        return ready.returncode == 0

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End it at once: what was not durable is lost."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(PATIENCE)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def place(self) -> str:
        """The address of a new, empty schema."""
        self._count += 1
        name = f"shop_{self._count}"
        self.query(f"CREATE SCHEMA {name}")
        return f"postgresql://us@/postgres?host={self.folder}&options=-csearch_path%3D{name}"

    def query(self, statement: str) -> str:
        """What psql answers, through a connection of its own."""
        reach = ["-h", str(self.folder), "-U", "us", "-d", "postgres"]
        return self._run(["psql", "-q", "-A", "-t", *reach, "-c", statement])

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            [self._binaries / command[0], *command[1:]],
            cwd=self.folder,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            **self._as,
        )
        return str(done.stdout)
