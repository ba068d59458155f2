"""The benchmark of two servers of embeddings, on two of ours."""

import argparse
from pathlib import Path

import pytest

from benches.service import peer
from multifold.errors import MultifoldError
from tests import tiny
from tests.app.house import house

SHORT = ["--clients", "2", "--seconds", "0.3", "--turns", "1"]


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    peer.add_arguments(parser)
    return peer.run(parser.parse_args([*words, *SHORT]))


def test_both_are_asked_for_the_same(
    tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.build(tmp_path / "other", seed=1)
    with (
        house(tmp_path / "a", bundle) as first,
        house(tmp_path / "b", bundle) as second,
        house(tmp_path / "c", tmp_path / "other") as other,
    ):
        assert run(f"{first.url}/v1", f"{second.url}/v1") == 0
        same = capsys.readouterr().out
        assert run(f"{first.url}/v1", f"{other.url}/v1", "--kinds", "text") == 0
        apart = capsys.readouterr().out
        with pytest.raises(MultifoldError, match="answers 404"):
            run(f"{first.url}/v1", f"{second.url}/v2")
    assert same.count("the least cosine between their vectors is 1.00000") == 2
    assert [line.split(" | ")[0] for line in same.splitlines()[-2:]] == ["| text", "| image"]
    assert all(float(line.split(" | ")[2]) > 0 for line in same.splitlines()[-2:])
    assert "1.00000" not in apart
