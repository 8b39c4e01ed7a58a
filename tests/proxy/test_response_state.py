import pytest

from pyrbacproxy.proxy.exchange import ResponseProgress, ResponseState


def test_an_answer_may_come_at_once_or_over_an_upstream_that_is_asked_twice() -> None:
    states = ResponseState
    for way in (
        [states.DONE],
        [states.CONNECTING, states.DONE],
        [states.CONNECTING, states.AWAITING, states.RELAYING, states.DONE],
        [states.CONNECTING, states.AWAITING, states.CONNECTING, states.AWAITING, states.DONE],
    ):
        progress = ResponseProgress()
        for state in way:
            progress.step(state)
        assert progress.state is states.DONE


@pytest.mark.parametrize("state", [ResponseState.DECIDING, ResponseState.RELAYING])
def test_a_state_that_cannot_follow_is_a_bug(state: ResponseState) -> None:
    with pytest.raises(RuntimeError, match="cannot become"):
        ResponseProgress().step(state)
