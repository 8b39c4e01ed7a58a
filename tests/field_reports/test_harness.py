"""The harness itself: what it promises to the tests that stand on it."""

from tests.field_reports.harness import Lab, bearer, get, post
from tests.field_reports.servers import DENIED, user


def test_a_request_goes_through_and_is_recorded(lab: Lab) -> None:
    proxy = lab.start()
    token = lab.token(user("alice", "g1"))
    answer = proxy.ask(post("/x?a=b", b"hello", bearer(token)))
    assert (answer.status, answer.body) == (200, b"upstream")
    assert lab.upstream.targets == ["/x?a=b"]
    assert lab.upstream.requests[0].message.body == b"hello"
    assert [call.spec["token"] for call in lab.api.token_reviews()] == [token]
    assert lab.api.access_reviews("alice")[0]["nonResourceAttributes"] == {
        "path": "/x",
        "verb": "create",
    }


def test_processes_are_shared_and_tests_start_anew(lab: Lab) -> None:
    assert lab.start() is lab.start()
    assert lab.upstream.requests == []
    lab.api.on_access = lambda _: DENIED
    assert lab.start().ask(get("/metrics"), "alice").status == 403


def test_a_process_that_ends_is_told(lab: Lab) -> None:
    ended = lab.run("--no-such-flag")
    assert ended.code != 0
    assert "no-such-flag" in ended.err


def test_secrets_and_tracebacks_are_found(lab: Lab) -> None:
    proxy = lab.start()
    (proxy.folder / "out").write_text("Traceback\nmy token is word")
    assert proxy.judge({"word"}) == ["Traceback in out", "secret word in out"]
