"""install.py with real environments, uv and pip, and packages that are made here; and the lock."""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

HOUSE = Path(__file__).resolve().parent.parent
LOCK = (HOUSE / "requirements.lock").read_text(encoding="utf-8")


def loaded() -> ModuleType:
    spec = spec_from_file_location("install", HOUSE / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install = loaded()


class Workshop:
    """A copy of install.py with a lock and packages of its own, and no index beside them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wheels = root / "wheels"
        self.wheels.mkdir()
        self.environment = root / "env"
        (root / "install.py").write_bytes((HOUSE / "install.py").read_bytes())

    def make(self, version: str) -> str:
        """A package `thing`; the hash of its file."""
        info = f"thing-{version}.dist-info"
        files = {
            "thing.py": f"VERSION = {version!r}\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: thing\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        rows = []
        for name, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(text)}")
        files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""])
        path = self.wheels / f"thing-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for name, text in files.items():
                wheel.writestr(name, text)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def lock(self, version: str, digest: str) -> None:
        text = f"thing=={version} \\\n    --hash=sha256:{digest}\n"
        (self.root / "requirements.lock").write_text(text, encoding="utf-8")

    def run(self, *, uv: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """Install `thing`; without uv, none is on PATH or in the index."""
        ours = {
            "PATH": str(Path(sys.executable).parent) if uv else str(self.root / "nowhere"),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": f"{self.wheels} {self.root / 'not-there'}",
            "UV_CACHE_DIR": str(self.root / "cache"),
            "PIP_CONFIG_FILE": os.devnull,
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
        command = [sys.executable, str(self.root / "install.py"), str(self.environment), "thing"]
        return subprocess.run(command, env=kept | ours | more, capture_output=True, text=True, check=False)

    def break_off(self) -> None:
        """As if it had been ended in the middle."""
        self.file.unlink()
        (self.environment / ".unfinished").touch()

    @property
    def file(self) -> Path:
        (found,) = self.environment.glob("lib/python*/site-packages/thing.py")
        return found

    @property
    def unfinished(self) -> bool:
        return (self.environment / ".unfinished").exists()


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def test_the_version_of_the_lock_comes_from_where_pip_looks(workshop: Workshop) -> None:
    workshop.lock("1.0", workshop.make("1.0"))
    workshop.make("2.0")
    done = workshop.run()
    assert done.returncode == 0, done.stderr
    assert "1.0" in workshop.file.read_text()
    assert "pip installs" not in done.stdout
    assert not workshop.unfinished


def test_a_file_with_another_hash_is_refused_and_the_next_run_mends_it(workshop: Workshop) -> None:
    digest = workshop.make("1.0")
    workshop.lock("1.0", digest[::-1])
    refused = workshop.run()
    assert refused.returncode == 1
    assert "ash mismatch" in refused.stderr
    assert workshop.unfinished
    workshop.lock("1.0", digest)
    assert workshop.run().returncode == 0
    assert not workshop.unfinished


def test_what_an_ended_run_has_left_is_written_again(workshop: Workshop) -> None:
    workshop.lock("1.0", workshop.make("1.0"))
    assert workshop.run().returncode == 0
    workshop.break_off()
    done = workshop.run()
    assert done.returncode == 0, done.stderr
    assert workshop.file.exists()


def test_pip_installs_where_uv_cannot_be_had_or_is_not_wanted(workshop: Workshop) -> None:
    workshop.lock("1.0", workshop.make("1.0"))
    workshop.make("2.0")
    done = workshop.run(uv=False)
    assert done.returncode == 0, done.stderr
    assert "pip installs, which takes minutes and checks no hashes: uv cannot be had" in done.stdout
    assert "1.0" in workshop.file.read_text()
    workshop.break_off()
    done = workshop.run(INSTALLER="pip")
    assert done.returncode == 0, done.stderr
    assert "INSTALLER=pip" in done.stdout
    assert workshop.file.exists()


def test_what_pip_is_configured_with_is_read_as_pip_reads_it() -> None:
    lines = [
        ":env:.timeout='99'",
        "global.extra-index-url='https://one/simple\\nhttps://two/simple'",
        "global.timeout='20'",
        "install.find-links='/nowhere'",
        "wheel.timeout='5'",
    ]
    assert install.read_settings(lines) == {
        "extra-index-url": "https://one/simple\nhttps://two/simple",
        "timeout": "99",
        "find-links": "/nowhere",
    }


def test_uv_is_given_what_pip_is_configured_with(tmp_path: Path) -> None:
    pip = {
        "index-url": "https://mirror/simple",
        "extra-index-url": f"https://ours/simple\nfile:///nowhere/simple file://{tmp_path}",
        "find-links": f"{tmp_path} /nowhere",
        "trusted-host": "mirror ours",
        "proxy": "http://proxy:3128",
        "default-timeout": "180",
        "cert": "/etc/ca.pem",
    }
    settings = install.uv_settings(pip, {"HTTP_PROXY": "http://mine"})
    assert settings == {
        "UV_DEFAULT_INDEX": "https://mirror/simple",
        "UV_INDEX": f"https://ours/simple file://{tmp_path}",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": str(tmp_path),
        "UV_INSECURE_HOST": "mirror ours",
        "HTTPS_PROXY": "http://proxy:3128",
        "UV_HTTP_TIMEOUT": "180",
        "SSL_CERT_FILE": "/etc/ca.pem",
    }
    for_lock = install.uv_settings(pip, {}, for_lock=True)
    assert for_lock["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert not {"UV_INDEX", "UV_FIND_LINKS"} & for_lock.keys()


def test_certificates_are_those_that_pip_would_take() -> None:
    assert install.uv_settings({}, {"REQUESTS_CA_BUNDLE": "/ca.pem"})["SSL_CERT_FILE"] == "/ca.pem"
    assert "UV_SYSTEM_CERTS" not in install.uv_settings({}, {"SSL_CERT_FILE": "/ca.pem"})


def test_one_reads_what_is_being_waited_for() -> None:
    progress = install.Progress()
    assert "index" in progress.state()
    assert "resolved 2 packages" in str(progress.read("Resolved 2 packages in 1s\n"))
    assert progress.read("Downloading numpy (16.1MiB)\n") == "  1  numpy (16.1MiB)"
    assert progress.read("Downloading torch (850.2MiB)\n") == "  2  torch (850.2MiB)"
    assert progress.state().endswith("waiting for numpy, torch")
    assert progress.read(" Downloaded numpy\n") is None
    assert progress.state().endswith("waiting for torch")


def test_pips_lines_are_read_too() -> None:
    progress = install.Progress()
    shown = progress.read("  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (16.9 MB)\n")
    assert shown == "  1  numpy (16.9 MB)"
    assert progress.read("Installing collected packages: numpy, tqdm\n") == "writing 2 packages"
    assert progress.state().endswith("writing 2 packages")


def test_an_environment_for_gpus_has_none_of_torchs_pins_of_nvidia() -> None:
    assert install.lines_of("nvidia-cublas", LOCK)
    assert install.chosen(LOCK, for_gpus=False) == LOCK
    left = install.chosen(LOCK, for_gpus=True)
    assert "nvidia-" not in left
    assert install.lines_of("torch", left) == install.lines_of("torch", LOCK)


def test_without_hashes_the_lock_names_the_same_versions() -> None:
    lines = install.versions(LOCK).splitlines()
    assert len(lines) == len(re.findall("^[^ ].*==", LOCK, re.MULTILINE))
    assert all("==" in line and "\\" not in line and "--hash" not in line for line in lines)


def test_each_package_of_the_lock_has_hashes_and_no_address() -> None:
    blocks = dict(install.entries(LOCK))
    assert {"numpy", "uv", "pip", "hatchling"} <= blocks.keys()
    assert [name for name, block in blocks.items() if "--hash=sha256:" not in block] == []
    assert "://" not in LOCK


def test_the_lock_has_what_the_extras_of_the_makefile_name() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    database = subprocess.run(
        ["make", "--question", "--print-data-base", "help"],
        cwd=HOUSE, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    variables = dict(re.findall(r"^(\w+) := (.*)$", database, re.MULTILINE))
    serving = variables["SERVING"].split(",")
    extras = variables["TESTING"].replace("$(SERVING)", variables["SERVING"])
    extras = extras.replace("$(READERS)", variables["READERS"]).split(",")
    assert set(serving) < set(extras) <= project["optional-dependencies"].keys()
    wanted = [one for extra in extras for one in project["optional-dependencies"][extra]]
    names = {re.split(r"[\[><=; ]", one)[0].lower().replace("_", "-") for one in wanted} - {"multifold"}
    locked = {name.replace("_", "-") for name, _ in install.entries(LOCK)}
    assert sorted(names - locked) == []
