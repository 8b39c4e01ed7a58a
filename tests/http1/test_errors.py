from pyrbacproxy.http1.head import LocalProtocolError, ProtocolError, RemoteProtocolError


def test_a_remote_fault_is_a_bad_request_unless_said_otherwise() -> None:
    assert RemoteProtocolError("x").status == 400
    assert RemoteProtocolError("x", status=431).status == 431


def test_both_faults_break_the_protocol_and_are_told_apart() -> None:
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    assert not issubclass(LocalProtocolError, RemoteProtocolError)


def test_the_text_is_kept_for_the_log() -> None:
    assert str(RemoteProtocolError("no Host", status=400)) == "no Host"
