from h2.errors import ErrorCodes

from pyrbacproxy.http2.limits import Code, ConnectionFaultError


def test_the_codes_are_those_of_the_rfc() -> None:
    assert {code.name: code.value for code in Code}.items() <= {
        code.name: code.value for code in ErrorCodes
    }.items()


def test_a_fault_carries_its_code() -> None:
    assert ConnectionFaultError(Code.CANCEL, "why").code == 8
