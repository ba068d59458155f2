"""Names of what a picture looks like, as a bundle brings them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from multifold.bundle import bundle as bundles
from multifold.bundle.bundle import BundleError
from multifold.bundle.encoder import Encoder
from multifold.bundle.looks import LOOKS_FILE, Looks, LooksError, read_looks, write_looks
from tests import tiny

NAMES = ["red", "green", "blue", "yellow"]


def picture(colour: str) -> Image.Image:
    return Image.fromarray(tiny.picture(colour))


def test_a_picture_has_the_names_that_fit_the_likeliest_first(tmp_path: Path) -> None:
    encoder = Encoder(tiny.build_with_looks(tmp_path, 0.8, NAMES))
    features = encoder.pictures([picture(name) for name in reversed(NAMES)])
    assert encoder.name_pictures(features) == [(name,) for name in reversed(NAMES)]
    assert encoder.name_pictures(features[:0]) == []


def test_a_picture_has_three_names_at_most_and_none_where_none_fits(tmp_path: Path) -> None:
    every = Encoder(tiny.build_with_looks(tmp_path / "every", least=-1.0))
    (names,) = every.name_pictures(every.pictures([picture("blue")]))
    assert (len(names), names[0]) == (3, "blue")
    none = Encoder(tiny.build_with_looks(tmp_path / "none", least=1.1))
    assert none.name_pictures(none.pictures([picture("blue")])) == [()]


def test_names_decide_no_vector(tmp_path: Path) -> None:
    plain = tiny.build(tmp_path / "plain")
    named = tiny.build_with_looks(tmp_path / "named", least=0.9)
    assert named.vector_id == plain.vector_id
    assert named.bundle_id != plain.bundle_id
    encoder = Encoder(plain)
    assert encoder.name_pictures(encoder.pictures([picture("red")])) == [()]


def test_names_that_do_not_fit_the_bundle_are_refused_when_it_opens(tmp_path: Path) -> None:
    bundle = tiny.build(tmp_path)
    write_looks(tmp_path / LOOKS_FILE, Looks(["red"], np.zeros((1, 3), np.float32), 0.8))
    with pytest.raises(BundleError, match=r"looks\.npz has not a feature of \d+ numbers for each name"):
        Encoder(bundles.save(bundle))


@pytest.mark.parametrize("damage", ["no archive", "no least", "names of numbers", "objects"])
def test_a_damaged_file_is_told(tmp_path: Path, damage: str) -> None:
    path = tmp_path / LOOKS_FILE
    features = np.zeros((2, 4), np.float32)
    strange = {"names of numbers": np.arange(2), "objects": np.array([{}, {}])}
    names = strange.get(damage, np.array(["a", "b"]))
    if damage == "no archive":
        path.write_bytes(b"no archive")
    elif damage == "no least":
        np.savez(path, names=names, features=features)
    else:
        np.savez(path, names=names, features=features, least=0.5)
    with pytest.raises(LooksError, match=r"looks\.npz"):
        read_looks(path, 4)
