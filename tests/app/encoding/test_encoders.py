"""Which bundle a collection is served with."""

import shutil
from pathlib import Path

import pytest

from app.encoding.encoders import OpenEncoders, with_recorded_bundle
from app.settings import Settings
from index.collection import Collection
from multifold.bundle.canary import open_encoder
from renderers.sandbox import Sandbox
from tests import tiny
from tests.waiting import PATIENCE


@pytest.fixture
def two_bundles(tmp_path: Path) -> Path:
    """A folder of two bundles with one name, `tiny`, that make different vectors."""
    for seed, name in enumerate(("tiny", "former")):
        tiny.build(tmp_path / "bundles" / name, seed)
    return tmp_path / "bundles"


def test_a_collection_is_served_with_the_bundle_that_made_it(tmp_path: Path, two_bundles: Path) -> None:
    data = tmp_path / "data"
    with Collection.open(data, open_encoder(two_bundles / "former")):
        pass

    def taken(data: Path, bundle: Path) -> Path:
        return with_recorded_bundle(Settings(data=data, bundle=bundle)).bundle

    assert taken(data, two_bundles / "tiny") == two_bundles / "former"
    assert taken(data, two_bundles / "former") == two_bundles / "former"
    assert taken(tmp_path / "new", two_bundles / "tiny") == two_bundles / "tiny"
    alone = shutil.copytree(two_bundles / "tiny", tmp_path / "elsewhere" / "tiny")
    assert taken(data, alone) == alone


def test_of_bundles_with_one_name_the_folder_says_which(tmp_path: Path, two_bundles: Path) -> None:
    settings = Settings(data=tmp_path, bundle=two_bundles / "former", bundles=two_bundles)
    with Sandbox(workers=1, seconds=PATIENCE) as sandbox:
        encoders = OpenEncoders(settings, sandbox)
        assert encoders.first.encoder.bundle.name == "tiny"
        assert encoders.named("tiny").encoder.bundle.folder.name == "tiny"
        assert encoders.named("former") is encoders.first
