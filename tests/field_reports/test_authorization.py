"""Field reports of kind AUTHZ: what is checked, and what a static rule says."""

from collections.abc import Mapping
from urllib.parse import quote

import pytest

from tests.conformance.wire import free_port
from tests.field_reports.harness import Lab, bearer, get
from tests.field_reports.servers import ALLOWED, DENIED, Asked, Reply, user

METRICS = {
    "authorization": {"static": [{"path": "/metrics", "verb": "get", "user": {"name": "alice"}}]}
}


def rules(*entries: Mapping[str, object]) -> dict[str, object]:
    """An authorization file with these static rules."""
    return {"authorization": {"static": list(entries)}}


def rewriting(*entries: Mapping[str, object], **rewrites: str) -> dict[str, object]:
    """A file that checks `pods` of the namespace in the query `q` or the header `h`."""
    sources = {"q": "byQueryParameter", "h": "byHttpHeader"}
    attributes = {"apiVersion": "v1", "resource": "pods", "namespace": "{{ .Value }}"}
    document: dict[str, object] = {
        "resourceAttributes": attributes,
        "rewrites": {sources[key]: {"name": name} for key, name in rewrites.items()},
    }
    if entries:
        document["static"] = list(entries)
    return {"authorization": document}


def namespaces(lab: Lab) -> list[object]:
    """The namespaces of all access reviews, in order."""
    found: list[object] = []
    for spec in lab.api.access_reviews():
        attributes = spec["resourceAttributes"]
        assert isinstance(attributes, dict)
        found.append(attributes.get("namespace", ""))
    return found


def deny_namespace(name: str) -> Reply:
    return DENIED if name == "b" else ALLOWED


def deny_b(call: Asked) -> Reply:
    attributes = call.spec["resourceAttributes"]
    assert isinstance(attributes, dict)
    return deny_namespace(str(attributes.get("namespace", "")))


# --- FR40: verbs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "verb"),
    [
        *(("GET", "get"), ("POST", "create"), ("PUT", "update"), ("PATCH", "patch")),
        *(("DELETE", "delete"), ("HEAD", "*"), ("OPTIONS", "*"), ("TRACE", "*"), ("PURGE", "*")),
        *(("PROPFIND", "*"), ("LOCK", "*")),
    ],
)
def test_fr40_a_method_is_a_verb(lab: Lab, method: str, verb: str) -> None:
    proxy = lab.start(config=METRICS)
    data = get("/metrics", bearer(lab.token(user("alice"))), method=method)
    answer = proxy.ask(data, to_head=method == "HEAD")
    assert answer.status == 200
    asked = [spec["nonResourceAttributes"] for spec in lab.api.access_reviews()]
    assert asked == [{"path": "/metrics", "verb": verb}] * (verb != "get")
    assert lab.upstream.requests[0].message.start == f"{method} /metrics HTTP/1.1"


def test_fr40_a_lower_case_method_is_none(lab: Lab) -> None:
    proxy = lab.start(config=METRICS)
    assert proxy.ask(get("/metrics", method="get"), "alice").status == 501
    assert lab.upstream.raw == b""


def test_fr40_head_is_not_covered_by_get_when_the_api_server_is_away(lab: Lab) -> None:
    dead = lab.world.write_kubeconfig("dead", f"http://127.0.0.1:{free_port()}")
    proxy = lab.start(f"--kubeconfig={dead}", config=METRICS)
    assert proxy.ask(get("/metrics"), "alice").status == 200
    assert proxy.ask(get("/metrics", method="HEAD"), "alice", to_head=True).status == 500


# --- FR41, DEC-D1: groups --------------------------------------------------------------


# Who a rule names, and whether that is alice of g1 and g2. Each has a path of its own.
WHO: list[tuple[dict[str, object], bool]] = [
    ({"groups": ["system:masters"]}, False),
    ({"groups": ["g1"]}, True),
    ({"groups": ["nobody", "g2"]}, True),
    ({"groups": ["system:authenticated"]}, True),
    ({"groups": ["G1"]}, False),
    ({"groups": ["g"]}, False),
    ({"groups": []}, True),
    ({"name": "alice", "groups": ["g1"]}, True),
    ({"name": "alice", "groups": ["g3"]}, False),
    ({"name": "bob", "groups": ["g1"]}, False),
]
GROUP_RULES = rules(
    *({"path": f"/{n}", "verb": "get", "user": who} for n, (who, _) in enumerate(WHO))
)


@pytest.mark.parametrize("number", range(len(WHO)), ids=[str(who) for who, _ in WHO])
def test_fr41_a_rule_with_groups_matches_their_members_only(lab: Lab, number: int) -> None:
    proxy = lab.start(config=GROUP_RULES)
    lab.api.on_access = lambda _: DENIED
    answer = proxy.ask(get(f"/{number}"), "alice")
    is_alice = WHO[number][1]
    assert answer.status == (200 if is_alice else 403)
    assert len(lab.api.access_reviews()) == (not is_alice)
    if not is_alice:
        assert answer.body == b"Forbidden (user=alice, verb=get, resource=, subresource=)\n"


def test_fr41_groups_of_a_token_count_as_well(lab: Lab) -> None:
    proxy = lab.start(config=GROUP_RULES)
    lab.api.on_access = lambda _: DENIED
    assert proxy.ask(get("/1", bearer(lab.token(user("carol", "g1"))))).status == 200
    assert proxy.ask(get("/1", bearer(lab.token(user("dave", "g2"))))).status == 403


# --- FR42: missing and contradictory fields --------------------------------------------


WIDE_RULES = rules(
    {"path": "/any-verb", "user": {"name": "alice"}},
    {"path": "/any-user", "verb": "get"},
    {"path": "/star", "verb": "*"},
    {"path": "/no-name", "verb": "get", "user": {"name": ""}},
    {"path": "/glob/*", "verb": "get"},
    {"path": "/slash/", "verb": "get"},
    {"path": "/mixed", "verb": "get", "resource": "pods"},
    {"resourceRequest": True},
)


@pytest.mark.parametrize(
    ("method", "target", "certificate", "status"),
    [
        ("PUT", "/any-verb", "alice", 200),
        ("OPTIONS", "/any-verb", "alice", 200),
        ("PUT", "/any-verb", "bob", 403),
        ("GET", "/any-user", "bob", 200),
        ("PUT", "/any-user", "bob", 403),
        ("GET", "/star", "bob", 403),
        ("OPTIONS", "/star", "bob", 200),
        ("GET", "/no-name", "bob", 200),
        ("GET", "/glob/x", "bob", 403),
        ("GET", "/glob/*", "bob", 200),
        ("GET", "/slash", "bob", 403),
        ("GET", "/slash/", "bob", 200),
        ("GET", "/mixed", "bob", 403),
        ("GET", "/other", "bob", 403),
    ],
)
def test_fr42_an_empty_field_means_any_and_a_full_one_itself(
    lab: Lab, method: str, target: str, certificate: str, status: int
) -> None:
    proxy = lab.start(config=WIDE_RULES)
    lab.api.on_access = lambda _: DENIED
    assert proxy.ask(get(target, method=method), certificate).status == status


def test_fr42_nobody_is_still_not_a_user(lab: Lab) -> None:
    assert lab.start(config=WIDE_RULES).ask(get("/any-user")).status == 401


@pytest.mark.parametrize(
    "rule",
    [
        {"resourceRequest": True, "path": "/x"},
        {"resourceRequest": False},
        {"user": {"name": "alice"}},
        {},
    ],
    ids=str,
)
def test_fr42_a_contradictory_rule_ends_the_start(lab: Lab, rule: dict[str, object]) -> None:
    ended = lab.run(config=rules(rule))
    assert ended.code == 1
    assert "authorization.static" in ended.err


def test_fr42_path_rules_beside_resource_attributes_are_warned_about(lab: Lab) -> None:
    proxy = lab.start(config=rewriting({"path": "/x", "verb": "get"}, q="namespace"))
    proxy.wait_for("static")
    lab.api.on_access = lambda _: DENIED
    assert proxy.ask(get("/x?namespace=a"), "alice").status == 403


# --- FR43: each value is checked -------------------------------------------------------

BOTH = rewriting(q="namespace", h="X-Namespace")


@pytest.mark.parametrize(
    ("target", "lines", "asked", "status"),
    [
        ("/m?namespace=a", (), ["a"], 200),
        ("/m?namespace=a&namespace=b", (), ["a", "b"], 403),
        ("/m?namespace=b&namespace=a", (), ["b"], 403),
        ("/m?namespace=a&namespace=c", (), ["a", "c"], 200),
        ("/m?n%61mespace=%61&x=b", (), ["a"], 200),
        ("/m?namespace=a+%2B", (), ["a +"], 200),
        ("/m", ("X-Namespace: a", "x-namespace: b"), ["a", "b"], 403),
        ("/m", ("X-NAMESPACE: a",), ["a"], 200),
        ("/m", ("x-namespace: a,b",), ["a,b"], 200),
        ("/m?namespace=a", ("X-Namespace: b",), ["a", "b"], 403),
        ("/m?namespace=a", ("X-Namespace: c",), ["a", "c"], 200),
        ("/m?namespace=", (), [""], 200),
        ("/m?namespace", (), [""], 200),
        ("/m", ("X-Namespace:",), [""], 200),
        ("/m", (), [], 400),
        ("/m?Namespace=a", (), [], 400),
        ("/m?x=namespace", ("Connection: X-Namespace",), [], 400),
    ],
)
def test_fr43_every_value_is_authorized(
    lab: Lab, target: str, lines: tuple[str, ...], asked: list[str], status: int
) -> None:
    proxy = lab.start(config=BOTH)
    lab.api.on_access = deny_b
    line = bearer(lab.token(user("carol")))
    assert proxy.ask(get(target, *lines, line)).status == status
    assert namespaces(lab) == asked
    assert lab.upstream.targets == [target] * (status == 200)


@pytest.mark.parametrize(
    "lines",
    [
        ("Connection: X-Namespace",),
        ("Connection: x-namespace, close",),
        ("Connection: keep-alive", "Connection: X_Namespace"),
    ],
)
@pytest.mark.parametrize("target", ["/m", "/m?namespace=a"])
def test_dec_d36_connection_takes_no_checked_header_away(
    lab: Lab, target: str, lines: tuple[str, ...]
) -> None:
    proxy = lab.start(config=BOTH)
    line = bearer(lab.token(user("carol")))
    assert proxy.ask(get(target, "X-Namespace: a", *lines, line)).status == 400
    assert lab.api.access_reviews() == []
    assert lab.upstream.targets == []


def test_dec_d36_connection_may_name_any_other_header(lab: Lab) -> None:
    proxy = lab.start(config=BOTH)
    line = bearer(lab.token(user("carol")))
    answer = proxy.ask(get("/m", "X-Namespace: a", "X-Hop: 1", "Connection: X-Hop", line))
    assert answer.status == 200
    assert namespaces(lab) == ["a"]


def test_fr43_a_static_rule_for_one_value_does_not_cover_the_other(lab: Lab) -> None:
    rule = {"resourceRequest": True, "resource": "pods", "namespace": "a"}
    proxy = lab.start(config=rewriting(rule, q="namespace"))
    lab.api.on_access = deny_b
    assert proxy.ask(get("/m?namespace=a"), "alice").status == 200
    assert namespaces(lab) == []
    assert proxy.ask(get("/m?namespace=a&namespace=b"), "alice").status == 403
    assert namespaces(lab) == ["b"]


# --- FR45: values are data -------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        *("{{.Value}}", "{{ .Value }}", "{0.__class__}", "%(x)s", "${x}", "a/b", "$(id)", "`id`"),
        *("{{", '{{printf "%s" .Value}}', "a" * 10_240, "../..", "é€", "\\", "'\"<>", "a\tb"),
    ],
    ids=lambda value: value[:20],
)
@pytest.mark.parametrize("source", ["query", "header"])
def test_fr45_a_value_is_never_evaluated(lab: Lab, value: str, source: str) -> None:
    proxy = lab.start(config=BOTH)
    target = f"/m?namespace={quote(value, safe='')}" if source == "query" else "/m"
    lines = []
    if source == "header":
        value = value.encode("ascii", "ignore").decode()
        lines = [f"X-Namespace: {value}"]
    line = bearer(lab.token(user("carol")))
    assert proxy.ask(get(target, *lines, line)).status == 200
    assert namespaces(lab) == [value]


# --- DEC-D7: what the check could not parse --------------------------------------------


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/m?namespace=a;namespace=b", 400),
        ("/m?namespace=a&x;y", 400),
        ("/m?namespace=a&x=%zz", 400),
        ("/m?namespace=a&%", 400),
        ("/m?namespace=a&x=%3B", 200),
        (f"/m?namespace=a{'&x=1' * 999}", 200),
        (f"/m?namespace=a{'&x=1' * 1000}", 400),
    ],
    ids=["semicolon", "semicolon in a name", "bad escape", "percent", "escaped", "1000", "1001"],
)
def test_dec_d7_a_query_that_can_be_read_twice_is_refused(
    lab: Lab, target: str, status: int
) -> None:
    proxy = lab.start(config=rewriting(q="namespace"))
    line = bearer(lab.token(user("carol")))
    assert proxy.ask(get(target, line)).status == status
    assert lab.upstream.targets == [target] * (status == 200)


@pytest.mark.parametrize("config", [None, rewriting(h="x-namespace")], ids=["none", "header"])
def test_dec_d7_without_a_query_rewrite_the_query_is_untouched(
    lab: Lab, config: dict[str, object] | None
) -> None:
    proxy = lab.start(config=config)
    target = f"/m?a;b=%zz&%{'&x=1' * 1200}"
    assert proxy.ask(get(target, "X-Namespace: a"), "alice").status == 200
    assert lab.upstream.targets == [target]


@pytest.mark.parametrize(
    ("flags", "config", "content_type", "status"),
    [
        ((), BOTH, "application/x-www-form-urlencoded", 200),
        (("--reject-form-bodies",), BOTH, "application/x-www-form-urlencoded", 415),
        (("--reject-form-bodies",), BOTH, "Application/X-WWW-Form-Urlencoded;charset=utf-8", 415),
        (("--reject-form-bodies",), BOTH, "multipart/form-data; boundary=x", 415),
        (("--reject-form-bodies",), BOTH, "application/json", 200),
        (("--reject-form-bodies",), None, "application/x-www-form-urlencoded", 200),
    ],
)
def test_dec_d7_form_bodies_can_be_refused(
    lab: Lab,
    flags: tuple[str, ...],
    config: dict[str, object] | None,
    content_type: str,
    status: int,
) -> None:
    proxy = lab.start(*flags, config=config)
    head = get(
        "/m?namespace=a", f"Content-Type: {content_type}", "Content-Length: 11", method="POST"
    )
    assert proxy.ask(head + b"namespace=b", "alice").status == status
    assert len(lab.upstream.requests) == (status == 200)


# --- DEC-D22 ---------------------------------------------------------------------------


def test_dec_d22_no_account_is_built_in(lab: Lab) -> None:
    proxy = lab.start()
    lab.api.on_access = lambda _: DENIED
    name = "system:serviceaccount:openshift-monitoring:prometheus-k8s"
    assert proxy.ask(get("/metrics", bearer(lab.token(user(name))))).status == 403
    assert len(lab.api.access_reviews(name)) == 1
