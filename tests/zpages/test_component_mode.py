"""Who gets in when paths guard the pages (acceptance table, sections 6.1, 6.3-6.5)."""

import json
import re
import time
from datetime import UTC, datetime

import pytest
import yaml

from pyrbacproxy.config.flag_parsing import VERSION
from pyrbacproxy.config.flags import FLAGS
from tests.field_reports.harness import get
from tests.field_reports.servers import DENIED, failed
from tests.pages.test_statusz import TEXT
from tests.zpages.pages import PageLab

STATUSZ = "Accept: application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
FLAGZ = STATUSZ.replace("Statusz", "Flagz")
PAGES = ("/statusz", "/flagz", "/version")


# --- A, C, D: what is shown ---------------------------------------------------------------


def test_z_a1_a2_the_text_over_the_wire(pages: PageLab) -> None:
    served = pages.start()
    delimiters = set()
    for _ in range(40):
        answer = served.ask("mon")
        assert answer.status == 200
        assert answer.values("content-type") == ["text/plain; charset=utf-8"]
        found = TEXT.match(answer.body.decode())
        assert found
        delimiters.add(found["d"])
    assert len(delimiters) >= 2


@pytest.mark.parametrize("env", [{}, {"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}])
def test_z_a4_a8_the_start_is_the_processs_in_utc(env: dict[str, str], pages: PageLab) -> None:
    before = time.time()
    served = pages.start(env=env, is_own=True)
    after = time.time()
    body = served.ask("mon").body.decode()
    assert TEXT.match(body)
    found = re.search(r"Started\W+(\w.*) UTC (\d{4})\n", body)
    assert found
    shown = datetime.strptime(f"{found[1]} {found[2]}", "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    # The kernel's boot time is whole seconds.
    assert before - 2 <= shown.timestamp() <= after + 1
    assert re.search(rf"Binary version\W+{re.escape(VERSION)}\n", body)


def test_z_c1_c4_objects_over_the_wire(pages: PageLab) -> None:
    served = pages.start()
    value = json.loads(served.ask("mon", "/statusz", STATUSZ, "User-Agent: x/1").body)
    assert list(value) == [
        *("kind", "apiVersion", "metadata", "startTime", "uptimeSeconds"),
        *("goVersion", "binaryVersion", "paths"),
    ]
    listed = yaml.safe_load(served.ask("mon", "/statusz", STATUSZ.replace("json", "yaml")).body)
    assert listed["uptimeSeconds"] >= value.pop("uptimeSeconds")
    assert {name: listed[name] for name in value} == value


def test_z_d1_d3_every_flag_is_shown(pages: PageLab) -> None:
    served = pages.start("--upstream=https://u:hunter2@127.0.0.1:9/")
    first = served.ask("mon", "/flagz").body
    assert first.startswith(b"\nkube-rbac-proxy flagz\nWarning: ")
    shown = json.loads(served.ask("mon", "/flagz", FLAGZ).body)["flags"]
    assert set(shown) == set(FLAGS)
    assert (
        shown.items()
        >= {
            "tls-min-version": "VersionTLS12",
            "proxy-endpoints-port": str(served.port),
            "tls-reload-interval": "1m0s",
            "allow-paths": "[]",
            "oidc-sign-alg": "[RS256]",
            "upstream-force-h2c": "false",
        }.items()
    )
    names = [re.split("[:= ]", line)[0] for line in first.decode().splitlines()[3:]]
    assert names == sorted(FLAGS)


def test_z_d2_the_text_of_flagz_never_changes(pages: PageLab) -> None:
    served = pages.start()
    assert len({served.ask("mon", "/flagz").body for _ in range(20)}) == 1


def test_z_d5_d6_no_secret_is_shown(pages: PageLab) -> None:
    served = pages.start("--upstream=https://u:hunter2@127.0.0.1:9/")
    key = (pages.lab.certificates / "server.key").read_bytes()
    for form in ("", FLAGZ, FLAGZ.replace("json", "yaml")):
        body = served.ask("mon", "/flagz", *filter(None, [form])).body
        assert b"hunter2" not in body
        assert b"server.key" in body
        assert key[40:80] not in body


# --- E: who gets in -----------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/metrics"])
def test_z_e1_a_stranger_gets_401(path: str, pages: PageLab) -> None:
    answer = pages.start().ask("none", path)
    assert (answer.status, answer.body) == (401, b"Unauthorized\n")
    assert pages.access_reviews == []


def test_z_e2_a_bad_token_gets_401(pages: PageLab) -> None:
    assert pages.start().status("bad") == 401
    assert pages.access_reviews == []


@pytest.mark.parametrize("path", ["/statusz", "/flagz"])
@pytest.mark.parametrize("who", ["mon", "sa", "admin"])
def test_z_e3_the_built_in_role_suffices(who: str, path: str, pages: PageLab) -> None:
    assert pages.start().status(who, path) == 200


@pytest.mark.parametrize("path", ["/statusz", "/flagz"])
def test_z_e3_a_certificate_can_be_in_the_group(path: str, pages: PageLab) -> None:
    served = pages.start()
    assert served.ask("none", path, certificate=pages.certificate).status == 200


@pytest.mark.parametrize("path", PAGES)
def test_z_e4_others_get_403_and_learn_nothing(path: str, pages: PageLab) -> None:
    answer = pages.start().ask("plain", path)
    assert answer.status == 403
    assert answer.value("content-type").startswith("text/plain")
    assert re.fullmatch(rb"Forbidden \(user=plain, verb=get, .*\)\n", answer.body)
    assert VERSION.encode() not in answer.body


RESOURCES = {
    "authorization": {
        "rewrites": {"byQueryParameter": {"name": "ns"}},
        "resourceAttributes": {"namespace": "{{ .Value }}", "resource": "services"},
    }
}


@pytest.mark.parametrize("config", [None, RESOURCES])
def test_z_e5_e6_exactly_the_path_is_asked_for(
    config: dict[str, object] | None, pages: PageLab
) -> None:
    assert pages.start(config=config).status("mon", "/statusz?ns=x") == 200
    (spec,) = pages.access_reviews
    assert spec["nonResourceAttributes"] == {"path": "/statusz", "verb": "get"}
    assert "resourceAttributes" not in spec
    assert (spec["user"], spec["groups"]) == ("mon", ["system:monitoring", "system:authenticated"])


@pytest.mark.parametrize("who", ["st", "cz", "px"])
def test_z_e7_grants_on_nodes_mean_nothing(who: str, pages: PageLab) -> None:
    assert pages.start().status(who) == 403


def test_z_e8_version_is_in_another_built_in_role(pages: PageLab) -> None:
    served = pages.start()
    assert served.status("mon", "/version") == 403
    pages.rbac = pages.rbac.replace("[/flagz,", "[/version, /flagz,")
    assert served.status("mon", "/version") == 200


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_z_e9_probes_need_no_credentials(path: str, pages: PageLab) -> None:
    served = pages.start()
    assert (served.ask("none", path).status, served.ask("none", path).body) == (200, b"ok")
    assert pages.lab.api.asked == []


def test_z_e10_a_single_check_needs_them(pages: PageLab) -> None:
    served = pages.start()
    assert served.status("none", "/healthz/ping") == 401
    answer = served.ask("mon", "/healthz/ping")
    assert (answer.status, answer.body) == (200, b"ok")


def test_z_e11_no_api_server_means_no_page(pages: PageLab) -> None:
    served = pages.start()
    pages.lab.api.on_access = lambda _: failed(403)
    answer = served.ask("mon")
    assert answer.status == 500
    assert re.fullmatch(rb"Authorization error \(.*\)\n", answer.body)
    pages.lab.api.on_token = lambda _: failed(403)
    assert served.status("mon") == 401


@pytest.mark.parametrize(("who", "status"), [("mon", 200), ("plain", 403)])
def test_z_e12_answers_are_remembered_for_their_time(who: str, status: int, pages: PageLab) -> None:
    for flags, reviews in ((), 1), (("--authorized-ttl=0s", "--unauthorized-ttl=0s"), 2):
        served = pages.start(*flags)
        request = get("/statusz", f"Authorization: Bearer {served.token(who)}")
        pages.lab.api.asked.clear()
        for _ in range(2):
            with served.proxy.connect(port=served.port) as client:
                client.send(request)
                assert client.answer().status == status
        assert len(pages.access_reviews) == reviews


def test_z_e13_the_main_port_forwards_these_paths(pages: PageLab) -> None:
    served = pages.start()
    answer = served.proxy.ask(get("/statusz", f"Authorization: Bearer {served.token('mon')}"))
    assert (answer.status, answer.body) == (200, b"upstream")
    assert pages.lab.upstream.targets == ["/statusz"]


def test_z_e14_without_an_endpoints_port_there_are_no_pages(pages: PageLab) -> None:
    proxy = pages.lab.start("--proxy-endpoints-port=0")
    token = pages.start().token("mon")
    answer = proxy.ask(get("/statusz", f"Authorization: Bearer {token}"))
    assert (answer.status, answer.body) == (200, b"upstream")


def test_z_e15_ignored_paths_open_no_page(pages: PageLab) -> None:
    assert pages.start("--ignore-paths=/statusz").status("none") == 401


def rule(**user: object) -> dict[str, object]:
    static = [{"user": user, "verb": "get", "path": "/statusz"}]
    return {"authorization": {"static": static}}


def test_z_e16_a_static_rule_opens_a_page_to_its_user(pages: PageLab) -> None:
    served = pages.start(config=rule(name="mon"))
    pages.lab.api.on_access = lambda _: DENIED
    assert served.status("mon") == 200
    assert pages.access_reviews == []
    assert served.status("plain") == 403
    assert served.status("mon", "/flagz") == 403


def test_z_e17_a_static_rule_for_a_group_is_for_its_members(pages: PageLab) -> None:
    served = pages.start(config=rule(groups=["system:monitoring"]))
    pages.lab.api.on_access = lambda _: DENIED
    assert served.status("mon") == 200
    assert served.status("plain") == 403


def test_a_static_rule_for_everybody_opens_no_page(pages: PageLab) -> None:
    served = pages.start(config=rule())
    pages.lab.api.on_access = lambda _: DENIED
    assert served.status("mon") == 403


def test_z_e18_an_unknown_path_is_403_before_it_is_404(pages: PageLab) -> None:
    served = pages.start()
    assert [served.status(who, "/nosuch") for who in ("plain", "mon")] == [403, 403]
    answer = served.ask("admin", "/nosuch")
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


def test_z_e19_pages_are_never_served_without_tls(pages: PageLab) -> None:
    served = pages.start()
    with served.proxy.connect(port=served.port, is_plain=True) as client:
        client.send(get("/healthz"))
        assert not client.end().startswith(b"HTTP/1.1 200")
