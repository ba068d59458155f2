"""Keys are kept as hashes, in a file that a command writes, or come from the environment."""

import stat
from pathlib import Path

import pytest

from app.operations.keys import ApiKey, ApiKeyError, hash_key, parse_keys, read_keys
from multifold.cli import main
from multifold.client import Client
from tests.app.answers import refused
from tests.app.house import house


def test_a_key_is_made_shown_once_used_and_removed(
    tmp_path: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys.toml"
    assert main(["keys", "add", "ci", "--scope", "write", "--file", str(file)]) == 0
    secret = capsys.readouterr().out.splitlines()[0]
    assert secret not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_keys(file) == [ApiKey("ci", "write", hash_key(secret))]
    assert main(["keys", "add", "ci", "--file", str(file)]) == 2
    assert main(["keys", "list", "--file", str(file)]) == 0
    assert "ci: write" in capsys.readouterr().out
    with house(tmp_path / "data", bundle, keys_file=file) as shop, Client(shop.url, api_key=secret) as client:
        assert client.upsert("a", texts=["red"]).version == 1
        refused(shop.client.get("/v1/info"), 401, "unauthorized")
    assert main(["keys", "remove", "ci", "--file", str(file)]) == 0
    assert main(["keys", "remove", "ci", "--file", str(file)]) == 2
    assert read_keys(file) == []
    with pytest.raises(ApiKeyError, match="holds no key"), house(tmp_path / "data", bundle, keys_file=file):
        pass  # it would be open to all


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "[a]\nscope = 'read'",
        "[a]\nscope = 'all'\nsha256 = 'ab'",
        "[a]\nscope = 'read'\nsha256 = 'ab'",
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(ApiKeyError):
        read_keys(file)


@pytest.mark.parametrize("text", ["read", "read:short", "all:0123456789abcdef", ":0123456789abcdef"])
def test_keys_of_the_environment_are_checked(text: str) -> None:
    with pytest.raises(ApiKeyError, match="is not SCOPE:KEY") as caught:
        parse_keys(text)
    assert "0123456789" not in str(caught.value)
