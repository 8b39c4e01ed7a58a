import pytest

from pyrbacproxy.commands.terminal import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as it is, ü and 漢", "as it is, ü and 漢"),
        ("a\x1b[2Jb\r\nc\x9bd", "a?[2Jb??c?d"),
        ("\u202eright to left", "?right to left"),
        ("half \udcff", "half ?"),
    ],
)
def test_what_shows_nothing_is_replaced(text: str, shown: str) -> None:
    assert printable(text) == shown
