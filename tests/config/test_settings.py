from dataclasses import MISSING, fields

from pyrbacproxy.config.settings import Address, Settings


def test_the_whole_has_no_defaults_of_its_own() -> None:
    """A part that `complete` forgot must not be filled in silently."""
    optional = [field.name for field in fields(Settings) if field.default is not MISSING]
    assert optional == ["warnings"]


def test_an_address_keeps_what_the_operator_wrote() -> None:
    assert Address("::1", 80, "[::1]:http").text == "[::1]:http"
