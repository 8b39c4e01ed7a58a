"""What all commands do with a wrong command line."""

import pytest

from pyrbacproxy.commands.terminal import FAILED, Arguments

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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--color=red"], "unknown flag: --color, did you mean --colour?"),
        (["--Colour", "red"], "unknown flag: --Colour, did you mean --colour?"),
        (["--surface=wall"], "unknown flag: --surface"),
        (
            ["--color=red", "--x", "--wall=1"],
            "unknown flag: --color, did you mean --colour?; unknown flag: --x",
        ),
        (["--wall=1", "more"], "unrecognized arguments: more"),
        ([], "the following arguments are required: --wall"),
    ],
)
def test_fr98_an_unknown_flag_is_answered_with_the_nearest(
    words: list[str], told: str, capsys: Output
) -> None:
    parser = Arguments("paint", "Paints.", "exit status: 0")
    parser.add_argument("--colour")
    parser.add_argument_group("where").add_argument("--wall", required=True)
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert capsys.readouterr().err.endswith(f"\nError: {told}\n")


def test_help_keeps_its_lines(capsys: Output) -> None:
    with pytest.raises(SystemExit) as ended:
        Arguments("paint", "Paints\nwalls.", "exit\nstatus").parse_args(["--help"])
    assert ended.value.code == 0
    assert "Paints\nwalls." in capsys.readouterr().out
