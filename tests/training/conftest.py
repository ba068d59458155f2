"""What tests of training share: one short training, its bundle, and the exporter's list of operators."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from torch.onnx._internal.exporter._registration import ONNXRegistry

from tests.training import small
from training import checkpoint
from training.export.bundle import export_bundle


@pytest.fixture(scope="session", autouse=True)
def one_registry() -> Iterator[None]:
    """The exporter reads its operators once, not for every graph, which takes a third of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
        yield


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of `small.recipe()`, in the folder of its run; tests leave both as they are."""
    return small.train(small.recipe(), tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def trained_bundle(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its bundle, which tests leave as it is."""
    folder = tmp_path_factory.mktemp("bundle") / "small"
    export_bundle(checkpoint.load_checkpoint(trained_run), *small.pictures(), folder, {"code": "test"})
    return folder
