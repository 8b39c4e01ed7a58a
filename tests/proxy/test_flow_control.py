from pyrbacproxy.proxy.exchange import Brake, Reason


def test_the_first_reason_pauses_and_the_last_one_resumes() -> None:
    brake = Brake()
    assert not brake.release(Reason.QUEUE)
    assert brake.hold(Reason.QUEUE)
    assert not brake.hold(Reason.UPSTREAM_FULL)
    assert not brake.hold(Reason.UPSTREAM_FULL)
    assert not brake.release(Reason.QUEUE)
    assert not brake.release(Reason.QUEUE)
    assert brake.release(Reason.BODY_WAITS, Reason.UPSTREAM_FULL)
    assert not brake.release(Reason.UPSTREAM_FULL)
