"""What tests of training share: a short training, its bundle, the exporter's operators, and what draws."""

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from functools import cache
from pathlib import Path

import pytest
from torch.onnx._internal.exporter._registration import ONNXRegistry

from renderers.sandbox import Sandbox
from tests.training import small
from tests.training.towers import kinds as towers
from tests.waiting import PATIENCE
from training import checkpoint
from training.data import points, views
from training.data.sources import folder
from training.evaluate import surface_shares
from training.export.bundle import export_bundle


@pytest.fixture(scope="session", autouse=True)
def one_registry() -> Iterator[None]:
    """The exporter reads its operators once, not for every graph, which takes a third of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_workers() -> Iterator[None]:
    """Processes that draw start slowly: the first test that needs them starts two for all."""
    with ExitStack() as closing, pytest.MonkeyPatch.context() as patch:
        workers = cache(lambda: closing.enter_context(Sandbox(2, seconds=PATIENCE)))
        for module in (folder, points, surface_shares, views):
            patch.setattr(module, "Sandbox", lambda *_, **__: nullcontext(workers()))
        yield


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tiny models are known to open_clip."""
    towers.register(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of `small.recipe()`, in the folder of its run; tests leave both as they are."""
    return small.train(small.recipe(), tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def trained_bundle(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its bundle, which tests leave as it is."""
    out = tmp_path_factory.mktemp("bundle") / "small"
    export_bundle(checkpoint.load_checkpoint(trained_run), *small.pictures(), out, {"code": "test"})
    return out
