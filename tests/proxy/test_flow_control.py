from pyrbacproxy.proxy.exchange import PauseReason, ReadPause


def test_the_first_reason_pauses_and_the_last_one_resumes() -> None:
    read_pause = ReadPause()
    assert not read_pause.release(PauseReason.QUEUE)
    assert read_pause.hold(PauseReason.QUEUE)
    assert not read_pause.hold(PauseReason.UPSTREAM_FULL)
    assert not read_pause.hold(PauseReason.UPSTREAM_FULL)
    assert not read_pause.release(PauseReason.QUEUE)
    assert not read_pause.release(PauseReason.QUEUE)
    assert read_pause.release(PauseReason.BODY_WAITS, PauseReason.UPSTREAM_FULL)
    assert not read_pause.release(PauseReason.UPSTREAM_FULL)
