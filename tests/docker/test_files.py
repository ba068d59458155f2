"""What the images copy exists, and the build is let see it."""

import re
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
COPY = re.compile(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", re.MULTILINE)
FILES = sorted((HOUSE / "docker").glob("*.Dockerfile"))


def copied(dockerfile: Path) -> list[str]:
    return [name for names in COPY.findall(dockerfile.read_text(encoding="utf-8")) for name in names.split()]


@pytest.mark.parametrize("dockerfile", FILES, ids=lambda file: file.name)
def test_what_is_copied_is_there_and_not_ignored(dockerfile: Path) -> None:
    allowed = re.findall(r"^!(.+)$", (HOUSE / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    names = copied(dockerfile)
    assert len(names) >= 8
    assert [name for name in names if name not in allowed or not (HOUSE / name).exists()] == []


def test_both_images_build_on_the_same_tools() -> None:
    told = [re.findall(r"^ARG (?:BASE|PIP_VERSION)=.*$", file.read_text(), re.MULTILINE) for file in FILES]
    assert told[0] == told[1]


def test_the_replicas_of_kubernetes_have_an_image_with_what_their_settings_name() -> None:
    yaml = pytest.importorskip("yaml")
    overlay = HOUSE / "docker" / "k8s" / "cluster"
    settings = (overlay / "settings.env").read_text(encoding="utf-8")
    services = yaml.safe_load((HOUSE / "docker" / "compose.yaml").read_text(encoding="utf-8"))["services"]
    (image,) = yaml.safe_load((overlay / "kustomization.yaml").read_text(encoding="utf-8"))["images"]
    for tag in (image["newTag"], "latest-cluster"):
        name = f"{image['newName']}:{tag.replace('latest', '${TAG:-latest}')}"
        builds = [one["build"]["args"]["EXTRAS"] for one in services.values() if one.get("image") == name]
        assert {"postgres", "bucket", "milvus", "serve"} <= set(builds[0].split(","))
    assert {"MULTIFOLD_BUCKET", "MULTIFOLD_MILVUS"} <= {line.split("=")[0] for line in settings.split()}


def test_no_container_fills_the_disk_with_its_log() -> None:
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((HOUSE / "docker" / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for service in services.values():
        assert set(service["logging"]["options"]) == {"max-size", "max-file"}
