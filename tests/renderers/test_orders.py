"""Orders for meshes, and what is reported of a mesh."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from multifold.errors import MultifoldError
from renderers.contracts import DEFAULT_LIMITS
from renderers.mesh.load import load_model
from renderers.messages import FRAME_LENGTH, MeshRequest
from renderers.orders import GlbOrder, MeshReport, Order, PointOrder, ViewOrder
from tests.renderers.exhibits import EXHIBITS


def test_a_view_of_a_rig_has_one_camera() -> None:
    assert len(ViewOrder("ring6").cameras()) == 6
    assert (ViewOrder("ring6", view=2).cameras().poses[0] == ViewOrder("ring6").cameras().poses[2]).all()


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (ViewOrder("ring6", view=6), "no view 6"),
        (ViewOrder("round"), "no camera rig"),
        (ViewOrder(size=7), "pixels"),
        (PointOrder(3), "points, not 3"),
    ],
)
def test_what_cannot_be_done_is_refused(order: Order, reason: str) -> None:
    with pytest.raises(MultifoldError, match=reason):
        order.check()


@pytest.mark.parametrize(
    "order", [ViewOrder(), ViewOrder("ring3", 8, "black", 1, PointOrder(30, 2)), PointOrder(40), GlbOrder()]
)
def test_a_request_comes_over_as_it_is(order: Order) -> None:
    request = MeshRequest("a.glb", "folder", "z", DEFAULT_LIMITS, order)
    frame = request.frame()
    assert FRAME_LENGTH.unpack(frame[: FRAME_LENGTH.size]) == (len(frame) - FRAME_LENGTH.size,)
    assert MeshRequest.decode(frame[FRAME_LENGTH.size :]) == request


def test_a_report_comes_over_as_it_is(tmp_path: Path) -> None:
    report = MeshReport.of(load_model(EXHIBITS["stl"][1](tmp_path)))
    assert report.up == "z"
    assert report.facts["triangles"]
    assert MeshReport.decode(json.loads(json.dumps(asdict(report)))) == report


def test_facts_that_are_no_numbers_are_left_out() -> None:
    said = {"height": 2.0, "animated": False, "width": float("nan"), "depth": 1e300, "owner": "me"}
    report = MeshReport.decode({"up": "y", "up_reason": "", "facts": said})
    assert report.facts == {"height": 2.0, "animated": False}
