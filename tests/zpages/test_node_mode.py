"""Who gets in when the node's subresources guard the pages (acceptance table, section 6.6)."""

import pytest

from tests.field_reports.servers import Document, failed
from tests.zpages.pages import DEPLOY, NODE_MODE, PageLab, shipped, shipped_for_nodes


def on_node(verb: str, subresource: str) -> Document:
    return {
        "verb": verb,
        "version": "v1",
        "resource": "nodes",
        "subresource": subresource,
        "name": "node-1",
    }


def asked(pages: PageLab) -> list[object]:
    return [spec["resourceAttributes"] for spec in pages.access_reviews]


def test_z_f1_statusz_is_a_subresource_of_the_node(pages: PageLab) -> None:
    assert pages.start(*NODE_MODE).status("st") == 200
    assert asked(pages) == [on_node("get", "statusz")]


def test_z_f2_the_right_to_the_node_proxy_does_not_help(pages: PageLab) -> None:
    answer = pages.start(*NODE_MODE).ask("px")
    assert answer.status == 403
    assert answer.body == (
        b"Forbidden (user=px, verb=get, resource=nodes, subresource(s)=[statusz])\n"
    )
    assert asked(pages) == [on_node("get", "statusz")]


def test_z_f3_the_built_in_role_does_not_suffice(pages: PageLab) -> None:
    served = pages.start(*NODE_MODE)
    assert served.status("mon") == 403
    pages.rbac += shipped_for_nodes()
    assert served.status("mon") == 200


# FR88


def test_fr88_the_default_role_opens_nothing_in_node_mode(pages: PageLab) -> None:
    pages.rbac += shipped()
    assert pages.start(*NODE_MODE).status("mon") == 403


@pytest.mark.parametrize("path", ["/readyz/ping", "/readyz/upstream", "/livez/ping"])
def test_fr88_the_right_to_the_node_proxy_opens_the_single_checks(
    pages: PageLab, path: str
) -> None:
    served = pages.start(*NODE_MODE)
    assert served.status("px", path) == 200
    assert asked(pages) == [on_node("get", "healthz"), on_node("get", "proxy")]
    assert served.status("st", path) == 403


def test_fr88_the_right_to_statusz_opens_the_version(pages: PageLab) -> None:
    served = pages.start(*NODE_MODE)
    assert served.status("st", "/version") == 200
    assert asked(pages) == [on_node("get", "statusz")]
    assert served.status("px", "/version") == 403


def test_fr88_the_readme_names_both() -> None:
    (about,) = [
        part
        for part in (DEPLOY.parent / "README.md").read_text().split("\n\n")
        if part.startswith("**Who may**")
    ]
    for named in ("`nodes/proxy`", "`/readyz/<check>`", "`/livez/ping`", "`/version`"):
        assert named in about


def test_z_f5_flagz_is_configz(pages: PageLab) -> None:
    served = pages.start(*NODE_MODE)
    assert served.status("cz", "/flagz") == 200
    answer = served.ask("px", "/flagz")
    assert answer.status == 403
    assert answer.body.endswith(b"subresource(s)=[configz])\n")
    assert served.status("st", "/flagz") == 403


def test_z_f6_a_health_check_falls_back_to_the_node_proxy(pages: PageLab) -> None:
    served = pages.start(*NODE_MODE)
    assert served.status("px", "/healthz/ping") == 200
    assert asked(pages) == [on_node("get", "healthz"), on_node("get", "proxy")]
    answer = served.ask("plain", "/healthz/ping")
    assert answer.status == 403
    assert answer.body.endswith(b"subresource(s)=[healthz proxy])\n")


def test_z_f7_a_failed_review_ends_it(pages: PageLab) -> None:
    served = pages.start(*NODE_MODE)
    pages.lab.api.on_access = lambda _: failed(403)
    answer = served.ask("px", "/healthz/ping")
    assert answer.status == 500
    assert answer.body.endswith(b"resource=nodes, subresource=healthz)\n")
    assert asked(pages) == [on_node("get", "healthz")]


@pytest.mark.parametrize(("who", "status"), [("st", 403), ("admin", 405)])
def test_z_f8_writing_is_create(who: str, status: int, pages: PageLab) -> None:
    assert pages.start(*NODE_MODE).status(who, method="POST") == status
    assert asked(pages) == [on_node("create", "statusz")]


def test_the_node_may_come_from_the_environment(pages: PageLab) -> None:
    env = {"NODE_NAME": "node-1"}
    assert pages.start("--zpages-authorization=node", env=env).status("st") == 200
    assert asked(pages) == [on_node("get", "statusz")]


def test_the_exact_health_paths_stay_open(pages: PageLab) -> None:
    served = pages.start(*NODE_MODE)
    assert [served.status("none", path) for path in ("/healthz", "/livez", "/readyz")] == [200] * 3


def test_z_f10_node_mode_needs_the_nodes_name(pages: PageLab) -> None:
    ended = pages.lab.run("--zpages-authorization=node", env={"NODE_NAME": ""})
    assert ended.code == 1
    assert "--node-name" in ended.err
