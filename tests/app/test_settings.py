"""Settings come from arguments, environment and a file, in this order; what makes no sense is said."""

from pathlib import Path

import pytest

from app.operations.keys import find_key
from app.settings import FORMER_NAMES, Settings, SettingsError, read_settings
from tests.app.settings_page import PAGE, SECTIONS, settings_page


def test_arguments_go_before_environment_before_file_before_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "multifold.toml"
    file.write_text('port = 1\nmax_text = 2\nqueue = 3\nlog = "all"\n')
    monkeypatch.setenv("MULTIFOLD_CONFIG", str(file))
    monkeypatch.setenv("MULTIFOLD_MAX_TEXT", "20")
    monkeypatch.setenv("MULTIFOLD_PORT", "10")
    settings = read_settings({"port": 100})
    assert (settings.port, settings.max_text, settings.queue, settings.batch) == (100, 20, 3, 32)
    assert read_settings({"config": file}).log == "all"


def test_former_names_are_accepted_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "multifold.toml"
    file.write_text('patience = 7.0\nroots = "/srv"\nprobe_every = 9.0\n')
    monkeypatch.setenv("MULTIFOLD_PROBE_EVERY", "5")
    settings = read_settings({"config": file})
    assert (settings.request_timeout, settings.probe_interval) == (7, 5)
    assert settings.in_place_folders == "/srv"
    for former, name in FORMER_NAMES.items():
        named = f"the setting {former} is now called {name}" in caplog.text
        assert named == (former != "fetch")
    monkeypatch.setenv("MULTIFOLD_PROBE_INTERVAL", "4")
    assert read_settings({"config": file}).probe_interval == 4


@pytest.mark.parametrize("text", ["prot = 1", "port = 'x'", "port", "port = -1"])
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "multifold.toml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        read_settings({"config": file})
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings({"config": tmp_path / "none.toml"})


def test_more_than_one_process_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    with pytest.raises(SettingsError, match="4 processes, but one process writes"):
        read_settings({})


def test_a_folder_has_a_collection_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings(folder="~/models").folder == tmp_path.resolve() / "models"  # type: ignore[arg-type]
    assert read_settings({"folder": tmp_path / "models"}).data == Path("data/models")
    given = {"folder": tmp_path / "models", "bundle": Path("bundles/siglip2-b16-small")}
    assert read_settings(given).data == Path("data/models-siglip2-b16-small")
    assert read_settings(given | {"data": tmp_path}).data == tmp_path
    monkeypatch.setenv("MULTIFOLD_FOLDER", "")
    assert (read_settings({}).folder, read_settings({}).data) == (None, Path("data"))
    monkeypatch.setenv("MULTIFOLD_FOLDER", str(tmp_path / "things"))
    assert read_settings({}).data == Path("data/things")


def test_secrets_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTIFOLD_KEYS", "read:0123456789abcdef")
    settings = read_settings({})
    assert "0123456789" not in repr(settings)
    assert "0123456789" not in str(settings.model_dump().items())
    assert find_key(settings.known_keys(), "0123456789abcdef") is not None


def test_the_page_of_settings_is_current() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(Settings.model_fields)
    assert PAGE.read_text(encoding="utf-8") == settings_page(), "run: python -m tests.app.settings_page"
