"""A commit that nobody pinned is the same the next time, or the pull is refused."""

import json
from pathlib import Path

import pytest

from app.pull import lock
from app.pull.published_files import PullError
from multifold.bundle import bundle as bundles
from multifold.cli import main
from tests.app.pull import hub as hubs
from tests.app.pull import published
from tests.app.pull.hub import COMMIT, Hub, serving

OTHER = "dead" + "0" * 36


def test_a_branch_that_moved_is_refused_until_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, bundle = published.clip(tmp_path / "published"), tmp_path / "bundles" / "tiny"
    asked = ["pull", "own/tiny", str(bundle)]
    with serving(Hub(folder)) as hub:
        at = ["--hub", hub.url]
        assert main([*asked, *at]) == 0
        assert json.loads((tmp_path / "bundles/encoders.lock").read_text()) == {"own/tiny": COMMIT}
        assert bundles.load(bundle).provenance["source"]["revision"] == COMMIT
        assert main([*asked, *at]) == 0
        monkeypatch.setattr(hubs, "COMMIT", OTHER)
        before, served = bundles.load(bundle).bundle_id, len(hub.asked)
        assert main([*asked, *at]) == 2
        assert f"is at {OTHER} now, and was pulled at {COMMIT} before" in capsys.readouterr().err
        assert (bundles.load(bundle).bundle_id, len(hub.asked)) == (before, served)
        assert main([*asked, *at, "--revision", OTHER]) == 0
        assert lock.locked_commit(tmp_path / "bundles", "own/tiny") == OTHER
        assert main([*asked, *at]) == 0


def test_a_hub_that_answers_with_another_commit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Hub(published.clip(tmp_path / "published"))) as hub:
        asked = ["pull", "own/tiny", str(tmp_path / "tiny"), "--hub", hub.url, "--revision", OTHER]
        assert main(asked) == 2
    assert f"answers with commit {COMMIT} of own/tiny, not {OTHER}" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "[]", '{"own/tiny": 1}'])
def test_a_damaged_lock_is_told(content: str, tmp_path: Path) -> None:
    (tmp_path / lock.LOCK_FILE).write_text(content)
    with pytest.raises(PullError, match="is damaged"):
        lock.check_commit(tmp_path, "own/tiny", COMMIT)
