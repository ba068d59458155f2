"""Alerts and dashboard ask for what the service measures, and alerts come when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.app.house import house

FOLDER = Path(__file__).resolve().parents[2] / "docker" / "monitoring"
NAME = re.compile(r"\bmultifold_\w+")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> set[str]:
    """The names at /metrics, those of a histogram's parts included."""
    with house(tmp_path_factory.mktemp("measured"), bundle) as shop:
        kinds = re.findall(r"^# TYPE (\w+) (\w+)$", shop.client.get("/metrics").text, re.MULTILINE)
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    return {name + part for name, kind in kinds for part in parts.get(kind, ("",))}


@pytest.mark.parametrize("file", ["alerts.yml", "alerts_test.yml", "grafana/multifold.json"])
def test_what_is_asked_for_is_measured(measured: set[str], file: str) -> None:
    asked = set(NAME.findall((FOLDER / file).read_text(encoding="utf-8")))
    assert len(asked) >= 5
    assert asked <= measured


def test_every_measure_is_shown_or_watched(measured: set[str]) -> None:
    told = "".join((FOLDER / file).read_text() for file in ("alerts.yml", "grafana/multifold.json"))
    families = {re.sub("_(bucket|sum|count)$", "", name) for name in measured}
    assert {name for name in families if name not in told} == set()


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((FOLDER / "grafana" / "multifold.json").read_text())["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus")
@pytest.mark.parametrize(
    "asked", ["check config prometheus.yml", "check rules alerts.yml", "test rules alerts_test.yml"]
)
def test_prometheus_agrees(asked: str) -> None:
    ran = subprocess.run(
        ["promtool", *asked.split()], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
