"""The drill of a killed writer."""

import pytest

from multifold.cli import main


@pytest.mark.slow
def test_nothing_is_lost_in_a_few_kills(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "durability", "--rounds", "3"]) == 0
    kills, _, _, *wrong = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert (kills, wrong) == ("3", ["0", "0", "0"])
