"""What all commands do with a wrong command line."""

import pytest

from pyrbacproxy.commands.arguments import FAILED, Arguments

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize("words", [["--colour"], ["--col=red"], ["--colour=red", "more"]])
def test_a_wrong_word_ends_with_1(words: list[str], capsys: Output) -> None:
    parser = Arguments("paint", "Paints.", "exit status: 0")
    parser.add_argument("--colour")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words)
    assert ended.value.code == FAILED == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("usage: pyrbacproxy paint ")
    assert "\nError: " in told.err


def test_help_keeps_its_lines(capsys: Output) -> None:
    with pytest.raises(SystemExit) as ended:
        Arguments("paint", "Paints\nwalls.", "exit\nstatus").parse_args(["--help"])
    assert ended.value.code == 0
    assert "Paints\nwalls." in capsys.readouterr().out
