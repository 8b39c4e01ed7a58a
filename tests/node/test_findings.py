"""What programs read of a finding."""

from pyrbacproxy.node.facts import Severity


def test_severities_have_the_names_that_programs_compare() -> None:
    assert [one.value for one in Severity] == ["error", "warning"]
